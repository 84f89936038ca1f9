"""Following a file of JSON lines across rotation and truncation: each line once."""

import gzip
import os
import subprocess
import tracemalloc

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from ragmon.sources.jsonl import Options
from tests.support.jsonl import NOW, Follower, Killed
from tests.support.tools import program


@pytest.fixture
def log(tmp_path):
    return Follower(tmp_path)


# ------------------------------------------------------------------- rotation by renaming


def test_rotation_by_renaming(log):
    log.write("a", "b")
    log.read()
    log.write("c")
    log.rename()
    log.write("d")
    assert log.read() == ["a", "b", "c", "d"]
    log.write("e")
    log.restart()
    assert log.read() == ["a", "b", "c", "d", "e"]


def test_an_application_that_still_writes_to_the_renamed_file_loses_nothing(log):
    # logrotate renames and creates, and only then tells the application to reopen its log.
    log.write("a")
    log.read()
    old = log.rename()
    log.path.touch()
    assert log.read() == ["a"]
    log.write("b", to=old)
    assert log.read() == ["a", "b"]
    log.write("c", to=old)
    log.write("d")
    assert log.read() == ["a", "b", "c", "d"]


def test_writers_that_reopen_one_after_another_lose_nothing(log):
    log.write("a")
    log.read()
    old = log.rename()
    log.write("from the new one")
    assert log.source.step() is False  # the old file was quiet for no time at all
    log.disk.clock.sleep(2)
    log.write("b", to=old)
    assert log.source.step() is True
    assert log.read() == ["a", "b", "from the new one"]


def test_a_last_line_without_line_break_is_read_when_its_file_is_over(log):
    log.write("a")
    log.read()
    log.write("b", end="")
    assert log.read() == ["a"]
    log.rename()
    assert log.read() == ["a"]
    log.write("c")
    assert log.read() == ["a", "b", "c"]


def test_half_a_line_at_the_end_of_a_rotated_file_is_counted(log):
    log.write("a", end='\n{"query_')
    log.read()
    log.rename()
    log.write("b")
    with capture_logs() as logged:
        assert log.read() == ["a", "b"]
    assert log.disk.counted["malformed"] == 1
    assert logged


def test_several_rotations_while_nobody_looked(log):
    log.write("a")
    log.read()
    log.write("b")
    log.rename(".3")
    log.write("c")
    log.rename(".2")
    log.write("d")
    log.rename(".1")
    log.write("e")
    for age, name in enumerate((log.path, *map(log.rotated, (".1", ".2", ".3")))):
        os.utime(name, (NOW - 100 * age, NOW - 100 * age))
    log.restart()
    assert log.read() == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("suffix", [".1", "-20250615", ".2025-06-15", ".2025-06-15_12-00-00"])
def test_the_names_that_rotation_gives(log, suffix):
    log.write("a")
    log.read()
    log.write("b")
    log.rename(suffix)
    log.write("c")
    assert log.read() == ["a", "b", "c"]


def test_a_date_before_the_extension(log):
    log.write("a")
    log.read()
    log.write("b")
    log.path.rename(log.path.with_name("rag-20250615.log"))
    log.write("c")
    assert log.read() == ["a", "b", "c"]


def test_files_that_only_look_alike_are_left_alone(log):
    for name in ("rag.log.bak", "rag.log.lock", "rag.log.1.gz", "rag.logs", "other.log"):
        (log.path.parent / name).write_text('{"query_id":"not mine"}\n', encoding="utf-8")
    log.write("a")
    log.read()
    log.rename()
    log.write("b")
    assert log.read() == ["a", "b"]


def test_brackets_in_the_name_are_no_pattern(tmp_path):
    log = Follower(tmp_path)
    log.path = tmp_path / "rag[1].log"
    log._options = Options(path=log.path)
    log.restart()
    log.write("a")
    log.read()
    log.write("b")
    log.rename()
    log.write("c")
    assert log.read() == ["a", "b", "c"]


def test_between_renaming_and_creating_there_is_no_file(log):
    log.write("a")
    log.read()
    log.write("b")
    log.rename()
    assert log.read() == ["a", "b"]
    log.write("c")
    assert log.read() == ["a", "b", "c"]


