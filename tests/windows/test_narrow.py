"""Integers in their small forms are those that were put in."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.windows.narrow import Narrow

integers = st.one_of(st.integers(0, 3), st.integers(250, 260), st.integers(0, 2**31 - 1))


@given(st.lists(integers, max_size=60))
@settings(deadline=None)
def test_integers_come_back_exactly_before_and_at_rest(values):
    array = np.array(values, dtype=np.int32)
    narrow = Narrow(array)
    for rests in (False, True, True):
        assert narrow.rests is rests
        np.testing.assert_array_equal(narrow.wide(), array)
        assert narrow.wide().dtype == np.int32
        narrow.rest()


def test_at_rest_they_take_less_than_half_the_memory():
    rng = np.random.default_rng(1)
    narrow = Narrow(rng.geometric(0.4, 50_000).astype(np.int32))
    before = narrow.nbytes
    narrow.rest()
    assert before >= 50_000
    assert narrow.nbytes < before / 2


def test_what_is_read_is_not_the_memory_of_what_is_kept():
    narrow = Narrow(np.array([1, 2, 300], dtype=np.int32))
    for _ in range(2):
        narrow.wide()[:] = 7
        assert narrow.wide().tolist() == [1, 2, 300]
        narrow.rest()
