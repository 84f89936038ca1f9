"""Following a file of JSON lines across rotation and truncation: each line once."""

import os

import pytest
from structlog.testing import capture_logs

from ragmon.sources.jsonl import Options
from tests.support.jsonl import NOW, Follower


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
