"""Following a file of JSON lines: across rotation, truncation and restarts, each line once."""

import os
import threading

import pytest
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.errors import OverloadedError, StoreError
from ragmon.sources import Context, Outcome
from ragmon.sources.jsonl import JsonlSource, Options
from tests.support.daemons import running
from tests.support.wait import eventually

NOW = 1_750_000_000.0


class Killed(BaseException):
    """The process ends here."""


class Disk:
    """What outlives the source: records and offsets, committed together. Also sink and tally."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.records: list[str] = []
        self.offsets: dict[str, bytes] = {}
        self.counted: dict[str, int] = {}
        self.trouble: list[Exception] = []
        self.outcome: Outcome | None = None  # instead of all being accepted
        self.killed: str = ""  # "before" or "after" the next commit

    def submit(self, submission) -> None:
        if self.trouble:
            trouble = self.trouble.pop(0)
            if isinstance(trouble, OverloadedError):
                raise trouble
            submission.reply(Outcome(error=trouble))
            return
        if self.killed == "before":
            raise Killed
        self.records += [each.query_id for each in submission.records or submission.changes]
        source, position = submission.offset
        self.offsets[source] = position
        if self.killed == "after":
            raise Killed
        submission.reply(self.outcome or Outcome(accepted=len(submission.records)))

    def accepted(self, source, count):
        self.counted["accepted"] = self.counted.get("accepted", 0) + count

    def duplicated(self, source, count):
        self.counted["duplicates"] = self.counted.get("duplicates", 0) + count

    def rejected(self, source, reason, count=1):
        assert source == "jsonl"
        self.counted[reason] = self.counted.get(reason, 0) + count


class Follower:
    """A source that is restarted at will, its disk, and the file it follows."""

    def __init__(self, folder, **options) -> None:
        self.path = folder / "rag.log"
        self.disk = Disk()
        self._options = Options(path=self.path, **options)
        self.restart()

    def restart(self) -> None:
        context = Context(
            sink=self.disk,
            tally=self.disk,
            clock=self.disk.clock,
            offset=self.disk.offsets.get,
            retention_s=7 * 86_400,
            max_skew_s=300,
        )
        self.source = JsonlSource(self._options, context)

    def write(self, *ids: str, to=None, end: str = "\n") -> None:
        with (to or self.path).open("a", encoding="utf-8") as file:
            file.write("\n".join(f'{{"query_id":"{each}"}}' for each in ids) + end)

    def read(self) -> list[str]:
        """Everything there is to read; rotation is given the time to be over."""
        for _ in range(3):
            while self.source.step():
                pass
            self.disk.clock.sleep(60)
        return self.disk.records

    def rotated(self, suffix: str = ".1"):
        return self.path.with_name(self.path.name + suffix)

    def rename(self, suffix: str = ".1"):
        return self.path.rename(self.rotated(suffix))

    def copy_truncate(self, suffix: str = ".1") -> None:
        self.rotated(suffix).write_bytes(self.path.read_bytes())
        os.truncate(self.path, 0)


@pytest.fixture
def log(tmp_path):
    return Follower(tmp_path)


# ------------------------------------------------------------------------------- reading


def test_lines_are_read_as_they_come(log):
    assert log.read() == []  # no file yet
    log.write("a", "b")
    assert log.read() == ["a", "b"]
    assert log.read() == ["a", "b"]
    log.write("c")
    assert log.read() == ["a", "b", "c"]
    assert log.disk.counted == {"accepted": 3, "duplicates": 0}


def test_half_a_line_waits_for_its_other_half(log):
    log.write("a")
    with log.path.open("a", encoding="utf-8") as file:
        file.write('{"query_')
    assert log.read() == ["a"]
    with log.path.open("a", encoding="utf-8") as file:
        file.write('id":"b"}\n')
    assert log.read() == ["a", "b"]


def test_bad_lines_are_counted_and_told_with_their_place(log):
    log.path.write_bytes(
        b'{"query_id":"a"}\noops\n\n \r\n{"query_id":"b","latency_ms":"x"}\n'
        b'{"mine":"\xff"}\n{"query_id":"old","timestamp":1}\n{"query_id":"c"}\r\n'
    )
    with capture_logs() as logged:
        assert log.read() == ["a", "c"]
    assert log.disk.counted == {
        "accepted": 2, "duplicates": 0, "malformed": 1, "invalid": 1, "encoding": 1, "too_old": 1,
    }  # fmt: skip
    assert [each["at_byte"] for each in logged] == [17, 26, 60, 73]
    assert logged[1]["field"] == "latency_ms"


def test_what_becomes_of_a_batch_is_counted(tmp_path):
    log = Follower(tmp_path, records="feedback")
    log.disk.outcome = Outcome(1, 2, [(0, "waiting_full"), (3, "waiting_full")])
    log.path.write_text('{"query_id":"a","rating":1}\n' * 5, encoding="utf-8")
    log.read()
    assert log.disk.counted == {"accepted": 1, "duplicates": 2, "waiting_full": 2}


def test_a_line_without_end_is_given_up_in_pieces(log):
    with log.path.open("wb") as file:
        file.write(b'{"query":"')
        for _ in range(17):
            file.write(b"x" * (1 << 20))
    log.read()
    with log.path.open("ab") as file:
        file.write(b'"}\n{"query_id":"after"}\n')
    with capture_logs():
        assert log.read() == ["after"]
    assert log.disk.counted["malformed"] >= 1


@pytest.mark.parametrize(
    ("records", "line"),
    [
        ("feedback", '{"query_id":"a","rating":1}\n'),
        ("labels", '{"query_id":"a","faithful":1}\n'),
    ],
)
def test_feedback_and_labels_can_be_followed(tmp_path, records, line):
    log = Follower(tmp_path, records=records)
    log.path.write_text(line, encoding="utf-8")
    assert log.read() == ["a"]


def test_a_large_file_is_read_in_batches(log):
    log.write(*(f"{at:06}-{'x' * 200}" for at in range(15_000)))
    batches = 0
    while log.source.step():
        batches += 1
    assert batches >= 3
    assert [each[:6] for each in log.disk.records] == [f"{at:06}" for at in range(15_000)]


# ------------------------------------------------------------------------------ restarts


def test_a_restart_goes_on_where_it_was(log):
    log.write("a", "b")
    log.read()
    log.restart()
    assert log.read() == ["a", "b"]
    log.write("c")
    log.restart()
    assert log.read() == ["a", "b", "c"]


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_kill_around_a_commit_neither_repeats_nor_skips(log, killed):
    log.write("a", "b")
    log.read()
    log.write("c", "d")
    log.disk.killed = killed
    with pytest.raises(Killed):
        log.source.step()
    log.disk.killed = ""
    log.restart()
    log.write("e")
    assert log.read() == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param([OverloadedError("full", retry_after_s=1)] * 2, id="a full queue"),
        pytest.param([StoreError("disk full")] * 2, id="a store that refuses"),
    ],
)
def test_what_cannot_be_committed_now_is_tried_again(log, trouble, monkeypatch):
    monkeypatch.setattr("ragmon.sources._RETRY_S", 0.01)
    log.disk.trouble = list(trouble)
    log.write("a", "b")
    assert log.read() == ["a", "b"]


def test_a_stop_leaves_what_was_not_committed_for_later(log):
    log.disk.trouble = [StoreError("disk full")] * 100
    log.write("a")
    log.source.start()
    eventually(lambda: len(log.disk.trouble) < 100, "it tries")
    log.source.stop()
    assert log.disk.records == []
    log.disk.trouble = []
    log.restart()
    assert log.read() == ["a"]


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
    assert [each["event"] for each in logged] == ["begins_anew"]


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


# ---------------------------------------------------------------------- within the daemon


def test_a_store_that_cannot_be_asked_does_not_end_the_thread(tmp_path):
    log = Follower(tmp_path, poll_s=0.01)
    asked = threading.Event()
    answers = [StoreError("locked"), OSError("gone")]

    def offset(name):
        if answers:
            raise answers.pop(0)
        asked.set()
        return log.disk.offsets.get(name)

    log.source._context = Context(
        sink=log.disk, tally=log.disk, clock=log.disk.clock, offset=offset,
        retention_s=1e9, max_skew_s=300,
    )  # fmt: skip
    log.write("a")
    with capture_logs() as logged:
        log.source.start()
        eventually(lambda: log.disk.records == ["a"], "it is read after all")
        log.source.stop()
    assert [each["event"] for each in logged] == ["cannot_read", "cannot_read"]


def test_exactly_once_across_restarts_of_the_daemon(tmp_path):
    path = tmp_path / "rag.log"
    flags = {"sources": [{"kind": "jsonl", "path": str(path), "poll_s": 0.02}]}

    def write(first: int, last: int) -> None:
        with path.open("a", encoding="utf-8") as file:
            # Without ids: a line read twice would count twice.
            file.writelines('{"pipeline":"followed"}\n' for _ in range(first, last))

    def counted(site) -> float:
        return site.total("ragmon_queries_total", pipeline="followed")

    write(0, 300)
    with running(tmp_path / "data", **flags) as site:
        eventually(lambda: counted(site) == 300, "the lines are counted")
        assert site.total("ragmon_ingest_records_total", source="jsonl") == 300
    write(300, 500)
    with running(tmp_path / "data", **flags) as site:
        eventually(lambda: counted(site) == 500, "the lines that came meanwhile are counted")
        write(500, 510)
        eventually(lambda: counted(site) == 510, "and those after")
