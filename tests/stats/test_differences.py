"""Differences of independent estimates."""

import math

import numpy as np
import pytest

from ragmon.stats.differences import Difference, Interval95, difference


def wilson(hits: int, n: int, z: float = 1.959964) -> Interval95:
    p = hits / n
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    margin = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Interval95(p, center - margin, center + margin)


@pytest.mark.parametrize(
    ("one", "other", "lower", "upper"),
    [
        # Newcombe (1998), table II, method 10: the contrasts (a) to (e).
        pytest.param((56, 70), (48, 80), 0.0524, 0.3339, id="56/70 - 48/80"),
        pytest.param((9, 10), (3, 10), 0.1705, 0.8090, id="9/10 - 3/10"),
        pytest.param((6, 7), (2, 7), 0.0582, 0.8062, id="6/7 - 2/7"),
        pytest.param((5, 56), (0, 29), -0.0381, 0.1926, id="5/56 - 0/29"),
        pytest.param((0, 10), (0, 20), -0.1611, 0.2775, id="0/10 - 0/20"),
    ],
)
def test_published_intervals(one, other, lower, upper):
    apart = difference(wilson(*one), wilson(*other))
    assert apart.lower == pytest.approx(lower, abs=1e-4)
    assert apart.upper == pytest.approx(upper, abs=1e-4)
    assert apart.is_more_than_chance == (lower > 0)
    assert (apart.p_value < 0.05) == apart.is_more_than_chance


def test_it_is_the_same_the_other_way_round():
    one, other = wilson(30, 50), wilson(5, 40)
    here, there = difference(one, other), difference(other, one)
    assert here.value == -there.value
    assert here.lower == pytest.approx(-there.upper)
    assert here.p_value == pytest.approx(there.p_value)


def test_no_difference_is_chance():
    apart = difference(wilson(5, 10), wilson(5, 10))
    assert not apart.is_more_than_chance
    assert apart.p_value == 1.0


def test_what_is_unknown_is_no_more_than_chance():
    apart = difference(Interval95(0.5, math.nan, math.nan), wilson(5, 10))
    assert math.isnan(apart.lower)
    assert not apart.is_more_than_chance


def test_alike_samples_differ_by_chance_alone_as_often_as_said():
    rng = np.random.default_rng(7)
    hits = rng.binomial(200, 0.3, (2_000, 2))
    wrong = [difference(wilson(a, 200), wilson(b, 200)).is_more_than_chance for a, b in hits]
    assert 0.02 < np.mean(wrong) < 0.06


def test_certainty_on_both_sides():
    apart = Difference(0.5, 0.5, 0.5)
    assert apart.p_value == 0.0
    assert apart.is_more_than_chance
