"""Intervals cover what they promise, by exact enumeration where that is possible."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.stats.intervals import (
    Z95,
    effective_n_fraction,
    effective_n_weighted,
    mean_interval,
    student_quantile,
    unbounded_mean_interval,
    wilson_cc,
)

RATIO = st.floats(0.0, 1.0, allow_subnormal=False)  # half of the least subnormal number is 0
SIZE = st.floats(1e-3, 1e12)


def binomial(n, p):
    """Probabilities of 0 … n successes; shape (len(p), n + 1)."""
    k = np.arange(n + 1)
    log_factorial = np.array([math.lgamma(i + 1) for i in range(n + 1)])
    ways = log_factorial[n] - log_factorial - log_factorial[::-1]
    p = np.asarray(p)[:, None]
    return np.exp(ways + k * np.log(p) + (n - k) * np.log1p(-p))


def minimum_coverage(lower, upper, low=0.5, high=0.995):
    """Coverage has its minima beside the bounds themselves, so it is looked at there."""
    bounds = np.concatenate([lower, upper])
    p = np.concatenate([np.linspace(low, high, 400), bounds - 1e-9, bounds + 1e-9])
    p = p[(p >= low) & (p <= high)]
    covered = (lower <= p[:, None]) & (p[:, None] <= upper)
    return float((binomial(len(lower) - 1, p) * covered).sum(axis=1).min())


@pytest.mark.parametrize(
    ("n", "expected"),
    [(5, 0.949), (20, 0.953), (50, 0.953), (100, 0.951), (500, 0.950)],
)
def test_minimum_coverage_of_a_ratio(n, expected):
    hits = np.arange(n + 1.0)
    _, lower, upper = mean_interval(n, hits, hits, binary=True)
    coverage = minimum_coverage(lower, upper)
    assert coverage == pytest.approx(expected, abs=0.001)
    assert coverage >= 0.948


def test_the_coverage_check_sees_a_bad_interval():
    p = np.arange(51) / 50
    margin = Z95 * np.sqrt(p * (1 - p) / 50)
    assert minimum_coverage(p - margin, p + margin) < 0.5  # Wald


@pytest.mark.parametrize(
    ("mean", "n", "expected"),
    [
        pytest.param(0.0, 10, (0.0, 0.3445), id="no hits has an exact lower end"),
        pytest.param(1.0, 10, (0.6555, 1.0), id="all hits has an exact upper end"),
        pytest.param(0.5, 1, (0.0, 1.0), id="half an observation each way says nothing"),
        pytest.param(0.3, 0.2, (0.0, 1.0), id="less than one observation says nothing"),
        pytest.param(81 / 263, 263, (0.2535, 0.3682), id="Newcombe's table I, 81 of 263"),
        pytest.param(15 / 148, 148, (0.0598, 0.1644), id="Newcombe's table I, 15 of 148"),
        pytest.param(1 / 29, 29, (0.0018, 0.1963), id="Newcombe's table I, 1 of 29"),
    ],
)
def test_known_values(mean, n, expected):
    assert wilson_cc(mean, n) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("mean", "n"), [(0.5, 0), (math.nan, 10), (math.nan, 0)])
def test_unknown_has_no_bounds(mean, n):
    assert all(math.isnan(bound) for bound in wilson_cc(mean, n))
    assert np.isnan(wilson_cc(np.array([mean]), n)).all()


@given(RATIO, SIZE, st.floats(1.0, 5.0))
def test_bounds_enclose_the_mean_and_both_paths_agree(mean, n, z):
    lower, upper = wilson_cc(mean, n, z)
    assert 0.0 <= lower <= mean <= upper <= 1.0
    assert wilson_cc(np.array([mean]), n, z) == (pytest.approx(lower), pytest.approx(upper))


@given(RATIO, RATIO, SIZE)
def test_bounds_rise_with_the_mean(one, other, n):
    low, high = wilson_cc(min(one, other), n), wilson_cc(max(one, other), n)
    assert low[0] <= high[0] + 1e-12
    assert low[1] <= high[1] + 1e-12


@given(RATIO, SIZE, st.floats(1.0, 100.0))
def test_more_observations_never_widen(mean, n, factor):
    few, many = wilson_cc(mean, n), wilson_cc(mean, n * factor)
    assert many[0] >= few[0] - 1e-9
    assert many[1] <= few[1] + 1e-9


@given(st.integers(1, 10**9), st.data())
def test_zeros_and_ones_need_not_be_declared_binary(n, data):
    hits = data.draw(st.integers(0, n))
    declared = mean_interval(n, hits, hits, binary=True)
    found = mean_interval(n, hits, hits, binary=False)
    assert found == tuple(pytest.approx(value, abs=1e-9) for value in declared)


def test_moments_of_any_shape():
    n = np.array([[0, 1], [4, 4]])
    sums = np.array([[0.0, 1.0], [2.0, 2.0]])
    squares = np.array([[0.0, 1.0], [2.0, 1.0]])
    binary = np.array([[True, True], [True, False]])
    mean, lower, upper = mean_interval(n, sums, squares, binary=binary)
    assert np.isnan([mean[0, 0], lower[0, 0], upper[0, 0]]).all()
    assert mean[1].tolist() == [0.5, 0.5]
    assert lower[1, 1] > lower[1, 0]  # four times exactly one half says more than two of four
    assert (lower[0, 1], upper[0, 1]) == (pytest.approx(0.0546, abs=1e-4), 1.0)


def test_a_sum_rounded_above_its_count_is_still_a_ratio():
    mean, _, upper = mean_interval(3, 3.0000000000000004, 3.0, binary=True)
    assert (mean, upper) == (1.0, 1.0)


SAMPLERS = {
    "Beta(18, 2)": (0.9, lambda rng, shape: rng.beta(18, 2, shape)),
    "cited chunks of five": (0.98, lambda rng, shape: rng.binomial(5, 0.98, shape) / 5),
    "judge saying 0, 0.5 or 1": (
        0.95,
        lambda rng, shape: rng.choice([0.0, 0.5, 1.0], shape, p=[0.03, 0.04, 0.93]),
    ),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("n", [5, 20, 100, 500])
def test_coverage_of_fractions(sampler, n):
    truth, draw = SAMPLERS[sampler]
    x = draw(np.random.default_rng(n), (4_000, n))
    _, lower, upper = mean_interval(n, x.sum(1), np.square(x).sum(1), binary=False)
    assert np.mean((lower <= truth) & (truth <= upper)) >= 0.94


def weighted_interval(values, weights):
    """Of the weighted mean of one sample, as windows make it of their sums."""
    total = float(weights.sum())
    mean = (weights * values).sum() / total
    kish = total**2 / np.square(weights).sum()
    variance = np.square(weights * (values - mean)).sum() / total**2
    n_effective = effective_n_weighted(len(values), kish, mean, variance)
    return float(mean), *wilson_cc(float(mean), float(n_effective))


@pytest.mark.parametrize("n", [10, 50, 500])
@pytest.mark.parametrize("truth", [0.9, 0.98])
def test_coverage_of_a_risk_sampled_judge(n, truth):
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(1_500):
        good = rng.random(20 * n) < truth
        risk = np.clip(0.5 * ~good + 0.5 * rng.random(20 * n), 0.0, 1.0)  # a useful proxy
        inclusion = np.minimum(1.0, (0.3 + 0.7 * risk / risk.mean()) / 20)
        drawn = rng.random(20 * n) < inclusion
        _, lower, upper = weighted_interval(good[drawn].astype(float), 1 / inclusion[drawn])
        covered.append(lower <= truth <= upper)
    assert np.mean(covered) >= 0.94


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_without_variance_weights_count_by_kish(value):
    weights = np.array([1.0, 1.0, 8.0])
    kish = weights.sum() ** 2 / np.square(weights).sum()
    got = weighted_interval(np.full(3, value), weights)
    assert got[1:] == tuple(pytest.approx(bound) for bound in wilson_cc(value, float(kish)))


@given(st.lists(RATIO, min_size=1, max_size=30), st.floats(0.1, 1e3))
def test_equal_weights_are_no_weights(values, weight):
    x = np.array(values)
    plain = mean_interval(len(x), x.sum(), np.square(x).sum(), binary=False)
    weighted = weighted_interval(x, np.full(len(x), weight))
    assert weighted == tuple(pytest.approx(value, abs=1e-6) for value in plain)


@pytest.mark.parametrize(
    ("n", "variance", "expected"),
    [
        pytest.param(100, 0.09, 100.0, id="binary variance"),
        pytest.param(100, 0.0, 595.0, id="no variance is trusted only so far"),
        pytest.param(100, 0.045, 171.223, id="half of it"),
        pytest.param(0, 0.0, 0.0, id="nothing seen"),
    ],
)
def test_effective_size_of_fractions(n, variance, expected):
    assert effective_n_fraction(n, 0.9, variance) == pytest.approx(expected, abs=1e-3)


def test_effective_size_falls_with_unequal_weights():
    equal = effective_n_weighted(100, 100, 0.9, 0.0009)
    assert equal == pytest.approx(100.0)
    assert effective_n_weighted(100, 40, 0.9, 0.0009 * 2.5) == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("degrees", "exact"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (5, 2.57058), (10, 2.22814), (30, 2.04227)],
)
def test_student_quantiles_are_never_narrow(degrees, exact):
    assert 0.99999 * exact <= student_quantile(degrees) <= 1.012 * exact


def test_student_ends():
    assert np.isnan(student_quantile(0.5))
    assert student_quantile(1e9) == pytest.approx(Z95)


def test_mean_latency():
    x = np.array([100.0, 200.0, 300.0, 400.0])
    got = unbounded_mean_interval(4, x.sum(), np.square(x).sum())
    margin = 3.18245 * x.std(ddof=1) / 2
    assert got.mean == 250.0
    assert got.upper - 250.0 == pytest.approx(margin, rel=0.012)
    assert got.lower + got.upper == pytest.approx(500.0)


def test_mean_latency_needs_two_values():
    mean, lower, upper = unbounded_mean_interval(
        np.array([0, 1, 2]), np.array([0.0, 7.0, 14.0]), np.array([0.0, 49.0, 98.0])
    )
    assert mean.tolist()[1:] == [7.0, 7.0]
    assert np.isnan([mean[0], *lower[:2], *upper[:2]]).all()
    assert (lower[2], upper[2]) == (7.0, 7.0)
