"""Rings of latencies: what the past takes, and that it says the same at rest."""

import numpy as np

from ragmon.windows.latencies import LatencyRing
from ragmon.windows.tiers import Run, Tier

TIER = Tier(3_600, 192)
STAGES, SERIES = 3, 40
CODES = 20_000  # of an hour


def ring_of(hours: int) -> LatencyRing:
    """An hour after another, as a back-fill has them."""
    rng, ring = np.random.default_rng(2), LatencyRing(TIER, STAGES)
    for hour in range(hours):
        ring.add(np.full(CODES, hour), rng.integers(0, CODES, CODES).astype(np.int32))
    return ring


def memory(ring: LatencyRing) -> list[int]:
    """Bytes of each bucket, the oldest first."""
    return [bucket.nbytes for _, bucket in sorted(ring.buckets.items())]


def test_hours_of_the_past_take_little_memory_without_being_read():
    *past, now = memory(ring_of(10))
    assert now == 4 * CODES  # nobody counted it yet
    assert max(past) < CODES / 2


def test_every_hour_rests_in_the_end_though_few_do_at_once():
    ring = LatencyRing(TIER, STAGES)
    rng = np.random.default_rng(3)
    hours = np.repeat(np.arange(30), CODES)
    ring.add(hours, rng.integers(0, CODES, len(hours)).astype(np.int32))
    assert min(memory(ring)) == 4 * CODES
    for _ in range(4):
        ring.add(np.array([30]), np.array([5], dtype=np.int32))
    assert max(memory(ring)) < CODES / 2


def test_an_hour_at_rest_counts_what_comes_late():
    ring, other = ring_of(4), ring_of(4)
    before = ring.total(Run(0, 0, 4), SERIES).copy()
    late = np.arange(0, 3_000, dtype=np.int32)
    for _ in range(3):
        ring.add(np.zeros(len(late), dtype=np.int64), late)
        ring.add(np.array([3]), np.array([1], dtype=np.int32))
    anew = LatencyRing(TIER, STAGES)
    for number, bucket in other.buckets.items():
        codes, counts = bucket.counted()
        anew.add(np.full(int(counts.sum()), number), np.repeat(codes, counts))
    np.testing.assert_array_equal(anew.total(Run(0, 0, 4), SERIES), before)
    before.reshape(-1)[late] += 3
    before.reshape(-1)[1] += 3
    np.testing.assert_array_equal(ring.total(Run(0, 0, 4), SERIES), before)


def test_a_bucket_that_went_to_rest_is_the_same_for_whoever_copied_it():
    ring = ring_of(2)
    ring.get(1)
    state = ring.state(1)
    ring.add(np.array([2]), np.array([1], dtype=np.int32))
    after = ring.state(1)
    assert state is not None
    assert after is not None
    assert ring.buckets[1].nbytes < CODES / 2
    assert after.is_same(state)
    for one, two in zip(state.counted(), after.counted(), strict=True):
        np.testing.assert_array_equal(one, two)
