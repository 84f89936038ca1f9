"""The one thread that writes: grouping, the bound, failures that stay with their cause, the end."""

import threading

import pytest
from structlog.testing import capture_logs

from ragmon.clock import SystemClock
from ragmon.daemon.ingest.parts import split
from ragmon.daemon.ingest.writer import Writer
from ragmon.errors import OverloadedError, StoreError, StoreFullError
from ragmon.records import Feedback, QueryRecord
from ragmon.sources import IngestOutcome, Submission
from tests.support.wait import eventually


class Commits:
    """Remembers groups; holds on while told to; fails for the sources that it is told of."""

    def __init__(self, failing: dict[str, Exception] | None = None) -> None:
        self.groups: list[list[str]] = []
        self.go = threading.Event()
        self.go.set()
        self.inside = threading.Event()
        self._failing = failing or {}

    def commit(self, group, now):
        self.inside.set()
        self.go.wait(20)
        self.groups.append([each.source for each in group])
        for each in group:
            each.duplicates += 1  # as a commit that fails half-way leaves it
        for each in group:
            if each.source in self._failing:
                raise self._failing[each.source]
        for each in group:
            each.duplicates = min(each.duplicates, 1) if each.source == "twice" else 0


class Box:
    """What a source sends, and what it hears."""

    def __init__(self) -> None:
        self.heard: dict[str, IngestOutcome] = {}

    def batch(self, source: str, records: int = 1, size_bytes: int = 10, **more) -> Submission:
        def reply(outcome: IngestOutcome) -> None:
            assert source not in self.heard
            self.heard[source] = IngestOutcome(
                outcome.accepted, outcome.duplicates, tuple(outcome.refused), outcome.error
            )

        made = [QueryRecord(query_id=f"{source}-{at}") for at in range(records)]
        return Submission(source, size_bytes, reply, records=made, **more)

    def hears(self, *sources: str) -> list[IngestOutcome]:
        eventually(lambda: set(sources) <= self.heard.keys(), f"{sources} were answered")
        return [self.heard[each] for each in sources]


@pytest.fixture
def box():
    return Box()


def writing(commits, queue_bytes=1_000) -> Writer:
    writer = Writer(commits, SystemClock(), queue_bytes=queue_bytes)
    writer.start()
    return writer


def held_up(commits: Commits, box: Box, queue_bytes: int = 1_000) -> Writer:
    """A writer inside its first commit; it stays there until ``commits.go`` is set."""
    commits.go.clear()
    writer = writing(commits, queue_bytes)
    writer.submit(box.batch("first", records=3))
    assert commits.inside.wait(10)
    return writer


def test_a_batch_is_answered_once_it_is_committed(box):
    commits = Commits()
    writer = held_up(commits, box)
    assert box.heard == {}
    commits.go.set()
    assert box.hears("first") == [IngestOutcome(accepted=3)]
    assert writer.queued_bytes == 0
    assert writer.stop(10)


@pytest.mark.parametrize(
    ("records", "groups"),
    [
        pytest.param(1, [["a", "b", "c"]], id="what waits is one group"),
        pytest.param(1_500, [["a", "b"], ["c"]], id="a group is bounded and nobody is forgotten"),
    ],
)
def test_groups(box, records, groups):
    commits = Commits()
    writer = held_up(commits, box)
    for source in "abc":
        writer.submit(box.batch(source, records))
    commits.go.set()
    box.hears("first", "a", "b", "c")
    assert commits.groups == [["first"], *groups]
    assert writer.stop(10)


def test_duplicates_and_refusals_are_not_accepted(box):
    class Refusing(Commits):
        def commit(self, group, now):
            group[0].duplicates = 1
            group[0].refused.append((2, "waiting_full"))

    writer = writing(Refusing())
    batch = box.batch("a", records=0)
    batch.changes = [Feedback(query_id=each, rating=1.0) for each in "xyz"]
    writer.submit(batch)
    assert box.hears("a") == [IngestOutcome(1, 1, ((2, "waiting_full"),))]
    assert writer.stop(10)


# ------------------------------------------------------------------------------ the bound


def test_a_full_queue_refuses_and_says_when_to_come_again(box):
    commits = Commits()
    writer = held_up(commits, box, queue_bytes=20)  # of which the first takes half
    writer.submit(box.batch("waits"))
    with pytest.raises(OverloadedError) as caught:
        writer.submit(box.batch("refused", size_bytes=1))
    assert 1 <= caught.value.retry_after_s <= 5
    assert writer.queued_bytes == 20
    commits.go.set()
    box.hears("first", "waits")
    writer.submit(box.batch("again", size_bytes=20))
    box.hears("again")
    assert "refused" not in box.heard
    assert writer.stop(10)


