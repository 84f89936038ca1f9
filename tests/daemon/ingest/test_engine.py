"""A restart is invisible: store, windows and committer together, stopped at any moment."""

import itertools
import tempfile
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.errors import StoreError, StoreFullError
from ragmon.pipeline import Pipeline
from ragmon.records import Feedback, Label, Latency, Verdict
from ragmon.sources import Submission
from ragmon.stores.sqlite import SqliteStore
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.series import SeriesKey
from tests.support.examples import DAY_S, NOON, pipeline, query_records, record, windows
from tests.support.stores import copied, small_pieces

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3))
LENGTHS = (300.0, 3_600.0, DAY_S, 7 * DAY_S)


class Site:
    """One engine after another over the same data."""

    def __init__(self, root: Path, observed_by: Pipeline = PIPELINE, limit: int = 6, **fields):
        self.root = root
        self.pipeline = observed_by
        self.limit = limit
        self.settings = Settings(data_dir=root, **fields)
        self.clock = ManualClock(NOON)
        self._generation = itertools.count()
        self.directory = root / str(next(self._generation))
        self.directory.mkdir(parents=True)
        self.start()

    def start(self) -> None:
        store = SqliteStore(self.directory, synchronous="NORMAL")
        held = windows(self.pipeline, limit=self.limit)
        self.engine = Engine(store, self.pipeline, held, self.clock, self.settings)
        self.replayed = self.engine.restore()

    def commit(self, *group: Submission) -> None:
        self.engine.writer.commits.commit(group, self.clock.now())

    def log(self, *records, changes=()) -> None:
        self.commit(sent(records, changes))

    def crash(self) -> None:
        """What kill -9 leaves: the files as they are, and nothing of the memory."""
        left = copied(self.directory, self.root / str(next(self._generation)))
        self.engine.store.close()
        self.directory = left
        self.start()

    def restart(self) -> None:
        """An orderly end and a new start."""
        self.engine.snapshot()
        self.engine.store.close()
        self.start()

    def shown(self) -> dict:
        """Everything that windows and counters show, by name."""
        held = self.engine.windows
        held.settle()
        found: dict = {
            "watermark": held.watermark,
            "restatements": held.restatements,
            "dropped": held.dropped,
            "waiting": self.engine.shard.waiting_count(),
            "next": self.engine.shard.next_sequence,
        }
        for length in LENGTHS:
            merged = held.merge(length, NOON)
            for key, at in held.series.keys.items():
                if merged.rows[at].any():
                    found[length, key] = (
                        merged.rows[at].round(6).tolist(),
                        merged.latency[at].nonzero(),
                    )
        for key, at in held.series.keys.items():
            if held.totals.rows[at].any():
                arrays = (held.totals.rows, held.totals.latency, held.totals.score)
                found["totals", key] = tuple(array[at].round(6).tolist() for array in arrays)
        return {key: _plain(value) for key, value in found.items()}


def _plain(value):
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def sent(records=(), changes=()) -> Submission:
    return Submission("test", 0, lambda _: None, records=list(records), changes=list(changes))


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.engine.store.close()


# ---- any history, stopped anywhere ----------------------------------------------------------

ids = st.sampled_from([f"q{at}" for at in range(12)])
stamps = (st.floats(0.0, 900.0) | st.floats(0.0, 6.9 * DAY_S)).map(lambda age: NOON - age)
changes = st.one_of(
    st.builds(Feedback, query_id=ids, rating=st.sampled_from([-1.0, 1.0]), timestamp=stamps),
    st.builds(
        Label,
        query_id=ids,
        relevant_ids=st.just(["a"]),
        faithful=st.none() | st.just(0.5),
        timestamp=stamps,
    ),
    st.builds(
        Verdict,
        query_id=ids,
        judge=st.just("grounding"),
        score=st.sampled_from([0.2, 0.9]),
        timestamp=stamps,
    ),
)
submissions = st.builds(
    sent, st.lists(query_records(stamps, ids), max_size=4), st.lists(changes, max_size=3)
)
steps = st.one_of(
    st.lists(submissions, min_size=1, max_size=2),
    st.lists(submissions, min_size=1, max_size=2),
    st.sampled_from(["snapshot", "compact", "expire", "crash", "restart"]),
)


