"""Histograms that follow copies of windows: at what memory."""

import tracemalloc

import numpy as np

from ragmon.stats.latency import BINS
from ragmon.windows.copies import BucketStates
from ragmon.windows.latency_bucket import Bucket
from ragmon.windows.latency_sums import LatencySums, follow
from ragmon.windows.totals import STAGES

SERIES, CODES, BUCKETS = 20, 20_000, 60


def busy(buckets: int) -> BucketStates:
    """States of hours with many different latencies."""
    rng, states = np.random.default_rng(1), {}
    for number in range(buckets):
        bucket = Bucket()
        bucket.add(rng.integers(0, SERIES * STAGES * BINS, CODES).astype(np.int32))
        bucket.counted()
        states[3, number] = bucket.state()
    return states


def sums(windows: int) -> list[LatencySums]:
    made = [LatencySums(STAGES) for _ in range(windows)]
    for each in made:
        each.extend(np.arange(SERIES))
    return made


def test_the_codes_of_many_buckets_are_never_in_memory_at_once():
    states, windows = busy(BUCKETS), sums(3)
    day = {key: state for key, state in states.items() if key[1] < 24}
    decoded = sum(8 * len(state.counted()[0]) for state in states.values())
    tracemalloc.start()
    try:
        follow(windows, [states, day, states])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded > 6e6
    assert peak < decoded / 3
    total = [int(each.counts.sum()) for each in windows]
    assert total == [BUCKETS * CODES, 24 * CODES, BUCKETS * CODES]


def test_a_bucket_of_several_windows_is_counted_once(monkeypatch):
    from ragmon.windows import latency_bucket

    states, windows, counted = busy(5), sums(2), []
    original = latency_bucket.BucketState.counted

    def counting(state):
        counted.append(state)
        return original(state)

    monkeypatch.setattr(latency_bucket.BucketState, "counted", counting)
    changed = follow(windows, [states, states])
    assert len(counted) == 5
    assert all(each.all() for each in changed)
    moved_on = {key: state for key, state in states.items() if key[1] > 0}
    changed = follow(windows, [moved_on, states])
    assert len(counted) == 6
    assert [bool(each.any()) for each in changed] == [True, False]
