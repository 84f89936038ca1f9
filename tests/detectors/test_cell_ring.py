"""A ring gives back, bit for bit, the sums of whatever was added to it, narrow or not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.detectors.cell_ring import CellRing

SLOTS = 12
STREAMS = 5
NEWEST = 100

_WHOLE = st.tuples(st.integers(-3, 9), st.integers(0, 4)).map(lambda each: (*each, each[1]))
_FRACTION = st.tuples(st.integers(0, 9), st.integers(0, 4_000_000)).map(
    lambda each: (each[0], each[1] / 2**20, each[1] / 2**19)
)
_LARGE = st.just((2.0**40, 3.0, 3.0))
_ADDED = st.lists(
    st.tuples(
        st.integers(NEWEST - SLOTS - 3, NEWEST),
        st.integers(0, STREAMS - 1),
        st.one_of(_WHOLE, _WHOLE, _FRACTION, _LARGE),
    ),
    max_size=40,
)


def filled(*batches):
    """A ring at its newest bucket, and the table of cells that it is to hold."""
    ring, cells = CellRing(SLOTS), np.zeros((SLOTS, STREAMS, 3))
    ring.grow(STREAMS)
    for bucket in range(NEWEST - SLOTS + 1, NEWEST + 1):
        ring.open(bucket)
    for batch in batches:
        if not batch:
            continue
        buckets, streams, added = (np.array(column) for column in zip(*batch, strict=True))
        ring.add(buckets, streams, added.astype(np.float64))
        for bucket, stream, cell in batch:
            if bucket > NEWEST - SLOTS:
                cells[bucket - NEWEST + SLOTS - 1, stream] += cell
    return ring, cells


@given(first=_ADDED, second=_ADDED)
@settings(max_examples=30, deadline=None)
def test_a_ring_holds_what_was_added(first, second):
    ring, cells = filled(first, second)
    buckets = np.arange(NEWEST - SLOTS + 1, NEWEST + 1)
    np.testing.assert_array_equal(ring.read(buckets), cells)
    np.testing.assert_array_equal(ring.read(buckets, slice(1, None, 2)), cells[:, 1::2])
    streams = np.array([4, 0, 2])
    np.testing.assert_array_equal(ring.counts(buckets, streams), cells[:, streams, 0])
    np.testing.assert_array_equal(ring.total(NEWEST - 6, NEWEST), cells[-7:-1].sum(axis=0))
    for bucket, expected in zip(buckets.tolist(), cells, strict=True):
        np.testing.assert_array_equal(ring.bucket(bucket), expected)


def test_a_bucket_that_its_own_batch_overwrites_is_left_out():
    ring = CellRing(SLOTS)
    ring.grow(1)
    cells = np.array([[1.0, 0.0, 0.0], [2.0, 1.0, 1.0]])
    ring.add(np.array([NEWEST - SLOTS, NEWEST]), np.array([0, 0]), cells)
    assert ring.bucket(NEWEST).tolist() == [[2.0, 1.0, 1.0]]
    assert ring.dirty == {NEWEST}


@given(added=_ADDED)
@settings(max_examples=30, deadline=None)
def test_a_ring_holds_what_was_put_back_into_it(added):
    ring, cells = filled(added)
    other = CellRing(SLOTS)
    other.grow(STREAMS)
    for bucket in range(NEWEST - SLOTS + 1, NEWEST + 1):
        other.put(bucket, ring.bucket(bucket))
    np.testing.assert_array_equal(other.read(np.arange(NEWEST - SLOTS + 1, NEWEST + 1)), cells)


@given(added=_ADDED, gone=st.sets(st.integers(0, STREAMS - 1), min_size=1))
@settings(max_examples=30, deadline=None)
def test_other_streams_stay_when_some_are_forgotten(added, gone):
    ring, cells = filled(added)
    ring.clear(sorted(gone))
    cells[:, sorted(gone)] = 0.0
    np.testing.assert_array_equal(ring.read(np.arange(NEWEST - SLOTS + 1, NEWEST + 1)), cells)


@pytest.mark.parametrize(
    ("cell", "size"),
    [
        pytest.param([3.0, 1.0, 1.0], 8, id="losses of 0 or 1 take a third of the room"),
        pytest.param([3.0, 0.5, 0.25], 8 + 24, id="fractions take whole cells"),
        pytest.param([2.0**31, 0.0, 0.0], 8 + 24, id="and so do numbers beyond 32 bits"),
    ],
)
def test_a_stream_takes_the_room_that_its_cells_need(cell, size):
    ring = CellRing(SLOTS)
    ring.grow(1)
    ring.add(np.array([NEWEST]), np.array([0]), np.array([cell]))
    assert ring.nbytes == SLOTS * size
    ring.clear([0])
    assert ring.nbytes == SLOTS * 8