def play(site: Site, step) -> None:
    if isinstance(step, list):
        site.commit(*(sent(each.records, each.changes) for each in step))
    elif step == "expire":
        site.engine.expire(NOON + 1.5 * DAY_S)
    elif step in ("snapshot", "compact"):
        getattr(site.engine, step)()
    elif step == "crash":
        site.crash()
    else:
        site.restart()


@settings(deadline=None, max_examples=60)
@given(st.lists(steps, max_size=14))
def test_stopping_and_starting_changes_nothing(history):
    with small_pieces(), tempfile.TemporaryDirectory() as name:
        interrupted, reference = Site(Path(name) / "a"), Site(Path(name) / "b")
        for step in history:
            play(interrupted, step)
            if step == "restart":
                reference.engine.snapshot()
            elif step != "crash":
                play(reference, step)
        interrupted.crash()
        assert interrupted.shown() == reference.shown()
        interrupted.engine.store.close()
        reference.engine.store.close()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(query_records(stamps), st.booleans()), max_size=20))
def test_what_is_replayed_is_what_no_snapshot_had(stream):
    with tempfile.TemporaryDirectory() as name:
        site = Site(Path(name))
        unsaved = 0
        for query, save in stream:
            site.log(query)
            unsaved += 1
            if save:
                site.engine.snapshot()
                unsaved = 0
        site.crash()
        assert site.replayed == unsaved
        site.engine.store.close()


def test_restatements_are_replayed_after_what_they_restate(site):
    site.log(record("a", feedback=-1.0), record("b"))
    site.log(changes=[Feedback(query_id="a", rating=1.0, timestamp=NOON)])
    before = site.shown()
    site.crash()
    assert site.shown() == before
    site.engine.snapshot()
    site.log(changes=[Feedback(query_id="b", rating=1.0, timestamp=NOON)])
    before = site.shown()
    site.crash()
    assert site.replayed == 0
    assert site.shown() == before
    assert before["restatements"] == 2


# ---- counting that fails --------------------------------------------------------------------


def fail(*_, **__):
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([], id="a batch"),
        pytest.param([Feedback(query_id="a", rating=1.0, timestamp=NOON)], id="and feedback"),
    ],
)
@pytest.mark.parametrize("saved", [True, False], ids=["after a snapshot", "before any"])
def test_what_is_durable_is_counted_although_counting_failed_half_way(
    tmp_path, monkeypatch, changes, saved
):
    site, reference = Site(tmp_path / "a"), Site(tmp_path / "b")
    heard = []
    site.engine.committer.listen(lambda counted: heard.append(len(counted.logged)))
    for each in (site, reference):
        each.log(record("a", feedback=-1.0))
        if saved:
            each.engine.snapshot()
    monkeypatch.setattr("ragmon.windows._MOST_WAITING", 1)  # counted at once
    monkeypatch.setattr(site.engine.windows.rings[1], "add", fail)
    with capture_logs() as logged:
        for each in (site, reference):
            each.log(record("b"), record("c"), changes=changes)
    assert "windows_counted_anew" in {each["event"] for each in logged}
    assert heard == [1, 2]
    assert site.engine.writer.loop.heartbeat.failures == 1
    assert site.shown() == reference.shown()
    site.restart()
    assert site.shown() == reference.shown()


def test_a_listener_that_fails_costs_only_its_own(site):
    heard = []
    site.engine.committer.listen(fail)
    site.engine.committer.listen(heard.append)
    site.log(record("a"))
    assert (len(heard), site.engine.writer.loop.heartbeat.failures) == (1, 1)
    assert not site.engine.windows.is_incomplete


def test_a_failure_to_count_that_a_read_meets_is_mended_by_the_next_snapshot(site, monkeypatch):
    site.log(record("a"), record("b"))
    before = site.shown()
    site.log(record("c"))
    monkeypatch.setattr(site.engine.windows.rings[1], "add", fail)
    with pytest.raises(ZeroDivisionError):
        site.engine.windows.merge(300.0, NOON)
    site.engine.snapshot()
    whole = site.engine.windows.series.keys[SeriesKey("default")]
    assert site.engine.windows.merge(300.0, NOON).rows[whole, -1] == 3
    assert site.shown() != before


