"""Batches without the columns that repeat, against rows computed plainly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.windows.batch_rows import added, changed
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
    batch = changed(old, new, proportions)
    np.testing.assert_array_equal(batch.widened(batch.rows), expand(new) - expand(old))


def test_what_nobody_logs_takes_no_room():
    values = np.full((3, 4), np.nan)
    values[:, 0] = 1.0
    batch = added(values, proportions)
    assert batch.rows.shape == (3, 3)  # known, sum, queries
