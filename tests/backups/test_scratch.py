"""Folders of copies: gone after the block, and after the death of who made them."""

import fcntl
import os
import subprocess
import sys

from ragmon.backups.scratch import remove_abandoned, scratch_folder


def test_a_folder_is_private_and_goes_with_the_block(tmp_path):
    with scratch_folder(tmp_path) as folder:
        (folder / "copy").write_text("a question")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed(tmp_path):
    code = (
        "import os, pathlib, sys; from ragmon.backups.scratch import scratch_folder\n"
        "with scratch_folder(pathlib.Path(sys.argv[1])) as folder:\n"
        "    (folder / 'copy').write_text('a question'); os._exit(9)"
    )
    died = subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert died.returncode == 9
    (left,) = tmp_path.iterdir()
    with scratch_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert not left.exists()


def test_a_folder_in_use_and_the_files_of_others_stay(tmp_path):
    other = tmp_path / ".ragmon-backup-of-another-process"
    other.mkdir()
    (other / "copy").write_text("under way")
    (tmp_path / "notes").write_text("mine")
    descriptor = os.open(other, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert remove_abandoned(tmp_path) == []
    finally:
        os.close(descriptor)
    assert (tmp_path / "notes").exists()
    assert remove_abandoned(tmp_path) == [other]


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "data"
    target.mkdir()
    (target / "ragmon.sqlite").write_text("the store")
    (tmp_path / ".ragmon-backup-link").symlink_to(target)
    assert remove_abandoned(tmp_path) == []
    assert (target / "ragmon.sqlite").exists()
