"""Scores above which a promised share of answers is good, and how often the promise is broken."""

import numpy as np
import pytest

from ragmon.stats.precision_bound import precision_bound


def test_the_least_labels_that_prove_anything():
    assert precision_bound(np.arange(28) / 28, np.ones(28)) is None
    assert precision_bound(np.arange(29) / 29, np.ones(29)) == (0.0, 29, 29)


@pytest.mark.parametrize(
    ("bad", "marked"),
    [
        pytest.param([], 100, id="all are good"),
        pytest.param([0], 0, id="the best is bad"),
        pytest.param([40], 36, id="a bad one at rank 41 ends it before 45"),
        pytest.param([99], 100, id="the worst is bad, which 100 labels allow"),
    ],
)
def test_ranks_are_tested_from_the_best_on(bad, marked):
    good = np.ones(100, dtype=bool)
    good[bad] = False
    bound = precision_bound(np.arange(100, 0, -1) / 100, good)
    assert (bound.marked if bound else 0) == marked


def test_two_starts_forgive_a_bad_answer_among_the_best():
    good = np.ones(200, dtype=bool)
    good[0] = False
    assert precision_bound(np.arange(200, 0, -1) / 200, good).marked == 200
    assert precision_bound(np.arange(140, 0, -1) / 140, good[:140]) is None


def test_equal_scores_are_marked_together():
    assert precision_bound([0.9] * 20 + [0.8] * 40, np.ones(60)) == (0.8, 60, 60)
    many_bad = np.repeat([True, False], [40, 20])
    assert precision_bound([0.9] * 20 + [0.8] * 40, many_bad) is None


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="2 scores and 1 labels"):
        precision_bound([0.1, 0.2], [True])


@pytest.mark.parametrize("labels", [60, 100, 200, 400])
@pytest.mark.parametrize(
    "level",
    [
        pytest.param(0.0, id="no score is good enough"),
        pytest.param(2.0, id="some scores are"),
        pytest.param(4.0, id="most are"),
    ],
)
def test_the_promise_is_broken_no_more_often_than_allowed(labels, level):
    """Scores are uniform; the chance of being good rises with them up to just below 0.9 or 1."""
    rng = np.random.default_rng(labels)
    grid = np.linspace(0.0, 1.0, 2_001)
    chance = _chance(grid, level)
    from_here = np.cumsum(chance[::-1])[::-1] / np.arange(len(grid), 0, -1)
    broken = 0
    for _ in range(400):
        score = rng.random(labels)
        bound = precision_bound(score, rng.random(labels) < _chance(score, level))
        broken += bound is not None and float(np.interp(bound.floor, grid, from_here)) < 0.9
    assert broken / 400 <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / 400)


def _chance(score, level):
    if not level:
        return 0.89 - 0.4 * (1.0 - score)
    return 1.0 / (1.0 + np.exp(-(level + 3.0 * (score - 0.5))))