def test_a_batch_larger_than_the_queue_is_taken_when_nothing_waits(box):
    writer = writing(Commits(), queue_bytes=100)
    writer.submit(box.batch("huge", size_bytes=10_000))
    assert box.hears("huge") == [IngestOutcome(accepted=1)]
    assert writer.stop(10)


# ------------------------------------------------------------------------------- failures


def test_what_the_store_refuses_is_refused_to_everyone_in_the_group(box):
    error = StoreFullError("no space left")
    commits = Commits({"a": error})
    writer = held_up(commits, box)
    writer.submit(box.batch("a"))
    writer.submit(box.batch("b"))
    commits.go.set()
    assert [each.error for each in box.hears("a", "b")] == [error, error]
    assert writer.last_error is error
    assert writer.stats.failures == 1
    assert writer.queued_bytes == 0
    writer.submit(box.batch("c"))
    assert box.hears("c") == [IngestOutcome(accepted=1)]
    assert writer.last_error is None
    assert writer.stop(10)


def test_a_defect_of_ours_refuses_only_the_batch_that_met_it(box):
    commits = Commits({"bad": ZeroDivisionError("ours")})
    with capture_logs() as logged:
        writer = held_up(commits, box)
        for source in ("good", "bad", "fine"):
            writer.submit(box.batch(source))
        commits.go.set()
        good, bad, fine = box.hears("good", "bad", "fine")
    assert good == fine == IngestOutcome(accepted=1)
    assert isinstance(bad.error, StoreError)
    assert "ZeroDivisionError" in str(bad.error)
    assert any(each["event"] == "commit_defect" and each["exc_info"] for each in logged)
    assert writer.alive
    assert writer.stop(10)


def test_a_reply_that_fails_does_not_end_the_writer(box):
    def refuse(_: IngestOutcome) -> None:
        raise RuntimeError("Event loop is closed")

    writer = writing(Commits())
    with capture_logs() as logged:
        writer.submit(Submission("gone", 10, refuse))
        writer.submit(box.batch("a"))
        assert box.hears("a") == [IngestOutcome(accepted=1)]
    assert [each["event"] for each in logged] == ["reply_failed"]
    assert writer.alive
    assert writer.stop(10)


# ---------------------------------------------------------------------------------- calls


def test_calls_run_between_commits_and_after_what_was_submitted_before(box):
    writer = writing(Commits())
    writer.submit(box.batch("a"))
    assert writer.thread.submit(lambda: sorted(box.heard)).result(10) == ["a"]
    assert writer.thread.submit(threading.current_thread).result(10).name == "writer"
    assert writer.stop(10)


