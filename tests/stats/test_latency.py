"""The histogram keeps every quantile within 1 %, whatever is put in and however it is merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.stats.latency import (
    BINS,
    EDGES_MS,
    GAMMA,
    bins,
    count,
    nearest_edge,
    quantiles,
    share_above,
)

QS = np.array([0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])
IN_RANGE = st.floats(0.1, 600_000.0)
ANY_MS = st.floats(0.0, 1e9)


def vectors(values):
    return st.lists(values, min_size=1, max_size=200).map(np.array)


def test_shape_of_the_histogram():
    assert BINS == 783
    assert len(EDGES_MS) == BINS - 1
    assert EDGES_MS[0] == 0.1
    assert 600_000 <= EDGES_MS[-1] < 600_000 * GAMMA


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0.0, 0, id="zero goes into the first bin"),
        pytest.param(0.0999, 0, id="below the range"),
        pytest.param(0.101, 1, id="the first regular bin"),
        pytest.param(599_999.0, BINS - 2, id="the last regular bin"),
        pytest.param(1e9, BINS - 1, id="above the range"),
        pytest.param(np.inf, BINS - 1, id="infinity is above the range"),
        pytest.param(-5.0, 0, id="a clock that stepped back is below the range"),
    ],
)
def test_bin_of(value, expected):
    assert bins(np.array([value])).tolist() == [expected]


@given(vectors(ANY_MS))
def test_a_value_lies_between_the_edges_of_its_bin(values):
    lowest = np.concatenate([[-np.inf], EDGES_MS])
    highest = np.concatenate([EDGES_MS, [np.inf]])
    found = bins(values)
    assert (values >= lowest[found] * (1 - 1e-12)).all()
    assert (values <= highest[found] * (1 + 1e-12)).all()


@given(vectors(IN_RANGE))
def test_quantiles_of_anything_within_one_percent(values):
    exact = np.quantile(values, QS, method="inverted_cdf")
    np.testing.assert_allclose(quantiles(count(values), QS), exact, rtol=0.01)


DISTRIBUTIONS = {
    "lognormal": lambda rng: rng.lognormal(7.0, 1.0, 100_000),
    "uniform": lambda rng: rng.uniform(1.0, 5_000.0, 100_000),
    "two modes, one in a thousand": lambda rng: np.where(
        rng.random(100_000) < 0.999, rng.normal(20, 1, 100_000), rng.normal(30_000, 10, 100_000)
    ),
    "all equal": lambda rng: np.full(1_000, 1234.5),
    "on the edges": lambda rng: rng.choice(EDGES_MS[:-1], 100_000),
    "just below the edges": lambda rng: np.nextafter(rng.choice(EDGES_MS[1:], 100_000), 0),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_of_large_samples(name):
    values = np.clip(DISTRIBUTIONS[name](np.random.default_rng(1)), 0.1, 600_000.0)
    exact = np.quantile(values, QS, method="inverted_cdf")
    np.testing.assert_allclose(quantiles(count(values), QS), exact, rtol=0.01)


def test_quantiles_beyond_the_range_are_its_ends():
    assert quantiles(count(np.array([0.001])), [0.5]).tolist() == [EDGES_MS[0]]
    assert quantiles(count(np.array([5e6])), [0.5]).tolist() == [EDGES_MS[-1]]


def test_quantiles_of_many_series_at_once():
    rng = np.random.default_rng(2)
    table = np.stack([count(rng.lognormal(6, 1, size)) for size in (1, 500, 0, 3)])
    table = table.reshape(2, 2, BINS)
    got = quantiles(table, QS)
    assert got.shape == (2, 2, len(QS))
    assert np.isnan(got[1, 0]).all()
    for place in [(0, 0), (0, 1), (1, 1)]:
        np.testing.assert_array_equal(got[place], quantiles(table[place], QS))


def test_quantiles_of_no_series():
    assert quantiles(np.zeros((0, 3, BINS), dtype=np.int64), QS).shape == (0, 3, len(QS))


@given(vectors(ANY_MS), vectors(ANY_MS), vectors(ANY_MS))
def test_merging_is_addition(one, two, three):
    together = count(np.concatenate([three, one, two]))
    np.testing.assert_array_equal(count(one) + (count(two) + count(three)), together)


@given(vectors(IN_RANGE), st.integers(0, BINS - 2))
def test_share_above_an_edge_is_exact(values, edge):
    values = values[np.abs(values / EDGES_MS[edge] - 1.0) > 1e-12]
    counts = count(values)
    if not len(values):
        assert np.isnan(share_above(counts, edge))
        return
    assert share_above(counts, edge) == pytest.approx(np.mean(values > EDGES_MS[edge]))


def test_share_above_of_many_series():
    table = np.stack(
        [count(np.array([1.0, 10_000.0])), count(np.array([])), count(np.array([9e9]))]
    )
    np.testing.assert_array_equal(share_above(table, nearest_edge(5_000)), [0.5, np.nan, 1.0])


@given(IN_RANGE)
def test_the_nearest_edge_is_near(threshold_ms):
    assert EDGES_MS[nearest_edge(threshold_ms)] == pytest.approx(threshold_ms, rel=0.0101)
