"""Windows after a clock that was wrong: counted anew from the store, with no total lost."""

import itertools

import pytest
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.recounting import STEADY_S, WindowRecounting
from ragmon.records import Draw, Feedback, Verdict
from ragmon.windows.series import SeriesKey
from tests.daemon.ingest.test_engine import PIPELINE, sent
from tests.support.examples import DAY_S, NOON, record, windows
from tests.support.stores import KINDS, opened

SHOP = SeriesKey("shop")
AHEAD_S = 8 * DAY_S


class Site:
    """A daemon's engine with its job, over one store after another."""

    def __init__(self, kind, directory):
        self.kind, self.directory = kind, directory
        self.clock = ManualClock(NOON)
        self.ending = False
        self._numbers = itertools.count()
        self.start()

    def start(self):
        self.settings = Settings(data_dir=self.directory)
        self.store = opened(self.kind, self.directory)
        self.engine = Engine(self.store, PIPELINE, windows(PIPELINE), self.clock, self.settings)
        self.engine.restore()
        self.engine.writer.start()
        self.job = WindowRecounting(self.engine, self.clock, lambda: self.ending)

    def stop(self):
        self.engine.writer.stop(10.0)
        self.store.close()

    def restart(self):
        self.snapshot()
        self.stop()
        self.start()

    def snapshot(self):
        self.engine.thread.ask(self.engine.snapshot)

    def log(self, queries=1, *, at=None, **fields):
        """Queries as of a client that sends no timestamp, or with one; their ids."""
        when = self.clock.now() if at is None else at
        ids = [f"q{next(self._numbers)}" for _ in range(queries)]
        self._commit([record(each, when, pipeline="shop", **fields) for each in ids])
        return ids

    def change(self, *changes):
        self._commit([], changes)

    def _commit(self, records, changes=()):
        commit = self.engine.writer.commits.commit
        self.engine.thread.ask(lambda: commit([sent(records, changes)], self.clock.now()))

    def turns(self, seconds=2 * STEADY_S):
        for _ in range(int(seconds / 10)):
            self.job.turn()
            self.clock.sleep(10.0)

    def counted(self, window_s=3_600.0, name="queries"):
        return self.engine.thread.ask(lambda: self._counted(window_s, name))

    def _counted(self, window_s, name):
        held = self.engine.windows
        row = held.merge(window_s, self.clock.now()).rows[held.series.keys[SHOP]]
        if name == "queries":
            return row[held.row_layout.queries]
        return row[held.row_layout.sum][[column.name for column in held.columns].index(name)]

    def verdicts(self):
        held = self.engine.windows
        merged = held.merge(3_600.0, self.clock.now())
        return merged.judged[held.series.keys[SHOP]].tolist()

    def total(self):
        held = self.engine.windows
        return held.totals.queries[held.series.keys[SHOP]]


@pytest.fixture(params=KINDS)
def site(request, tmp_path):
    made = Site(request.param, tmp_path)
    yield made
    made.stop()


def clock_that_was_ahead(site, *, before=20, ahead=5, after=7):
    """Queries before, while and after the clock stood days ahead."""
    site.log(before)
    site.snapshot()
    site.clock.sleep(60.0)
    site.clock.step(AHEAD_S)
    site.log(ahead)
    site.clock.sleep(30.0)
    site.snapshot()
    site.clock.step(-AHEAD_S)
    site.log(after)


def test_what_came_before_and_after_is_shown_again(site):
    clock_that_was_ahead(site)
    assert site.counted() == 0.0
    site.turns()
    assert site.counted() == 27.0
    assert site.counted(300.0) == 27.0
    assert site.total() == 32.0  # no counter falls
    assert (site.engine.recounts.times, site.engine.recounts.left_out) == (1, 5)


def test_what_comes_afterwards_is_counted(site):
    clock_that_was_ahead(site)
    site.turns()
    site.log(3)
    assert (site.counted(), site.total()) == (30.0, 35.0)


def test_a_restart_changes_nothing(site):
    clock_that_was_ahead(site)
    site.restart()
    assert site.counted() == 0.0
    site.turns()
    site.log(2)
    site.restart()
    assert (site.counted(), site.total()) == (29.0, 34.0)
    site.turns()
    assert (site.counted(), site.engine.recounts.left_out) == (29.0, 5)


