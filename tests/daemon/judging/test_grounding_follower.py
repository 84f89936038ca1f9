"""The follower reads every answer once, or a known share; crashes repeat and skip nothing."""

import os
import signal
import sys
import threading

import msgspec
import pytest
from structlog.testing import capture_logs

from ragmon.clock import ManualClock, SystemClock
from ragmon.config import Settings
from ragmon.daemon.build import build_engine
from ragmon.daemon.judging import committed_reader, grounding_follower
from ragmon.daemon.judging.committed_reader import CommittedReader
from ragmon.daemon.judging.grounding_follower import (
    CRASHED,
    HUNG,
    TOO_LONG,
    GroundingFollower,
    VerdictHooks,
)
from ragmon.daemon.judging.grounding_process import (
    GroundingProcess,
    JudgeHungError,
    JudgeStartError,
    WorkerLimits,
)
from ragmon.daemon.judging.session_turns import SessionTurns
from ragmon.judges.grounding import GroundingResult
from ragmon.judges.worker import AnswerToRead, WorkerReply, WorkerStart, frame
from ragmon.records import Chunk, QueryRecord
from ragmon.sources import Submission

NOW = 1_750_000_000.0


class Scripted:
    """A worker that remembers what it was asked, and ends when told."""

    def __init__(self):
        self.asked = []
        self.ends_after = None

    def judge(self, cases):
        if self.ends_after is not None and len(self.asked) >= self.ends_after:
            self.ends_after = None
            raise EOFError("the judge's process ended")
        self.asked += cases
        return [GroundingResult(0.75, None, (), (), "test") for _ in cases]

    def restart(self):
        pass

    def stop(self):
        pass


class Site:
    """An engine with a running writer, and a follower driven by hand."""

    def __init__(self, folder):
        self.engine = build_engine(Settings(data_dir=folder), ManualClock(NOW))
        self.engine.restore()
        self.engine.writer.start()
        self.worker = Scripted()
        self.counted = []
        self.follower = self.following(self.worker)

    def following(self, worker, turns=None):
        shard = self.engine.shard
        reader = CommittedReader(
            self.engine.store.reader,
            newest=lambda: {0: shard.next_sequence},
            position=lambda name: self.ask(lambda: shard.offset(name)),
            cache=self.engine.record_cache,
            turns=turns,
        )
        return GroundingFollower(
            reader,
            self.engine.writer,
            worker,
            ManualClock(NOW),
            VerdictHooks(
                on_verdict=lambda _, verdict: self.counted.append(verdict.reason or "scored")
            ),
        )

    def log(self, *records):
        group = [Submission("test", 1, lambda _: None, records=list(records))]
        self.ask(lambda: self.engine.writer.commits.commit(group, NOW))

    def ask(self, function):
        return self.engine.thread.submit(function).result(10)

    def follow(self):
        """Steps until there is nothing new; what the worker's end interrupts goes on."""
        with self.engine.store.reader() as reader:
            moved = True
            while moved:
                try:
                    moved = self.follower.step(reader)
                except EOFError:
                    continue

    def estimate(self, name):
        catalogue = self.engine.pipeline.catalogue
        at = catalogue.index(name)
        rows = self.ask(lambda: self.engine.windows.merge(3_600.0, NOW)).rows
        number = self.engine.windows.series.keys[("default", "", "")]
        return rows[number, at], rows[number, len(catalogue.columns) + at]  # n, sum

    def close(self):
        self.engine.writer.stop(5)
        self.engine.store.close()


@pytest.fixture
def site(tmp_path):
    opened = Site(tmp_path)
    yield opened
    opened.close()


def answered(number, **fields):
    chunks = [Chunk("a", text=f"Passage {number} of the manual.")]
    usual = {"timestamp": NOW - 1.0, "query": "what?", "answer": f"It is {number}."}
    return QueryRecord(query_id=f"q{number}", **{**usual, "chunks": chunks, **fields})


