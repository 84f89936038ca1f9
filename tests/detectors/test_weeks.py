"""A stream's week is learned; what is no week is not."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragmon.detectors.arrays import pack
from ragmon.detectors.days import EVERYWHERE, Calendar
from ragmon.detectors.hour_errors import HourErrors
from ragmon.detectors.minutes import MinuteLog, SavedMinute
from ragmon.detectors.references import ReferenceOptions, References
from ragmon.detectors.weeks import LossSpread, correction

RUNS = 6
MONDAY = 20_087 * 24  # hours since 1970, a midnight in UTC
LEVEL = 0.1


class Life:
    """RUNS streams that are alike, lived through hour by hour."""

    def __init__(self, level, *, each_ten=600, calendar=EVERYWHERE, seed=1):
        self.level, self.each_ten, self.calendar = level, each_ten, calendar
        self.rng = np.random.default_rng(seed)
        self.log, self.references = MinuteLog(), References()
        self.log.grow(RUNS)
        self.references.grow(RUNS)
        self.log.begin(MONDAY * 60)

    def hours(self, first, last):
        """Live through them; the loss tolerated in the middle of each, (hours, runs)."""
        tolerated = []
        for hour in range(MONDAY + first, MONDAY + last):
            self._hour(hour)
            tolerated.append(self.references.tolerated.copy())
        return np.array(tolerated)

    def _hour(self, hour):
        log, references, calm = self.log, self.references, np.zeros(RUNS, dtype=bool)
        options = ReferenceOptions(calendar=self.calendar)
        for minute in range(hour * 60, hour * 60 + 60):
            if minute % 10 == 0:
                n = self.rng.poisson(self.each_ten, RUNS)
                lost = self.rng.binomial(n, self.level(hour - MONDAY))
                cells = np.stack([n, lost, lost], axis=1).astype(float)
                log.add(np.full(RUNS, minute), np.arange(RUNS), cells, np.ones(RUNS, bool))
            log.begin(minute + 1)
            if minute % 60 == 1:
                references.close_hour(log, hour - 1, calm, calendar=self.calendar)
            if minute % 30 == 0:
                references.refresh(log, minute, ~calm, calm, options)


def weekends(points):
    """A level that is so many points higher on Saturday and Sunday, of each run."""
    return lambda hour: LEVEL + np.asarray(points) * (hour // 24 % 7 in (5, 6))


def share_above(level, tolerated, first):
    """Share of hours and runs in which the true level is more than is tolerated."""
    true = np.array([level(first + at) + np.zeros(RUNS) for at in range(len(tolerated))])
    return float((true > tolerated).mean())


def test_weekends_are_tolerated_from_the_first_on():
    level = weekends([0.02] * 3 + [0.03] * 3)
    life = Life(level)
    life.hours(0, 5 * 24)
    assert share_above(level, life.hours(5 * 24, 21 * 24), 5 * 24) <= 0.002


def test_a_working_day_is_no_less_strict_for_it():
    life = Life(weekends([0.03] * 3 + [0.0] * 3))
    life.hours(0, 16 * 24)
    tolerated = life.hours(16 * 24, 17 * 24).mean(axis=0)
    assert tolerated[:3].mean() <= tolerated[3:].mean() + 0.02
    assert np.abs(life.references.weekdays[3:]).max() <= 0.001
    assert (life.references.weekdays[:3, 5:] > 0.01).all()


def test_what_was_learned_is_saved_by_the_hour():
    life = Life(weekends(0.03))
    life.hours(0, 30)
    first = life.log
    second = MinuteLog()
    second.load(first.dump())
    for saved in first.dump_dirty():
        second.load_bucket(SavedMinute(*saved))
    hours = np.arange(MONDAY, MONDAY + 30)
    parts = [log.weeks.read(hours, slice(None)) for log in (first, second)]
    assert parts[0][0].any()
    np.testing.assert_array_equal(parts[0], parts[1])


def test_references_of_a_release_without_weeks_are_taken_on():
    life = Life(weekends(0.0))
    life.hours(0, 30)
    week = ("usual", "offset", "doubt", "next_offset", "next_doubt", "weekdays")
    fields = [name for name in References._FIELDS if name not in week]
    loaded = References()
    loaded.load(pack({name: getattr(life.references, name) for name in fields}))
    assert loaded.tolerated.tolist() == life.references.tolerated.tolist()
    assert loaded.offset.tolist() == [0.0] * RUNS
    life.references = loaded
    assert (life.hours(30, 33) > LEVEL).all()  # and goes on


def test_a_holiday_is_tolerated_and_teaches_nothing():
    def level(hour):
        return LEVEL + 0.03 * (hour // 24 in (9, 16))  # Wednesday twice, as if it were each week

    holidays = {date(2024, 12, 30) + timedelta(days=day) for day in (9, 16)}
    life = Life(level, calendar=Calendar(holidays=frozenset(holidays)))
    life.hours(0, 9 * 24)
    assert share_above(level, life.hours(9 * 24, 10 * 24), 9 * 24) == 0.0
    life.hours(10 * 24, 18 * 24)
    assert np.abs(life.references.weekdays).max() <= 0.001
    assert life.hours(18 * 24, 19 * 24).mean() <= LEVEL + 0.012


def test_days_begin_where_people_live():
    berlin = Calendar(zone=ZoneInfo("Europe/Berlin"), holidays=frozenset({date(2026, 12, 25)}))
    eve = datetime(2026, 12, 24, 22, 59, tzinfo=UTC)
    minute = int(eve.timestamp() // 60)
    assert [berlin.is_holiday(minute), berlin.is_holiday(minute + 1)] == [False, True]
    assert [EVERYWHERE.is_off(minute + 1), EVERYWHERE.is_off(minute + 2_000)] == [False, True]
    assert berlin.first_hour((minute + 90) // 60) == (minute + 1) // 60


def test_one_bad_week_is_no_week():
    life = Life(lambda hour: LEVEL + 0.2 * (hour // 24 == 9))
    life.hours(0, 17 * 24)
    assert np.abs(life.references.weekdays).max() <= 0.001
    assert life.references.tolerated.max() <= LEVEL + 0.03


@given(st.integers(0, 2**32 - 1), st.integers(1, 560), st.integers(2, 7))
def test_a_stream_learns_the_same_whatever_others_know(seed, hours, streams):
    """Hours that too few weeks know are not read; the others must not notice."""
    rng = np.random.default_rng(seed)
    errors = HourErrors()
    errors.grow(streams)
    begin = rng.integers(0, hours, streams)  # of each stream
    week = rng.normal(0.0, 0.05, (168, streams))
    for at in range(hours):
        n = rng.poisson(40, streams) * (at >= begin)
        errors.learn(MONDAY + at, slice(None), n, week[at % 168] + rng.normal(0, 0.01, streams))
    spread = LossSpread(rng.uniform(0.01, 0.2, streams), rng.uniform(1.0, 2.0, streams))
    whole = correction(errors, MONDAY + hours + 1, slice(None), EVERYWHERE, spread)
    for first in range(streams - 1):
        two = slice(first, first + 2)
        own = LossSpread(spread.variance[two], spread.phi[two])
        alone = correction(errors, MONDAY + hours + 1, two, EVERYWHERE, own)
        assert alone.offset.tolist() == whole.offset[two].tolist()
        assert alone.doubt.tolist() == whole.doubt[two].tolist()
        assert alone.weekdays.tolist() == whole.weekdays[two].tolist()
