"""Histograms over long runs of buckets that are kept, against those that are counted anew."""

import numpy as np
import pytest

from ragmon.windows.kept_latencies import KeptLatencies
from ragmon.windows.latencies import LatencyRing
from ragmon.windows.tiers import Run, Tier

TIER = Tier(60, 100)
SERIES, STAGES = 40, 3


def codes(rng, size: int):
    return (rng.integers(0, 60, size) ** 2).astype(np.int32)


@pytest.mark.parametrize("seed", range(4))
def test_totals_that_slide_are_those_that_are_counted_anew(seed):
    rng = np.random.default_rng(seed)
    ring = LatencyRing(TIER, STAGES)
    added: list = []
    for end in range(100, 160):
        size = int(rng.integers(1, 50))
        buckets, of = rng.integers(end - 30, end, size), codes(rng, size)
        ring.add(buckets, of)
        added.append((buckets, of))
        if rng.random() < 0.1:
            ring.add(buckets[:3], of[:3], sign=-1)
            added[-1] = (buckets[3:], of[3:])
        anew = LatencyRing(TIER, STAGES)
        for each in added:
            if len(each[0]):
                anew.add(*each)
        for length in (9, 30, 50):
            run = Run(0, end - length, length)
            total = ring.total(run, SERIES)
            np.testing.assert_array_equal(total, anew.total(run, SERIES))
            np.testing.assert_array_equal(total[:2], ring.total(run, 2))


def test_what_is_kept_grows_with_what_was_counted():
    kept, of = KeptLatencies(), np.arange(0, 100_000, 50, dtype=np.int32)
    for first in range(20):
        kept.keep(Run(0, 20 * first, 10), of, np.ones_like(of))
    assert kept.nbytes <= 6 * 2 * len(of)
    assert kept.get(Run(0, 380, 10)) is not None


def test_a_run_that_nobody_asks_for_is_not_kept_up_for_ever():
    kept, run = KeptLatencies(), Run(0, 0, 10)
    kept.keep(run, np.array([3], np.int32), np.array([1], np.int32))
    kept.add(np.zeros(5, np.int64), np.full(5, 3, np.int32))
    found = kept.get(run)
    assert found is not None
    assert [each.tolist() for each in found] == [[3], [6]]
    for _ in range(3):
        kept.add(np.zeros(30_000, np.int64), np.full(30_000, 3, np.int32))
    assert kept.get(run) is None


def test_a_window_that_moved_on_leaves_nothing_behind():
    kept, run = KeptLatencies(), Run(0, 0, 10)
    kept.keep(run, np.array([3], np.int32), np.array([1], np.int32))
    assert kept.take_near(Run(0, 5, 10)) is None
    near = kept.take_near(Run(0, 1, 10))
    assert near is not None
    assert near[0] == run
    assert kept.get(run) is None


def test_a_short_run_is_not_worth_keeping():
    kept, run = KeptLatencies(), Run(0, 0, 7)
    kept.keep(run, np.array([3], np.int32), np.array([1], np.int32))
    assert kept.get(run) is None