def test_a_commit_that_can_never_be_counted_costs_only_itself(site, monkeypatch):
    fold = type(site.engine.windows)._fold

    def pick(windows, observations):
        if any("odd" in dims for dims in observations.dims):
            fail()
        fold(windows, observations)

    monkeypatch.setattr(type(site.engine.windows), "_fold", pick)
    site.log(record("a"))
    site.log(record("b", pipeline="odd"))
    site.log(record("c"))
    for _ in range(2):
        site.engine.windows.is_incomplete = True
        site.engine.mend()
        keys = site.engine.windows.series.keys
        whole = keys[SeriesKey("default")]
        assert site.engine.windows.merge(300.0, NOON).rows[whole, -1] == 2
        assert SeriesKey("odd") not in keys
    site.crash()
    assert (site.replayed, site.engine.counting.left_out) == (2, 1)
    assert site.engine.shard.next_sequence == 3


def test_no_snapshot_is_saved_of_windows_that_could_not_be_mended(site, monkeypatch):
    site.log(record("a"))
    site.engine.windows.is_incomplete = True
    monkeypatch.setattr(site.engine.state, "load_windows", fail)
    site.engine.state.save_windows = None  # not to be called
    with pytest.raises(ZeroDivisionError):
        site.engine.snapshot()
    assert site.engine.windows.is_incomplete


def test_a_snapshot_of_nothing_new_writes_nothing(site):
    site.log(record("a"))
    site.engine.snapshot()
    site.engine.state.save_windows = None  # not to be called
    site.engine.snapshot()


def test_a_snapshot_that_fails_is_made_up_for(site):
    site.log(record("a"))
    save = site.engine.state.save_windows

    def fail(*_):
        raise StoreFullError("no")

    site.engine.state.save_windows = fail
    with pytest.raises(StoreError):
        site.engine.snapshot()
    assert site.engine.writer.last_error is not None
    site.engine.state.save_windows = save
    before = site.shown()
    site.engine.snapshot()
    assert site.engine.writer.last_error is None
    site.crash()
    assert site.replayed == 0
    assert site.shown() == before


def test_what_is_committed_while_a_snapshot_is_made_is_counted_once(site):
    site.log(record("a", latency_ms=Latency(50.0)))
    taken = site.engine.begin_snapshot()
    site.log(record("b", latency_ms=Latency(70.0)))
    site.log(changes=[Feedback(query_id="a", rating=1.0, timestamp=NOON)])
    taken.prepare()
    site.log(record("c", latency_ms=Latency(90.0)))
    site.engine.save_snapshot(taken)
    before = site.shown()
    site.crash()
    assert site.replayed == 2
    assert site.shown() == before


@pytest.mark.parametrize("is_late", [True, False], ids=["saved too late", "never saved"])
def test_a_later_snapshot_has_what_an_earlier_one_did_not_save(site, is_late):
    site.log(record("a", at=NOON - 7_200))
    earlier = site.engine.begin_snapshot()
    site.log(record("b"))
    site.engine.snapshot()
    if is_late:
        site.engine.save_snapshot(earlier)
    before = site.shown()
    site.crash()
    assert site.replayed == 0
    assert site.shown() == before


def test_compaction_goes_round_without_touching_what_is_replayed(site):
    for at in range(20):
        site.log(record(f"q{at}"))
        if at == 14:
            site.engine.snapshot()
    while site.engine.compact():
        pass
    with site.engine.store.reader() as reader:
        firsts = sorted(block.first_sequence for block in reader.blocks(0.0, 2e9))
    assert firsts == [0, 15, 16, 17, 18, 19]
    before = site.shown()
    site.crash()
    assert site.shown() == before


def test_records_expire_by_retention(tmp_path):
    site = Site(tmp_path, retention={"records": "1h"})
    site.log(record("old", at=NOON - 3_601))
    site.log(record("new", at=NOON - 3_000))
    assert site.engine.expire(NOON) == 0  # the saved windows have not counted it
    site.engine.snapshot()
    assert site.engine.expire(NOON) == 1
    before = site.shown()
    site.crash()
    assert site.shown() == before
    assert site.shown()["next"] == 2
    site.engine.store.close()


def test_forgotten_series_stay_forgotten_after_a_restart(site):
    site.log(record("a", pipeline="old", at=NOON))
    site.engine.snapshot()
    later = NOON + 12 * DAY_S
    site.clock.step(12 * DAY_S)
    site.log(record("b", pipeline="new", at=later))
    site.engine.forget(later)
    assert SeriesKey("old") not in site.engine.windows.series.keys
    site.restart()
    assert SeriesKey("old") not in site.engine.windows.series.keys
    assert SeriesKey("new") in site.engine.windows.series.keys


