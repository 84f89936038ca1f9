"""The small form of rows gives back exactly what was put in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.windows.packed_rows import column, pack, unpack

numbers = st.one_of(
    st.integers(0, 300).map(float),
    st.sampled_from([0.0, 255.0, 256.0, 65_535.0, 65_536.0, 2.0**32 - 1, 2.0**32, 2.0**60, -1.0]),
    st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def tables(draw):
    count, width = draw(st.integers(0, 6)), draw(st.integers(1, 8))
    distinct = draw(
        st.lists(st.lists(numbers, min_size=count, max_size=count), min_size=1, max_size=width)
    )
    repeated = [distinct[draw(st.integers(0, len(distinct) - 1))] for _ in range(width)]
    return np.array(repeated, dtype=np.float64).reshape(width, count).T


@given(tables())
@settings(deadline=None)
def test_rows_come_back_exactly(rows):
    packed = pack(rows)
    np.testing.assert_array_equal(unpack(packed), rows)
    for index in range(rows.shape[1]):
        np.testing.assert_array_equal(column(packed, index), rows[:, index])


def test_columns_whose_digests_collide_stay_apart(monkeypatch):
    monkeypatch.setattr("ragmon.windows.packed_rows._ODD", np.uint64(0))
    rows = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(unpack(pack(rows)), rows)


@pytest.mark.parametrize(
    ("values", "bytes_each"),
    [
        pytest.param([0, 255], 1, id="bytes"),
        pytest.param([0, 256], 2, id="two bytes"),
        pytest.param([0, 65_536], 4, id="four bytes"),
        pytest.param([0, 2**32], 8, id="beyond four bytes"),
        pytest.param([0, 0.5], 8, id="a fraction"),
        pytest.param([0, -1], 8, id="below zero"),
    ],
)
def test_a_column_takes_the_narrowest_number_that_holds_it(values, bytes_each):
    packed = pack(np.array([values, values], dtype=np.float64).T)
    assert packed.nbytes - packed.place.nbytes == len(values) * bytes_each  # equal columns once