@pytest.mark.parametrize("alone", [True, False])
def test_an_answer_that_is_too_long_is_left_out_unread(site, monkeypatch, alone):
    monkeypatch.setattr(grounding_follower, "LONGEST", 1_000)
    long = QueryRecord(
        query_id="long",
        timestamp=NOW - 60,
        answer="x" * 600,
        chunks=[Chunk(id="d", text="y" * 401)],
    )
    others = [] if alone else [answered("before"), long, answered("after")]
    with capture_logs() as logs:
        site.log(*(others or [long]))
        site.follow()
    assert len(site.worker.asked) == max(0, len(others) - 1)
    assert site.counted == [
        TOO_LONG if each.query_id == "long" else "scored" for each in others or [long]
    ]
    assert [each["reason"] for each in logs if each["event"] == "answer_not_judged"] == [TOO_LONG]


def test_large_answers_are_read_a_few_at_a_time(site, monkeypatch):
    batches, judge = [], site.worker.judge

    def noted(cases):
        batches.append(sum(len(case.answer) for case in cases))
        return judge(cases)

    monkeypatch.setattr(committed_reader, "_BATCH_BYTES", 50_000)
    monkeypatch.setattr(site.worker, "judge", noted)
    sizes = [10_000] * 20 + [200_000] + [10_000] * 20
    site.log(*(answered(at, answer="a" * size) for at, size in enumerate(sizes)))
    site.follow()
    assert [len(case.answer) for case in site.worker.asked] == sizes, "each once, in order"
    assert max(batches) < 50_000 + 200_000
    assert len(batches) >= 8
    assert site.counted == ["scored"] * len(sizes)
    assert site.follower.backlog == 0


def test_every_answer_with_context_is_read_once(site):
    site.log(*(answered(number) for number in range(70)))
    site.log(
        answered(70, answer=None), answered(71, chunks=None), answered(72, chunks=[Chunk("a")])
    )
    site.follow()
    assert [case.answer for case in site.worker.asked] == [f"It is {n}." for n in range(70)]
    assert site.worker.asked[3] == AnswerToRead("what?", "It is 3.", ["Passage 3 of the manual."])
    assert site.estimate("grounding") == (70, pytest.approx(70 * 0.75))
    assert site.counted == ["scored"] * 70
    assert site.follower.backlog == 0


def test_what_was_read_to_be_judged_is_not_read_again_to_be_counted(site, monkeypatch):
    site.log(*(answered(number) for number in range(40)))
    read = []
    monkeypatch.setattr(site.engine.shard, "record", read.append)
    site.follow()
    assert site.estimate("grounding")[0] == 40
    assert read == []


def test_a_conversation_goes_on_over_a_restart(site):
    of_session = {"session_id": "s", "timestamp": NOW - 120}
    turns = SessionTurns(2)
    site.follower = site.following(site.worker, turns)
    site.log(answered(1, **of_session), answered(2), answered(3, session_id="s"))
    site.follow()
    assert [case.earlier for case in site.worker.asked] == [(), (), ("Passage 1 of the manual.",)]
    site.log(answered(4, session_id="s", timestamp=NOW))
    again = Scripted()
    site.follower = site.following(again, SessionTurns(1))
    site.follower.resume()
    with site.engine.store.reader() as reader:
        site.follower.recall(reader)
    site.follow()
    assert [case.earlier for case in again.asked] == [("Passage 3 of the manual.",)]


def test_a_restart_goes_on_where_the_verdicts_end(site, tmp_path):
    site.log(*(answered(number) for number in range(40)))
    site.follow()
    site.log(*(answered(number) for number in range(40, 60)))
    again = Scripted()
    site.follower = site.following(again)
    site.follower.resume()
    site.follow()
    assert [case.answer for case in again.asked] == [f"It is {n}." for n in range(40, 60)]
    assert site.estimate("grounding")[0] == 60


