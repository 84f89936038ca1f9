"""Expected calibration error and its curve."""

import math

import numpy as np
import pytest

from ragmon.stats.calibration_error import calibration_error


def test_scores_that_are_the_share_of_good_answers_err_as_chance_does():
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(200):
        score = rng.random(200)
        errors.append(calibration_error(score, rng.random(200) < score))
    assert np.mean([one.value for one in errors]) == pytest.approx(
        np.mean([one.by_chance for one in errors]), rel=0.05
    )


def test_scores_that_are_too_high_err_by_as_much():
    rng = np.random.default_rng(6)
    truth = rng.random(4_000) < 0.5
    error = calibration_error(np.full(4_000, 0.7), truth)
    assert error.value == pytest.approx(0.2, abs=0.02)
    assert error.by_chance < 0.01
    (one,) = error.bins
    assert one.answers == 4_000
    assert one.lower < 0.5 < one.upper


def test_bins_hold_as_many_answers_each_and_one_score_lies_in_one():
    score = np.array([0.9] * 60 + [0.2] * 40)
    error = calibration_error(score, np.ones(100))
    assert [(one.answers, one.mean_score) for one in error.bins] == [
        (40, pytest.approx(0.2)),
        (60, pytest.approx(0.9)),
    ]
    spread = calibration_error(np.linspace(0, 1, 100), np.ones(100))
    assert {one.answers for one in spread.bins} == {10}


def test_no_answers_have_no_error():
    error = calibration_error([], [])
    assert math.isnan(error.value)
    assert error.bins == ()