# ---------------------------------------------------------------- rotation by truncating

LONG = "x" * 230  # lines long enough to tell one file's beginning from another's


def test_copytruncate(log):
    log.write(f"a{LONG}", f"b{LONG}")
    log.read()
    log.copy_truncate()
    assert len(log.read()) == 2
    log.write(f"c{LONG}")
    assert [each[0] for each in log.read()] == ["a", "b", "c"]


def test_copytruncate_with_lines_not_read_yet(log):
    log.write(f"a{LONG}", f"b{LONG}")
    log.read()
    log.write(f"c{LONG}")
    log.copy_truncate()
    log.write(f"d{LONG}")
    assert [each[0] for each in log.read()] == ["a", "b", "c", "d"]


def test_copytruncate_and_soon_longer_than_before(log):
    log.write(f"a{LONG}", f"b{LONG}")
    log.read()
    log.copy_truncate()
    log.write(*(f"{each}{LONG}" for each in "cdefg"))
    assert "".join(each[0] for each in log.read()) == "abcdefg"


def test_truncated_without_a_copy(log):
    log.write("a", "b")
    log.read()
    os.truncate(log.path, 0)
    with capture_logs() as logged:
        assert log.read() == ["a", "b"]
        log.write("c")
        assert log.read() == ["a", "b", "c"]
    assert [each["event"] for each in logged] == ["file_replaced"]


# ------------------------------------------------------------------- other files, same name


def test_a_file_that_was_deleted_and_made_again_is_read_from_its_beginning(log):
    log.write("a", "b")
    log.read()
    log.path.unlink()
    assert log.read() == ["a", "b"]
    log.write("c", "d", "e")
    assert log.read() == ["a", "b", "c", "d", "e"]


def test_an_inode_used_again_is_another_file(log):
    log.write("a", "b")
    log.read()
    inode = log.path.stat().st_ino
    with log.path.open("r+", encoding="utf-8") as file:  # what a reused inode looks like
        file.write('{"query_id":"z"}\n{"query_id":"y"}\n{"query_id":"x"}\n')
    assert log.path.stat().st_ino == inode
    with capture_logs():
        assert log.read() == ["a", "b", "z", "y", "x"]


def test_a_directory_in_its_place_is_waited_out(log):
    log.path.mkdir()
    assert log.read() == []
    log.path.rmdir()
    log.write("a")
    assert log.read() == ["a"]


# ------------------------------------------------------------------- rotation that compresses

MARK = "file_damaged"


def ids(start, end):
    return [f"id-{at:06}" for at in range(start, end)]


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_rotation_that_compresses_at_once_loses_nothing(log, end):
    log.write("a", "b")
    log.read()
    log.write("c")
    log.compress(log.rename(), end)
    log.write("d")
    assert log.read() == ["a", "b", "c", "d"]
    log.restart()
    log.write("e")
    assert log.read() == ["a", "b", "c", "d", "e"]


def test_a_file_that_is_compressed_while_it_is_read_is_read_on(log):
    many = ids(0, 60_000)
    log.write(*many)
    log.source.step()  # it is seen
    assert log.source.step() is True
    assert 0 < len(log.disk.records) < 60_000
    log.compress(log.rename())
    log.write("new")
    assert log.source.step() is True
    log.restart()  # what was decompressed so far is forgotten
    assert log.read() == [*many, "new"]


def test_a_file_that_was_compressed_before_its_first_line_was_read(log):
    log.write("a")
    log.read()
    log.rename()
    log.write("b")
    log.source.step()
    log.disk.clock.sleep(60)
    assert log.source.step() is True  # it stands at the beginning of the new file
    assert log.disk.records == ["a"]
    log.compress(log.rename(".2"))
    log.write("c")
    assert log.read() == ["a", "b", "c"]


def test_a_kill_before_the_first_line_was_committed_and_a_rotation_lose_nothing(log):
    log.write("a", "b")
    assert log.source.step() is True
    log.disk.killed = "before"
    with pytest.raises(Killed):
        log.source.step()
    assert log.disk.records == []
    log.disk.killed = ""
    log.compress(log.rename())
    log.write("c")
    log.restart()
    assert log.read() == ["a", "b", "c"]