def test_feedback_and_verdicts_stand_as_before(site):
    first, *_ = site.log(4)
    site.change(
        Feedback(query_id=first, rating=-1.0, timestamp=NOON),
        Draw(query_id=first, probability=0.5, proxy=0.5, drawn=True, timestamp=NOON),
        Verdict(query_id=first, judge="llm", score=0.25, timestamp=NOON),
    )
    before = site.counted(name="feedback_coverage"), site.verdicts()
    assert any(before[1])
    clock_that_was_ahead(site)
    site.turns()
    assert (site.counted(name="feedback_coverage"), site.verdicts()) == before


def test_feedback_that_came_while_the_clock_was_ahead_counts(site):
    first, *_ = site.log(4)
    site.clock.step(AHEAD_S)
    site.log(1)
    site.change(Feedback(query_id=first, rating=1.0, timestamp=NOON))
    site.clock.step(-AHEAD_S)
    site.turns()
    assert site.counted(name="feedback_coverage") == 1.0


def test_older_buckets_are_those_that_were_saved(site):
    site.log(6, at=NOON - 3 * DAY_S)
    clock_that_was_ahead(site)
    site.turns()
    assert site.counted(7 * DAY_S) == 33.0


def test_they_are_counted_once_the_clock_gets_there(site):
    clock_that_was_ahead(site, before=2, ahead=5, after=1)
    site.turns()
    site.clock.sleep(AHEAD_S)
    site.turns()
    assert site.counted() == 5.0
    assert (site.total(), site.engine.recounts.left_out) == (8.0, 0)


def test_also_when_a_restart_lies_between(site):
    clock_that_was_ahead(site, before=2, ahead=5, after=1)
    site.turns()
    site.clock.sleep(AHEAD_S)
    site.restart()
    site.turns()
    assert site.counted() == 5.0


def test_a_clock_days_behind_loses_nothing_once_it_is_set(site):
    site.log(20)
    site.clock.step(-3 * DAY_S)
    site.log(4)
    site.turns()
    assert site.counted() == 4.0  # as of that time
    site.clock.step(3 * DAY_S)
    site.log(1)
    site.turns()
    assert (site.counted(), site.counted(7 * DAY_S), site.total()) == (21.0, 25.0, 25.0)


def test_a_clock_that_was_set_a_moment_ago_is_not_believed(site):
    clock_that_was_ahead(site)
    site.turns(STEADY_S - 10.0)
    assert site.engine.recounts.times == 0
    site.clock.step(1_000.0)
    site.turns(STEADY_S - 10.0)
    assert site.engine.recounts.times == 0


def test_queries_within_the_skew_are_no_reason(site):
    site.log(3, at=NOON + 300.0)
    with capture_logs() as logged:
        site.turns()
    assert not logged


def test_what_is_committed_meanwhile_is_counted_once(site, monkeypatch):
    clock_that_was_ahead(site)
    begin = site.job._begin

    def begin_and_commit(reader, moment):
        begun = begin(reader, moment)
        site.log(9)
        site.snapshot()
        return begun

    monkeypatch.setattr(site.job, "_begin", begin_and_commit)
    site.turns()
    assert (site.counted(), site.total()) == (36.0, 41.0)
    site.restart()
    assert (site.counted(), site.total()) == (36.0, 41.0)


def test_a_daemon_that_ends_gives_it_up(site):
    clock_that_was_ahead(site)
    site.ending = True
    site.turns()
    assert site.engine.recounts.times == 0
    site.ending = False
    site.restart()
    site.turns()
    assert site.counted() == 27.0


def test_it_says_so(site):
    clock_that_was_ahead(site)
    with capture_logs() as logged:
        site.turns()
    ahead, done = logged
    assert ahead["event"] == "windows_ahead_of_the_clock"
    assert ahead["ahead_s"] == pytest.approx(AHEAD_S, abs=200.0)
    assert (done["event"], done["left_out"]) == ("windows_counted_anew", 5)
