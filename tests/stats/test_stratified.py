"""Comparisons within strata, against closed forms and by simulation."""

import math

import numpy as np
import pytest

from ragmon.stats.stratified import Strata, compare_strata, upper_tail


def strata(*rows):
    """Rows of (comparison, n with, events with, n without, events without)."""
    columns = [*zip(*rows, strict=True)]
    return Strata(np.array(columns[0], dtype=np.intp), *(np.array(c, float) for c in columns[1:]))


def test_one_stratum_is_the_difference_of_two_rates():
    one = compare_strata(strata((0, 100, 30, 200, 20)), 1)
    assert one.difference[0] == pytest.approx(0.2)
    assert one.lower[0] < 0.2 < one.upper[0]
    assert one.p_value[0] < 1e-5
    assert (one.n_with[0], one.n_without[0]) == (100, 200)


def test_a_hard_stratum_blames_nobody():
    """The rates within are equal, though most of the cases are where both are high."""
    fair = compare_strata(strata((0, 90, 45, 10, 5), (0, 10, 1, 90, 9)), 1)
    assert fair.difference[0] == pytest.approx(0.0)
    assert fair.p_value[0] > 0.3


def test_a_stratum_without_the_other_side_tells_nothing():
    none = compare_strata(strata((0, 50, 50, 0, 0), (1, 10, 5, 10, 1)), 3)
    assert np.isnan(none.difference[[0, 2]]).all()
    assert np.isnan(none.p_value[[0, 2]]).all()
    assert none.difference[1] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("at_least", "n", "share"), [(8, 20, 0.2), (1, 5, 0.1), (30, 100, 0.15), (20, 20, 0.5)]
)
def test_the_tail_is_that_of_the_binomial(at_least, n, share):
    exact = sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(at_least, n + 1))
    assert upper_tail(at_least, n, share) == pytest.approx(exact, rel=1e-9)


def test_small_samples_are_not_called_clear_too_often():
    """A normal tail would call one in a few hundred of these one in ten thousand."""
    rng = np.random.default_rng(2)
    rows = 40_000
    n_with, n_without = np.full(rows, 10.0), np.full(rows, 400.0)
    counts = rng.binomial(10, 0.05, rows), rng.binomial(400, 0.05, rows)
    tested = compare_strata(Strata(np.arange(rows), n_with, counts[0], n_without, counts[1]), rows)
    for level in (0.05, 0.01, 0.001):
        assert (tested.p_value <= level).mean() <= 1.25 * level


def test_the_interval_covers_in_many_small_strata():
    rng = np.random.default_rng(3)
    comparisons, per = 600, 60
    to = np.repeat(np.arange(comparisons), per)
    hardness = rng.uniform(0.05, 0.3, len(to))
    n_with, n_without = rng.integers(1, 5, len(to)), rng.integers(1, 8, len(to))
    events = rng.binomial(n_with, hardness + 0.1), rng.binomial(n_without, hardness)
    tested = compare_strata(Strata(to, n_with, events[0], n_without, events[1]), comparisons)
    covered = ((tested.lower <= 0.1) & (tested.upper >= 0.1)).mean()
    assert 0.93 < covered < 0.97