def test_several_compressed_rotations_while_nobody_looked(log):
    log.write("a")
    log.read()
    for age, (name, suffix) in enumerate(zip("bcde", (".4", ".3", ".2", ".1"), strict=True)):
        log.write(name)
        os.utime(log.path, (NOW + age, NOW + age))
        rotated = log.rename(suffix)
        if suffix != ".1":  # as logrotate's delaycompress leaves it
            log.compress(rotated)
    log.write("f")
    log.restart()
    assert log.read() == list("abcdef")


def test_a_file_that_was_read_before_compression_was_turned_on_is_not_read_again(log):
    log.write("a")
    log.read()
    log.rename(".2")
    log.write("b")
    log.read()
    log.compress(log.rename(".1"))
    log.write("c")
    assert log.read() == ["a", "b", "c"]


def test_what_came_after_a_deleted_file_is_read_still(log):
    log.write("a")
    log.read()
    read_at = log.path.stat().st_mtime
    log.rename(".3").unlink()
    for age, (name, suffix) in enumerate((("b", ".2"), ("c", ".1")), 1):
        log.write(name)
        os.utime(log.path, (read_at + age, read_at + age))
        log.compress(log.rename(suffix))
    log.write("d")
    log.restart()
    assert log.read() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_while_a_compressed_file_is_read_repeats_and_skips_nothing(log, moment):
    many = ids(0, 60_000)
    log.write(*many)
    log.source.step()
    log.compress(log.rename())
    log.write("new")
    log.disk.killed = moment
    with pytest.raises(Killed):
        log.source.step()
    log.disk.killed = ""
    log.restart()
    assert log.read() == [*many, "new"]


def test_members_appended_to_a_compressed_file_are_read(log):
    log.write("a")
    log.read()
    log.write("b", "c")
    content = log.rename().read_bytes()
    log.rotated().unlink()
    half = len(content) // 2
    packed = gzip.compress(content[:half]) + gzip.compress(content[half:])
    log.rotated(".1.gz").write_bytes(packed)
    log.write("d")
    assert log.read() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_a_damaged_compressed_file_is_read_as_far_as_it_goes_and_counted(log, end):
    many = ids(0, 60_000)
    log.write(*many)
    log.source.step()
    packed = log.compress(log.rename(), end)
    content = bytearray(packed.read_bytes())
    content[len(content) * 3 // 4 :] = b"\xff" * 1_000
    packed.write_bytes(content)
    log.write("new")
    with capture_logs() as logged:
        records = log.read()
    assert records[-1] == "new"
    assert records[:-1] == many[: len(records) - 1]
    assert log.disk.counted["damaged_file"] == 1
    assert MARK in [entry["event"] for entry in logged]


def test_a_file_that_grows_a_thousandfold_takes_little_memory(log):
    log.write("a")
    log.read()
    with log.path.open("ab") as file:
        file.write(b" " * (64 << 20) + b"\n")
    log.write("b")
    log.compress(log.rename())
    log.write("c")
    tracemalloc.start()
    try:
        with capture_logs():
            assert log.read() == ["a", "b", "c"]
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("rag.log.gz", "ragmon replay"), ("rag.jsonl.zst", "rotation"), ("rag-*.log", "a source for")],
)
def test_a_path_that_cannot_be_followed_is_refused_with_the_remedy(tmp_path, name, remedy):
    with pytest.raises(ValidationError, match=remedy):
        Options(path=tmp_path / name)


LOGROTATE = """
{path} {{
    rotate 20
    compress
    create
    missingok
    su root root
}}
"""


def test_logrotate_itself(log, tmp_path):
    settings = tmp_path / "logrotate.conf"
    settings.write_text(LOGROTATE.format(path=log.path), encoding="utf-8")
    settings.chmod(0o600)
    rotate = [program("logrotate"), "--force", "--state", str(tmp_path / "state"), str(settings)]
    expected = []
    for turn in range(4):
        expected += (more := ids(turn * 100, turn * 100 + 100))
        log.write(*more)
        log.source.step()
        expected += (more := [f"late-{turn}"])
        log.write(*more)
        subprocess.run(rotate, check=True)
    log.write("last")
    log.restart()
    assert log.read() == [*expected, "last"]
