"""ROC curve and the area under it."""

import math

import numpy as np
import pytest

from ragmon.stats.roc import auroc, curve


@pytest.mark.parametrize(
    ("score", "good", "area"),
    [
        pytest.param([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], 1.0, id="told apart"),
        pytest.param([0.9, 0.8, 0.2, 0.1], [0, 0, 1, 1], 0.0, id="the wrong way round"),
        pytest.param([0.5, 0.5, 0.5], [0, 1, 1], 0.5, id="one score for all"),
        pytest.param([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75, id="one pair of four wrong"),
    ],
)
def test_the_area_is_the_share_of_pairs_in_order(score, good, area):
    assert auroc(score, good).value == pytest.approx(area)


def test_it_is_the_area_under_the_curve():
    rng = np.random.default_rng(3)
    good = rng.random(300) < 0.7
    score = np.round(rng.random(300) + 0.3 * good, 2)
    points = curve(score, good)
    assert (points[0][1:], points[-1][1:]) == ((0.0, 0.0), (1.0, 1.0))
    x, y = np.array([point[1:] for point in points]).T
    assert np.trapezoid(y, x) == pytest.approx(auroc(score, good).value, abs=0.01)
    assert np.all(np.diff(x) >= 0)
    assert np.all(np.diff(y) >= 0)


def test_answers_of_one_kind_have_no_area():
    assert all(map(math.isnan, auroc([0.1, 0.9], [1, 1])))
    assert curve([0.1, 0.9], [1, 1]) == []


def test_few_answers_that_are_told_apart_are_no_certainty():
    few = auroc([0.1] * 5 + [0.9] * 5, [0] * 5 + [1] * 5)
    many = auroc([0.1] * 200 + [0.9] * 200, [0] * 200 + [1] * 200)
    assert few.lower < 0.8 < 0.97 < many.lower
    assert few.upper == many.upper == 1.0


@pytest.mark.parametrize(("distance", "least"), [(0.0, 0.93), (1.5, 0.93), (2.5, 0.93)])
def test_the_interval_holds_the_area_as_often_as_it_says(distance, least):
    rng = np.random.default_rng(11)
    truth = 0.5 * (1.0 + math.erf(distance / 2.0))  # of two normal scores at this distance
    good = np.arange(60) < 42
    covered = 0
    for _ in range(600):
        area = auroc(rng.normal(distance * good), good)
        covered += area.lower <= truth <= area.upper
    assert covered / 600 >= least
