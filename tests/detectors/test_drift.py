"""Slow drifts, on quarters of days made by hand."""

import numpy as np
import pytest
from scipy import stats

from ragmon.detectors import StreamKey, Tick, day_scatter, drift
from ragmon.detectors.latencies import LatencyEdges
from ragmon.detectors.minutes import MinuteLog
from ragmon.detectors.references import References
from ragmon.detectors.streams import StreamTable

MONDAY = 20_087 * 1_440
HIT, LATENCY = StreamKey("docs", "hit"), StreamKey("docs", "latency_p50")
QUERIES = 4_000.0  # of six hours


class World:
    """One stream and what the rule keeps of it."""

    def __init__(self, key=HIT, **options):
        self.streams, self.log, self.references = StreamTable(8), MinuteLog(), References()
        self.latencies = LatencyEdges()
        self.row = self.streams.row(key)
        size = len(self.streams)
        self.log.grow(size)
        self.references.grow(size)
        self.references.variance[:] = 0.09
        self.state = drift.build(drift.Options(**options))
        self.state.grow(size)
        self.minute = MONDAY

    def quarters(self, *levels):
        """Six hours at each level of misses, NaN without queries; the findings after the last."""
        found = []
        for level in levels:
            known = 0.0 if np.isnan(level) else QUERIES
            cell = np.array([[known, known and known * level, known and known * level]])
            minutes = np.array([self.minute + 100])
            self.log.add(minutes, np.array([self.row]), cell, np.ones(1, dtype=bool))
            found = self._close()
        return found

    def typical(self, *logarithms):
        """Six hours at each logarithm of a latency in ms; the findings after the last."""
        found = []
        for logarithm in logarithms:
            hours = np.repeat(np.arange(6), 200) * 60 + self.minute
            latency = np.full(len(hours), np.exp(logarithm))
            self.latencies.observe(["docs"], np.zeros(len(hours), dtype=int), hours, latency)
            for hour in range(6):
                self.latencies.close_hour(self.minute // 60 + hour)
            found = self._close()
        return found

    def _close(self):
        self.minute += drift.QUARTER
        self.log.begin(self.minute)
        return drift.step(self.state, self.tick())

    def tick(self):
        return Tick(
            minute=self.minute,
            log=self.log,
            streams=self.streams,
            cells=np.zeros((len(self.streams), 3)),
            references=self.references,
            renewed=True,
            settled=len(self.streams),
            allowed=1.0,
            total=1.0,
            latencies=self.latencies,
        )


def rising(days, a_day, level=0.1):
    return level + a_day * np.arange(4 * days) / 4.0


def first_found(days):
    """Number of the first that has a finding; None without."""
    return next((at for at, found in enumerate(days) if found), None)


@pytest.mark.parametrize("before", [8, 10, 20])
def test_a_point_a_day_is_found_within_five_days_and_not_forgotten_while_it_lasts(before):
    world = World()
    assert not world.quarters(*np.full(4 * before, 0.1))
    told = [world.quarters(level) for level in rising(16, 0.01)]
    at = first_found(told)
    assert at is not None
    assert 2 * 4 <= at <= 5 * 4
    assert all(told[at:])
    (one,) = told[at]
    began = (one.changed_at / 60.0 - MONDAY) / 1_440.0
    assert began == pytest.approx(before, abs=1.5)
    assert one.observed.mean > one.reference.mean + 0.01
    assert one.evidence >= one.threshold


def test_a_level_that_no_longer_drifts_is_normal_after_a_week():
    world = World()
    world.quarters(*np.full(40, 0.1))
    assert world.quarters(*rising(6, 0.01))
    assert not world.quarters(*np.full(4 * 9, 0.16))


@pytest.mark.parametrize(
    "a_week",
    [
        pytest.param(np.full(28, 0.1), id="even"),
        pytest.param(np.tile([0.05, 0.1, 0.15, 0.1], 7), id="a season"),
        pytest.param(np.repeat([0.1] * 5 + [0.2] * 2, 4), id="a weekend"),
    ],
)
def test_what_repeats_is_no_drift(a_week):
    rng, world = np.random.default_rng(1), World()
    told = [world.quarters(level + rng.normal(0.0, 0.003)) for level in np.tile(a_week, 6)]
    assert first_found(told) is None


def test_days_that_differ_by_much_ask_for_more():
    rng = np.random.default_rng(2)
    days = np.repeat(0.1 + rng.normal(0.0, 0.015, 60), 4)
    world = World()
    told = [world.quarters(level) for level in days]
    assert first_found(told) is None


def test_the_allowance_holds_where_days_differ_by_two_points():
    """A normal quantile of what three weeks show was wrong hundreds of times too often there."""
    for seed in range(6):
        levels = 0.1 + np.random.default_rng(seed).normal(0.0, 0.02, 45)
        world = World(false_alarms_per_month=0.001)  # as of a hundred streams
        told = [world.quarters(level) for level in np.repeat(levels, 4)]
        assert first_found(told) is None


@pytest.mark.parametrize(("bends", "most"), [(4, 4.0), (8, 1.25), (12, 1.15), (19, 1.1)])
@pytest.mark.parametrize("errors", [2.5, 3.5, 4.5])
def test_the_doubt_is_student_s_or_a_little_more(bends, most, errors):
    freedom = bends / day_scatter._OVERLAP
    exact = (stats.t.isf(stats.norm.sf(errors), freedom) / errors) ** 2
    (got,) = day_scatter.doubt(np.array([errors]), np.array([bends]))
    assert exact <= got <= most * exact


def test_one_bad_night_is_no_drift_and_an_incident_that_is_over_is_left_out():
    world = World()
    told = [world.quarters(level) for level in [*np.full(48, 0.1), 0.8, 0.8, *np.full(48, 0.1)]]
    assert first_found(told) is None
    assert world.quarters(*np.full(8, 0.6))
    world.log.exclude(np.array([world.row]), world.minute - 8 * drift.QUARTER, world.minute)
    assert first_found([world.quarters(level) for level in np.full(48, 0.1)][1:]) is None


def test_a_change_that_was_accepted_is_no_drift():
    world = World(delta=0.5)  # asks for more than the change, as while another alert is open
    world.quarters(*np.full(48, 0.1), *np.full(14, 0.3))
    world.log.rebase(world.row, world.minute - 13 * drift.QUARTER)
    world.state.options = drift.Options()
    assert first_found([world.quarters(level) for level in np.full(60, 0.3)]) is None


def test_nothing_to_compare_is_no_recovery():
    world = World()
    world.quarters(*np.full(40, 0.1))
    assert world.quarters(*rising(5, 0.01))[0].status == "bad"
    assert world.quarters(*np.full(5, np.nan))[0].status == "unknown"


def test_latencies_are_followed_across_their_thresholds():
    world = World(LATENCY)
    world.typical(*np.full(40, 6.8))
    told = []
    for at, level in enumerate(6.8 + np.log(1.1) * np.arange(60) / 4.0):
        told.append(world.typical(level))
        if at % 16 == 15:
            world.state.rescale([world.row])
    at = first_found(told)
    assert at is not None
    assert at <= 5 * 4
    assert all(told[at:])
    (one,) = told[at]
    before, since = one.typical_ms
    assert before == pytest.approx(np.exp(6.8), rel=0.03)
    assert since > 1.1 * before
    assert one.observed.mean > one.reference.mean == 0.5


def test_a_restart_changes_nothing():
    world, other = World(), World()
    for each in (world, other):
        each.quarters(*np.full(40, 0.1), *rising(4, 0.01))
    saved = other.state.dump()
    other.state = drift.build(drift.Options())
    other.state.load(saved)
    assert other.state.dump() == saved
    for level in (0.15, 0.16, 0.17):
        assert world.quarters(level) == other.quarters(level)


def test_without_turns_for_a_while_the_quarters_between_hold_nothing():
    world = World()
    world.quarters(*np.full(80, 0.1))
    world.minute += 30 * drift.QUARTER
    world.quarters(0.1)
    n, _ = world.state.by_age(np.array([world.row]))
    assert n[0, 0] == QUERIES
    assert not n[0, 1:31].any()