def test_an_error_of_a_call_belongs_to_who_asked(box):
    writer = writing(Commits())
    with pytest.raises(ZeroDivisionError):
        writer.thread.submit(lambda: 1 // 0).result(10)
    assert writer.thread.submit(lambda: 3).result(10) == 3
    assert writer.stop(10)


def test_a_call_nobody_waits_for_any_more_is_left_out(box):
    commits = Commits()
    writer = held_up(commits, box)
    ran = []
    assert writer.thread.submit(lambda: ran.append(1)).cancel()
    commits.go.set()
    assert writer.thread.submit(lambda: ran).result(10) == []
    assert writer.stop(10)


# -------------------------------------------------------------------------------- the end


def test_the_end_commits_what_waits_and_refuses_what_comes(box):
    commits = Commits()
    commits.go.clear()
    writer = writing(commits)
    for source in "abc":
        writer.submit(box.batch(source))
    called = writer.thread.submit(lambda: "called")
    ending = threading.Thread(target=writer.stop, args=(10,))
    ending.start()
    eventually(lambda: _refuses(writer, box), "the writer is ending")
    commits.go.set()
    ending.join(10)
    assert box.hears("a", "b", "c") == [IngestOutcome(accepted=1)] * 3
    assert called.result(0) == "called"
    assert not writer.alive


def _refuses(writer: Writer, box: Box) -> bool:
    try:
        writer.submit(box.batch("probe"))
    except OverloadedError:
        return True
    box.heard.pop("probe", None)
    return False


def test_an_end_that_takes_too_long_says_so(box):
    commits = Commits()
    writer = held_up(commits, box)
    assert writer.stop(0.01) is False
    commits.go.set()
    assert writer.stop(10) is True


def test_after_the_end_a_call_fails_rather_than_wait_for_ever():
    writer = writing(Commits())
    assert writer.stop(10)
    with pytest.raises(StoreError):
        writer.thread.submit(lambda: 1)


def test_a_large_batch_is_committed_in_parts_and_answered_once(box):
    commits = Commits()
    writer = held_up(commits, box, queue_bytes=10_000)
    writer.submit(box.batch("large", records=10_000, size_bytes=1_000))
    writer.submit(box.batch("small"))
    between: list[list[list[str]]] = []
    writer.thread.submit(lambda: between.append([*commits.groups]))
    commits.go.set()
    (large, _) = box.hears("large", "small")
    assert large.accepted == 10_000
    assert commits.groups[0] == ["first"]
    assert sum(group.count("large") for group in commits.groups) == 4
    assert commits.groups.index(["large", "small"]) == 1  # it waits for one part, not for all
    assert len(between[0]) < len(commits.groups)  # so do those who ask
    assert writer.queued_bytes == 0
    assert writer.stop(10)


def test_a_large_batch_fails_with_any_of_its_parts(box):
    writer = writing(Commits({"large": StoreFullError("no space")}))
    writer.submit(box.batch("large", records=5_000))
    (large,) = box.hears("large")
    assert isinstance(large.error, StoreFullError)
    assert writer.stop(10)


def test_a_batch_with_an_offset_is_committed_whole(box):
    commits = Commits()
    writer = writing(commits)
    writer.submit(box.batch("file", records=10_000, offsets=[("file", b"10")]))
    assert box.hears("file")[0].accepted == 10_000
    assert commits.groups == [["file"]]
    assert writer.stop(10)


def test_refusals_keep_their_positions_in_parts(box):
    changes = [Feedback(query_id=str(at), rating=1.0) for at in range(7)]
    outcomes: list[IngestOutcome] = []
    pending = [Submission("feedback", 70, outcomes.append, changes=changes)]
    while pending:
        part = pending.pop(0)
        if len(part.changes) > 3:
            pending += split(part, 3)
            continue
        names = [each.query_id for each in part.changes]
        refused = [(names.index(name), "late") for name in ("2", "3", "6") if name in names]
        part.reply(IngestOutcome(len(names) - len(refused), 0, refused))
    assert outcomes == [IngestOutcome(4, 0, [(2, "late"), (3, "late"), (6, "late")])]


# ------------------------------------------------------------------------ a thread that ends


@pytest.mark.parametrize("error", [SystemExit("ended"), RuntimeError("ours")])
def test_whoever_waits_is_answered_when_a_turn_fails_and_the_writer_goes_on(box, error):
    writer = Writer(Commits(), SystemClock(), queue_bytes=1_000)
    take, failing = writer._take, [error]

    def once():
        if failing:
            raise failing.pop()
        return take()

    writer._take = once
    with capture_logs() as logged:
        writer.submit(box.batch("waits"))
        called = writer.thread.submit(lambda: 1)
        writer.start()
        with pytest.raises(StoreError):
            called.result(10)
        assert box.hears("waits") == [IngestOutcome(accepted=1)]
    assert [each["event"] for each in logged] == ["writer_failed"]
    assert writer.loop.heartbeat.failures == 1
    assert writer.stop(10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_its_thread_everybody_is_answered_at_once(box, monkeypatch):
    writer = Writer(Commits(), SystemClock(), queue_bytes=1_000)

    def end(_turn):
        raise SystemExit

    monkeypatch.setattr(writer.loop, "_try", end)
    writer.submit(box.batch("waits"))
    called = writer.thread.submit(lambda: 1)
    writer.start()
    eventually(lambda: writer.loop.has_ended, "the thread has ended")
    with pytest.raises(OverloadedError, match="the writer has ended"):
        writer.submit(box.batch("late"))
    with pytest.raises(StoreError, match="the writer has ended"):
        writer.thread.ask(lambda: 1)
    monkeypatch.undo()
    writer.loop.revive()
    with pytest.raises(StoreError):
        called.result(10)
    (waited,) = box.hears("waits")
    assert isinstance(waited.error, StoreError)
    writer.submit(box.batch("again"))
    assert box.hears("again") == [IngestOutcome(accepted=1)]
    assert writer.stop(10)