def test_the_end_of_the_worker_loses_no_answer(site):
    site.worker.ends_after = 32
    site.log(*(answered(number) for number in range(100)))
    site.follow()
    assert site.estimate("grounding_coverage") == (100, 100)


def test_behind_its_capacity_a_share_is_drawn_and_known(site):
    site.follower._rate = 100 / 30  # as if measured: room for a hundred in half a minute
    for begin in range(0, 2_000, 500):
        site.log(*(answered(number) for number in range(begin, begin + 500)))
    with site.engine.store.reader() as reader:
        assert site.follower.step(reader)
    share = site.follower.progress.share
    assert share == pytest.approx(100 / 2_000)
    found = [site.engine.shard.amendments((sequence,)) for sequence in range(640)]
    drawn = sum(bool(each) for each in found)
    assert 10 < drawn < 70  # about 32 of the first 640
    read, covered = site.estimate("grounding_coverage")
    assert (read, covered) == (2_000, drawn)
    weights = site.engine.pipeline.catalogue.index("grounding_moment", of="w")
    rows = site.ask(lambda: site.engine.windows.merge(3_600.0, NOW)).rows
    columns = len(site.engine.pipeline.catalogue.columns)
    assert rows[:, columns + weights].max() == pytest.approx(drawn / share)


def test_answers_that_expired_are_passed_over(site):
    site.log(*(answered(number, timestamp=NOW - 500_000.0) for number in range(10)))
    site.log(*(answered(number) for number in range(10, 20)))
    site.ask(site.engine.snapshot)  # only what the saved windows have counted expires
    site.ask(lambda: site.engine.shard.expire(NOW - 400_000.0, None))
    site.follow()
    assert [case.answer for case in site.worker.asked] == [f"It is {n}." for n in range(10, 20)]
    assert site.follower.backlog == 0


class Blind:
    """A reader of hashes that opens no block."""

    def __init__(self, reader):
        self.hashes_from = reader.hashes_from


def test_what_is_committed_while_the_judge_follows_is_judged_without_opening_a_block(site):
    site.follower.resume()
    site.log(answered(0))
    site.follow()
    site.log(*(answered(number) for number in range(1, 20)))
    with site.engine.store.reader() as reader:
        assert site.follower.step(Blind(reader))
    site.follow()
    assert [case.answer for case in site.worker.asked] == [f"It is {n}." for n in range(20)]
    assert site.estimate("grounding") == (20, 0.75 * 20)


def test_what_expired_meanwhile_is_not_restated(site):
    site.follower.resume()
    site.log(answered(0))
    site.follow()
    site.log(*(answered(number, timestamp=NOW - 9 * 86_400.0) for number in range(1, 5)))
    site.log(answered(5))
    site.ask(site.engine.snapshot)
    assert site.ask(lambda: site.engine.expire(NOW + 85_000.0)) == 4
    site.follow()
    assert [case.answer for case in site.worker.asked] == ["It is 0.", "It is 5."]


def test_the_real_worker_judges_in_a_process_and_comes_back_after_its_end():
    worker = GroundingProcess(1.0, SystemClock())
    supported = AnswerToRead(
        "capital?",
        "Paris is the capital of France.",
        ["Paris has been the capital of France for centuries, on the river Seine."],
    )
    refused = AnswerToRead("capital?", "I do not know.", supported.chunks)
    try:
        good, none = worker.judge([supported, refused])
        assert good.score > 0.5
        assert (none.score, none.reason_none) == (None, "refusal")
        worker._process.kill()
        worker._process.wait()  # so that the next batch finds a broken pipe
        with pytest.raises((EOFError, OSError)):
            worker.judge([supported])
        worker.restart()
        assert worker.judge([supported])[0] == good
    finally:
        worker.stop()
    assert "ragmon.judges.worker" in worker._command
    assert worker._command[0] == sys.executable
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(supported), type=AnswerToRead) == supported


