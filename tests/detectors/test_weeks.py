"""A stream's week is learned; what is no week is not."""

import numpy as np
import pytest

from ragmon.detectors.arrays import pack
from ragmon.detectors.days import EVERYWHERE
from ragmon.detectors.minutes import MinuteLog, SavedMinute
from ragmon.detectors.references import ReferenceOptions, References

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


def weekends(points, *, days=(5, 6)):
    return lambda hour: LEVEL + points * (hour // 24 % 7 in days)


def share_above(level, tolerated, first):
    """Share of hours and runs in which the true level is more than is tolerated."""
    true = np.array([level(first + at) for at in range(len(tolerated))])
    return float((true[:, None] > tolerated).mean())


@pytest.mark.parametrize("points", [0.02, 0.03], ids=["two points", "three points"])
def test_weekends_are_tolerated_from_the_first_to_the_fourth(points):
    level = weekends(points)
    life = Life(level)
    life.hours(0, 5 * 24)
    assert share_above(level, life.hours(5 * 24, 28 * 24), 5 * 24) <= 0.002


def test_working_days_are_no_less_strict_for_it():
    weekly, plain = Life(weekends(0.03)), Life(weekends(0.0))
    for life in (weekly, plain):
        life.hours(0, 21 * 24)
    strict = [life.hours(21 * 24, 24 * 24) for life in (weekly, plain)]
    assert strict[0].mean() <= strict[1].mean() + 0.02
    assert plain.references.weekdays.max() <= 0.001


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
