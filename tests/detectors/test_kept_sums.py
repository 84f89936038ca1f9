"""Sums that slide are those made anew, whatever is added, cleared or overwritten meanwhile."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.detectors.cell_ring import CellRing
from ragmon.detectors.kept_sums import KeptSums

SLOTS = 12
STREAMS = 3

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, STREAMS - 1)),
        st.tuples(st.just("sum"), st.integers(0, 4), st.integers(0, 14)),
        st.tuples(st.just("clear"), st.integers(0, STREAMS - 1), st.just(0)),
        st.tuples(st.just("put"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("on"), st.integers(1, 5), st.just(0)),
    ),
    max_size=60,
)


def made_anew(ring, first, last):
    """The sum bucket by bucket."""
    total = np.zeros((ring.streams, 3))
    for bucket in range(max(first, last - ring.slots), last):
        total += ring.bucket(bucket)
    return total


def play(ring, name, newest, steps):
    """One step on a ring whose newest bucket is given; its sums are compared."""
    at, other = steps
    if name == "add":
        cells = np.array([[1.0, 0.25, 0.0625], [2.0, 0.5, 0.25]])
        ring.add(np.array([newest - at, newest]), np.array([other, other]), cells)
    elif name == "clear":
        ring.clear([at])
    elif name == "put":
        ring.put(newest - at, np.full((STREAMS, 3), 4.0))
    else:
        first, last = newest + 1 - at - other, newest + 1 - at
        np.testing.assert_array_equal(ring.total(first, last), made_anew(ring, first, last))
        rows = np.array([2, 0])
        picked = made_anew(ring, first, last)[rows]
        np.testing.assert_array_equal(ring.total(first, last, rows), picked)


@given(steps=_STEPS)
@settings(max_examples=150, deadline=None)
def test_a_ring_sums_as_if_nothing_was_kept(steps):
    ring, newest = CellRing(SLOTS), 100
    ring.grow(STREAMS)
    for name, *rest in steps:
        if name == "on":
            newest += rest[0]
            ring.open(newest)
        else:
            play(ring, name, newest, rest)


def test_a_sum_slides_by_the_buckets_that_enter_and_leave():
    asked = []

    def summed(first, last):
        asked.append((first, last))
        return np.full((1, 3), float(sum(range(first, last))))

    sums = KeptSums()
    assert sums.get(0, 10, summed)[0, 0] == sum(range(10))
    assert sums.get(1, 11, summed)[0, 0] == sum(range(1, 11))
    assert asked == [(0, 10), (10, 11), (0, 1)]


def test_a_sum_that_was_answered_does_not_change_any_more():
    ring = CellRing(SLOTS)
    ring.grow(1)
    cell = np.array([[1.0, 0.0, 0.0]])
    ring.add(np.array([5]), np.array([0]), cell)
    before = ring.total(1, 6)
    ring.add(np.array([5]), np.array([0]), cell)
    assert before[0, 0] == 1.0
    assert ring.total(1, 6)[0, 0] == 2.0


def test_sums_have_room_for_streams_that_begin():
    ring = CellRing(SLOTS)
    ring.grow(1)
    ring.add(np.array([5]), np.array([0]), np.array([[1.0, 0.0, 0.0]]))
    assert ring.total(1, 6).shape == (1, 3)
    ring.grow(4)
    assert ring.total(1, 6)[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