def test_an_end_in_the_middle_of_a_batch_is_no_trouble(site):
    asked, ended = threading.Event(), threading.Event()

    def judge(cases):
        asked.set()
        assert ended.wait(10)
        raise EOFError("the judge's process ended")

    site.worker.judge, site.worker.stop = judge, ended.set
    site.log(answered(1))
    with capture_logs() as logged:
        site.follower.start()
        assert asked.wait(10)
        site.follower.stop()
    assert logged == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(JudgeHungError("no answer"), HUNG, id="it hangs"),
        pytest.param(EOFError("it ended"), CRASHED, id="it crashes"),
    ],
)
def test_an_answer_that_the_judge_cannot_read_costs_itself_only(site, error, reason):
    judge = site.worker.judge

    def unless_poisoned(cases):
        if any(case.answer == "It is 20." for case in cases):
            raise error
        return judge(cases)

    site.worker.judge = unless_poisoned
    site.log(*(answered(number) for number in range(40)))
    with capture_logs() as logged:
        site.follow()
    assert sorted(site.counted) == sorted([reason, *["scored"] * 39])
    (skipped,) = [each for each in logged if each["event"] == "answer_not_judged"]
    assert (skipped["query_id"], skipped["reason"]) == ("q20", reason)
    assert site.follower.restarts >= 2
    assert site.follower.backlog == 0


def test_a_process_that_is_ended_three_times_costs_no_answer(site):
    site.worker.ends_after = 0
    site.log(*(answered(number) for number in range(40)))
    site.follow()
    assert site.counted == ["scored"] * 40


CASE = AnswerToRead("capital?", "It is Paris.", ["Paris is the capital of France."])


def test_a_process_that_is_stopped_is_noticed_and_started_again():
    worker = GroundingProcess(1.0, SystemClock())
    try:
        before = worker.judge([CASE])
        worker._limits = WorkerLimits(batch_s=0.2, answer_s=0.0)
        os.kill(worker._process.pid, signal.SIGSTOP)
        with pytest.raises(JudgeHungError, match="does not answer"):
            worker.judge([CASE])
        worker.restart()
        worker._limits = WorkerLimits(batch_s=30.0)
        assert worker.judge([CASE]) == before
    finally:
        worker.stop()


STARTED = frame(WorkerStart("test"))


def program(*written):
    """A command that writes a part at once, and the next after each frame that it reads."""
    lines = "import os, sys, time"
    for part in written:
        lines += f"; os.write(1, {part!r}); os.read(0, 1)"
    return [sys.executable, "-c", f"{lines}; time.sleep(60)"]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b"Warning: something a library prints, longer than a head", id="a text"),
        pytest.param(b"\x01\x00\x00\x00\xc1", id="no message"),
        pytest.param(frame(WorkerReply([], 0.0)), id="too few results"),
    ],
)
def test_nonsense_on_the_pipe_is_noticed(written):
    worker = GroundingProcess(1.0, SystemClock(), command=program(STARTED, written))
    try:
        with pytest.raises(JudgeHungError):
            worker.judge([CASE])
    finally:
        worker.stop()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param(program(b"\x01\x00\x00\x00\xc1"), "nonsense", id="nonsense"),
        pytest.param([sys.executable, "-c", "pass"], "ended", id="it ends"),
        pytest.param(
            program(frame(WorkerStart(error="no weights in /models"))),
            "no weights in /models",
            id="its model cannot be loaded",
        ),
    ],
)
def test_a_process_that_does_not_start_costs_no_answer(site, command, says):
    worker = GroundingProcess(1.0, SystemClock(), command=command)
    site.follower = site.following(worker)
    site.log(answered(1))
    try:
        with site.engine.store.reader() as reader, pytest.raises(JudgeStartError, match=says):
            site.follower.step(reader)
    finally:
        worker.stop()
    assert site.counted == []
    assert site.follower.backlog == 1
