"""Sums by key and rings of buckets, against dictionaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.windows.kept import KeptTotals
from ragmon.windows.moments import Ring, group
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.tiers import Run, Tier
from tests.support.rows import expand

LAYOUT = RowLayout(1)
TIER = Tier(10, 12)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.booleans(), st.booleans())
@settings(deadline=None)
def test_group_sums_rows_of_equal_key(keys, ordered, through_an_index):
    keys = np.array(sorted(keys) if ordered else keys)
    rows = np.arange(len(keys) * 2.0).reshape(-1, 2)
    of = np.arange(len(keys))[::-1].copy() if through_an_index else None
    first, sums = group(keys, rows, of)
    taken = rows if of is None else rows[of]
    assert keys[first].tolist() == sorted(set(keys.tolist()))
    for at, key in enumerate(keys[first].tolist()):
        assert first[at] == keys.tolist().index(key)
        np.testing.assert_array_equal(sums[at], taken[keys == key].sum(axis=0))


def test_the_parts_of_a_row_are_views_that_cover_it():
    layout = RowLayout(3)
    row = np.zeros(layout.width)
    for part in (*layout.moments, layout.queries):
        row[part] += 1.0
    assert row.tolist() == [1.0] * layout.width


batches = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=6, unique=True)


class Model:
    """Cells by bucket and series, of the newest buckets."""

    def __init__(self) -> None:
        self.cells: dict[int, dict[int, float]] = {}
        self.newest = -1

    def add(self, pairs) -> set[int]:
        self.newest = max(self.newest, *(bucket for _, bucket in pairs))
        for _, bucket in pairs:
            if bucket > self.newest - TIER.slots:
                self.cells.setdefault(bucket, {})
        for bucket in [each for each in self.cells if each <= self.newest - TIER.slots]:
            del self.cells[bucket]
        held = [(series, bucket) for series, bucket in pairs if bucket in self.cells]
        for series, bucket in held:
            self.cells[bucket][series] = self.cells[bucket].get(series, 0) + 1
        return {bucket for _, bucket in held}


@settings(deadline=None)
@given(st.lists(st.tuples(batches, st.integers(0, 40), st.integers(0, TIER.slots)), max_size=8))
def test_a_ring_holds_its_newest_buckets(life):
    ring, model = Ring(TIER, LAYOUT), Model()
    for pairs, first, length in life:
        ring.rest({first})
        if pairs:
            series, buckets = np.array(pairs).T
            touched = ring.add(series, buckets, np.ones((len(pairs), LAYOUT.width)))
            assert sorted(touched) == sorted(model.add(sorted(pairs, key=lambda p: p[1])))
        run = Run(0, first, length)
        total = ring.total(run, 4)[:, 0]
        for number in range(4):
            expected = [model.cells.get(at, {}).get(number, 0) for at in range(run.first, run.end)]
            assert total[number] == sum(expected)
        for bucket in range(41):
            assert ring.is_current(bucket) == (bucket in model.cells)
            numbers, rows = ring.get(bucket)
            found = dict(zip(numbers.tolist(), rows[:, 0].tolist(), strict=True))
            assert found == model.cells.get(bucket, {})


def test_restating_moves_only_cells_with_records():
    ring = Ring(TIER, LAYOUT)
    ring.add(np.array([1]), np.array([3]), expand(np.array([[5.0]])))
    delta = np.array([[0.0, -2.0, 0.0, 0.0], [0.0, 9.0, 0.0, 0.0]])
    touched = ring.add(np.array([1, 2]), np.array([3, 3]), delta, restating=True)
    assert touched == [3]
    assert ring.total(Run(0, 3, 1), 4)[:, LAYOUT.sum].tolist() == [[0], [3], [0], [0]]


@pytest.mark.parametrize(
    ("length", "size", "known"),
    [
        pytest.param(9, 3, True, id="a long run"),
        pytest.param(9, 4, False, id="a series more than were counted"),
        pytest.param(7, 3, False, id="a short run is not worth it"),
    ],
)
def test_kept_totals(length, size, known):
    kept: KeptTotals = KeptTotals()
    run = Run(0, 10, length)
    kept.keep(run, np.zeros(3))
    assert (kept.get(run, size) is not None) == known


def test_kept_totals_follow_what_is_added():
    kept: KeptTotals = KeptTotals()
    run = Run(0, 10, 9)
    kept.keep(run, np.zeros((3, 2)))
    buckets, series = np.array([9, 10, 18, 18, 19]), np.array([0, 1, 2, 2, 0])
    kept.add(buckets, series, np.ones((5, 2)))
    assert kept.get(run, 3).tolist() == [[0, 0], [1, 1], [2, 2]]
    kept.add(np.array([12]), np.array([3]), np.ones((1, 2)))  # of a series that is new
    assert kept.get(run, 3) is None


def test_few_totals_are_kept():
    kept: KeptTotals = KeptTotals()
    for first in range(100):
        kept.keep(Run(0, first, 9), np.zeros(1))
    known = [first for first in range(100) if kept.get(Run(0, first, 9), 1) is not None]
    assert 2 <= len(known) <= 8
    assert known == list(range(100 - len(known), 100))
    kept.forget(known[0])
    assert kept.get(Run(0, known[0], 9), 1) is None
