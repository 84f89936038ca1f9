"""Exponential buckets: each latency between its bounds, within the promised error."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragmon.stats.exponential import FIRST, LONGEST_S, SCHEMA, SIZE, ZERO_S, from_classic, places

ROUNDING = 1e-12


def upper(counter: int) -> float:
    """The upper bound of a counter, as the standard defines it."""
    return 2.0 ** ((FIRST + counter - 1) / 2**SCHEMA)


@given(st.floats(min_value=ZERO_S, max_value=LONGEST_S, exclude_min=True))
def test_a_latency_is_between_the_bounds_of_its_bucket(value):
    (counter,) = places(np.array([value])).tolist()
    assert 1 <= counter < SIZE or value <= ZERO_S * (1 + ROUNDING)
    assert upper(counter - 1) * (1 - ROUNDING) <= value <= upper(counter) * (1 + ROUNDING)


def test_powers_of_two_are_bounds_and_belong_below_them():
    powers = 2.0 ** np.arange(-13, 14)
    counters = places(powers)
    assert [upper(counter) for counter in counters.tolist()] == powers.tolist()
    assert (places(powers * 1.001) == np.minimum(counters + 1, SIZE - 1)).all()


def test_the_ends_take_what_is_beyond_them():
    assert places(np.array([0.0, 1e-9, ZERO_S, 1e9])).tolist() == [0, 0, 0, SIZE - 1]


def test_a_bucket_is_as_wide_as_promised():
    assert upper(2) / upper(1) < 1.0219


def test_classic_buckets_keep_their_counts_below_their_bounds():
    edges = np.array([0.25, 1.0, 60.0])
    fine = from_classic(np.array([[3, 0, 2, 1], [0, 0, 0, 0]]), edges)
    assert fine.sum(axis=-1).tolist() == [6, 0]
    filled = np.flatnonzero(fine[0]).tolist()
    assert filled == places(np.array([0.25, 60.0, 120.0])).tolist()
    assert fine[0, filled].tolist() == [3, 2, 1]
