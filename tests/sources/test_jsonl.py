"""Following a file of JSON lines: across bad lines, restarts and kills, each line once."""

import threading

import pytest
from structlog.testing import capture_logs

from ragmon.errors import OverloadedError, SettingsError, StoreError
from ragmon.plugins import resolve
from ragmon.quarantine import decode
from ragmon.sources import IngestOutcome, SourceContext
from tests.support.daemons import running
from tests.support.jsonl import Follower, Killed
from tests.support.wait import eventually


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
    by_reason = {reason: text for _, reason, text in log.disk.examples}
    assert by_reason["invalid"].startswith(f"{log.path}, byte 26: latency_ms: ")
    assert set(by_reason) == {"malformed", "invalid", "encoding", "too_old"}


def test_lines_of_another_form_are_mapped(tmp_path):
    mapping = {"query_id": "id", "query": "input.question", "timestamp": "ts"}
    log = Follower(tmp_path, mapping=mapping)
    log.path.write_bytes(
        b'{"id": "a", "input": {"question": "why"}}\n{"id": "b", "ts": "soon"}\n[1]\nno json\n'
    )
    assert log.read() == ["a"]
    assert log.disk.counted == {
        "accepted": 1, "duplicates": 0, "invalid": 1, "malformed": 1, "mapping": 1,
        "no query": 2, "no timestamp": 2, "no query_id": 1,
    }  # fmt: skip


def test_what_cannot_be_mapped_is_not_tried_again_as_a_record(tmp_path):
    """Every field of a record is optional: an original would be taken for one without any."""
    log = Follower(tmp_path, mapping={"query": "sort(a)"})
    log.path.write_bytes(b'{"a": 3}\n{"a": ["x"]}\n')
    log.read()
    contents = [decode(item.body) for item in log.disk.quarantined]
    assert [content.whole for content in contents] == [False, True]
    assert contents[1].line == b'{"query":["x"]}'


def test_a_bad_mapping_stops_the_start():
    with pytest.raises(SettingsError, match=r"sources.0.*query: 'a b'.*character 3"):
        resolve(
            "ragmon.sources",
            "sources.0",
            {"kind": "jsonl", "path": "x", "mapping": {"query": "a b"}},
        )


def test_what_becomes_of_a_batch_is_counted(tmp_path):
    log = Follower(tmp_path, records="feedback")
    log.disk.outcome = IngestOutcome(1, 2, [(0, "waiting_full"), (3, "waiting_full")])
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


def test_what_is_not_read_yet_is_known_also_across_a_rotation(log):
    assert log.source.unread_bytes is None
    log.write(*(f"{at:06}-{'x' * 200}" for at in range(15_000)))
    size = log.path.stat().st_size
    while log.source.unread_bytes is None:
        log.source.step()
    assert log.source.unread_bytes == size
    log.source.step()
    assert size - (1 << 20) <= log.source.unread_bytes < size
    before = log.source.unread_bytes
    log.rename()
    log.write("next")
    log.source.step()
    assert log.source.unread_bytes < before
    assert log.source.unread_bytes > log.path.stat().st_size > 0
    log.read()
    assert log.source.unread_bytes == 0


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

    log.source._context = SourceContext(
        sink=log.disk, counters=log.disk, clock=log.disk.clock, offset=offset,
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
