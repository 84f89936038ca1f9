"""Calibration of scores: of answers with a score of 0.8, 80 % should be good."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragmon.stats.intervals import mean_interval

Floats = NDArray[np.float64]

_MOST_BINS = 10
_LEAST_IN_BIN = 10


class CalibrationBin(NamedTuple):
    """Answers with like scores."""

    answers: int
    mean_score: float
    mean_truth: float
    lower: float  # 95 % interval of the mean truth
    upper: float


class CalibrationError(NamedTuple):
    """Expected calibration error with the curve that it is taken from."""

    value: float  # mean distance of score and truth over bins, weighted by answers
    by_chance: float  # what a perfectly calibrated judge would show with so few answers
    bins: tuple[CalibrationBin, ...]


def calibration_error(score: ArrayLike, truth: ArrayLike) -> CalibrationError:
    """Expected calibration error over bins of as many answers each; NaN without answers.

    Args:
        score: in [0, 1], shape (n,), without NaN.
        truth: in [0, 1], shape (n,).

    Sources: Naeini, Cooper and Hauskrecht (2015), AAAI 29:2901-2907; bins of equal mass and the
    share that chance has, Nixon et al. (2019), CVPR workshops, and Broecker and Smith (2007),
    Weather and Forecasting 22:651-661.
    """
    scores, truths = np.asarray(score, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if not scores.size:
        return CalibrationError(math.nan, math.nan, ())
    bins, error, chance = [], 0.0, 0.0
    at = _bins(scores)
    for number in np.unique(at):
        chosen = at == number
        mine, theirs, n = scores[chosen], truths[chosen], int(chosen.sum())
        interval = mean_interval(n, theirs.sum(), theirs @ theirs, binary=False)
        bounds = float(interval.mean), float(interval.lower), float(interval.upper)
        bins.append(CalibrationBin(n, float(mine.mean()), *bounds))
        error += abs(float(mine.sum() - theirs.sum())) / scores.size
        # The mean distance of a normal number from its mean is sqrt(2/π) deviations.
        coins = float(np.sum(mine * (1.0 - mine)))
        chance += math.sqrt(2.0 / math.pi * coins) / scores.size
    return CalibrationError(error, chance, tuple(bins))


def _bins(scores: Floats) -> NDArray[np.intp]:
    """Number of each score's bin; equal scores share one."""
    number = max(1, min(_MOST_BINS, scores.size // _LEAST_IN_BIN))
    edges = np.unique(np.quantile(scores, np.arange(1, number) / number))
    return np.searchsorted(edges, scores, side="left")