def test_saved_windows_live_as_long_as_they_are_configured(tmp_path):
    site = Site(tmp_path, retention={"windows": "14d"})
    site.log(record("a"))
    site.engine.snapshot()
    for days, kept in ((0, 4), (2, 1), (13, 1), (15, 0)):
        site.engine.forget(NOON + days * DAY_S)
        assert len(list(site.engine.state.load_windows()[2])) == kept, days
    site.engine.store.close()


@pytest.mark.parametrize(
    ("slices", "ks"),
    [
        pytest.param((), (1, 3), id="a slice less"),
        pytest.param(("tenant", "region"), (1, 3), id="a slice more"),
        pytest.param(("tenant",), (1, 5, 10), id="other signals"),
    ],
)
@pytest.mark.parametrize("saved", [True, False], ids=["saved", "replayed"])
def test_a_changed_configuration_keeps_what_it_still_means(tmp_path, slices, ks, saved):
    site = Site(tmp_path, limit=50)
    tags = {"tenant": "acme", "region": "eu"}
    queries = [
        record(f"q{at}", at=NOON - 60 * at, tags=tags, error="E", latency_ms=Latency(50.0))
        for at in range(10)
    ]
    site.log(*queries)
    if saved:
        site.engine.snapshot()
    before = site.engine.windows.merge(3_600.0, NOON)
    error = PIPELINE.catalogue.index("error")
    whole = site.engine.windows.series.keys[SeriesKey("default")]
    expected = before.rows[whole, [error, len(PIPELINE.columns) + error, -1]].tolist()
    site.pipeline = pipeline(slices=slices, ks=ks)
    site.crash()
    site.log(record("later", tags=tags, error="E"))
    site.log(changes=[Feedback(query_id="q0", rating=-1.0, timestamp=NOON)])
    held = site.engine.windows
    merged = held.merge(3_600.0, NOON)
    now = site.pipeline.catalogue.index
    whole = held.series.keys[SeriesKey("default")]
    columns = [now("error"), len(site.pipeline.columns) + now("error"), -1]
    assert merged.rows[whole, columns].tolist() == [each + 1 for each in expected]
    assert merged.rows[whole, now("negative_feedback")] == 1
    assert merged.latency[whole].sum() == 10
    for name in slices:
        number = held.series.keys[SeriesKey("default", name, tags[name])]
        assert merged.rows[number, -1] == (11 if name == "tenant" else 1)
    site.engine.store.close()


def test_a_snapshot_holds_one_bucket_at_a_time(tmp_path):
    """A week of history changes every bucket: together they would be the peak of memory.

    Some 2,000 rows are copied: those that are not packed.
    """
    site = Site(tmp_path, limit=80)
    hours = [NOON - 3_600.0 * at for at in range(190, 0, -1)]
    names = [f"p{at}" for at in range(40)]
    site.log(*(record(f"{at}-{name}", at, pipeline=name) for at in hours for name in names))
    windows = site.engine.windows
    windows.settle()
    dirty = [set(each) for each in windows.dirty]
    together = sum(len(bucket.body) for bucket in ChangedBuckets(windows).dump())
    for changed, buckets in zip(windows.dirty, dirty, strict=True):
        changed.update(buckets)
    tracemalloc.start()
    try:
        site.engine.snapshot()
        assert tracemalloc.get_traced_memory()[1] < together / 3
    finally:
        tracemalloc.stop()
    assert together > 2_000_000
    assert not any(windows.dirty)


def test_a_restart_hides_no_repeat(tmp_path):
    site = Site(tmp_path)

    def log(query_id, at, text="How?"):
        site.log(record(query_id, at=at, query=text, user_id="ann"))

    log("old", NOON - 600.0)
    log("a", NOON)
    log("b", NOON + 1.0, "Why?")
    for number, stop in enumerate((site.crash, site.restart), 2):
        stop()
        log(f"c{number}", NOON + 10.0 * number)
        log(f"d{number}", NOON + 10.0 * number, "Why?")
        stored = site.engine.shard.record(site.engine.shard.next_sequence - 1)
        assert msgspec.msgpack.decode(stored)["repeat_number"] == number - 1
    assert len(site.engine.committer.repeats) == 3
