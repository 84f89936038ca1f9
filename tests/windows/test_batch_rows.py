"""Batches without the columns that repeat, against rows computed plainly."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.windows.batch_rows import added, on_grid, restated
from tests.support.rows import expand

proportions = np.array([True, False, True, False])


@st.composite
def observations(draw, count):
    some = st.sampled_from([0.0, 1.0, float("nan")])
    any_ = st.one_of(st.floats(-1e6, 1e6), st.just(float("nan")))
    rows = st.tuples(some, any_, some, any_)
    return np.array(draw(st.lists(rows, min_size=count, max_size=count))).reshape(count, 4)


@given(st.integers(1, 5).flatmap(observations))
@settings(deadline=None)
def test_new_records_add_their_rows(values):
    batch = added(values, proportions)
    np.testing.assert_array_equal(batch.widened(batch.rows), expand(values))


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(observations(n), observations(n))))
@settings(deadline=None)
def test_changed_records_add_the_difference(pair):
    old, new = pair
    batch = restated(old, new, proportions).change
    np.testing.assert_array_equal(batch.widened(batch.rows), expand(new) - expand(old))


def test_what_nobody_logs_takes_no_room():
    values = np.full((3, 4), np.nan)
    values[:, 0] = 1.0
    batch = added(values, proportions)
    assert batch.rows.shape == (3, 3)  # known, sum, queries


def grown(*values: float | None, binary: bool) -> tuple[float, float, float]:
    """n, Σx and Σx² of a total after a record had these values one after another."""
    rows = [np.array([[np.nan if value is None else value]]) for value in values]
    kinds = np.array([binary])
    first = added(rows[0], kinds)
    total = first.widened(first.rows)[0]
    for old, new in pairwise(rows):
        batch = restated(old, new, kinds).growth
        more = batch.widened(batch.rows)[0]
        assert (more[:2] >= 0).all()
        assert more[0] >= more[2]  # what was ever 0 cannot become less
        total = total + more
    n, of_ones, squares, _ = total.tolist()
    return n, of_ones, squares


@pytest.mark.parametrize(
    ("values", "records", "ones", "zeros"),
    [
        pytest.param((None, 1), 1, 1, 0, id="an outcome that comes later counts once"),
        pytest.param((None, 0), 1, 0, 1, id="so does a zero"),
        pytest.param((0, 1), 1, 1, 1, id="one that turns good counts beside the bad one"),
        pytest.param((1, 0), 1, 1, 1, id="one that turns bad counts beside the good one"),
        pytest.param((1, 0, 0, None), 1, 1, 1, id="nothing is taken back"),
        pytest.param((0, 1, 0), 1, 1, 2, id="a change back is a change"),
        pytest.param((1, 1), 1, 1, 0, id="what stays the same is not counted again"),
    ],
)
def test_totals_of_a_proportion(values, records, ones, zeros):
    n, of_ones, squares = grown(*values, binary=True)
    assert (n, of_ones, n - squares) == (records, ones, zeros)


def test_a_new_score_counts_like_that_of_another_record():
    assert grown(None, 0.75, binary=False) == (1, 0.75, 0.5625)
    assert grown(0.75, 0.25, 0.25, None, binary=False) == (2, 1.0, 0.625)


def test_moments_count_anew_together():
    old, new = np.array([[2.0, 1.5, 7.0]]), np.array([[2.0, 0.5, 7.0]])
    batch = restated(old, new, np.zeros(3, bool), [np.array([0, 1])]).growth
    assert batch.widened(batch.rows)[0].tolist()[:6] == [1, 1, 0, 2.0, 0.5, 0]


def test_sums_of_growth_do_not_depend_on_their_order():
    values = np.random.default_rng(7).random((50, 1)) / 3
    batch = restated(np.full((50, 1), np.nan), values, np.array([False])).growth
    sums = batch.rows[:, 1]
    assert float(sums.sum()) == sum(sums[::-1].tolist()) == sum(sums.tolist())
    np.testing.assert_array_equal(sums, on_grid(values)[:, 0])
    np.testing.assert_allclose(sums, values[:, 0], atol=1e-6)
