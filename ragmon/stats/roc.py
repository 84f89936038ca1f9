"""Power of a score to tell bad from good: the ROC curve and the area under it.

An answer is flagged where its score lies below a threshold; one that is bad and flagged is a true
positive.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragmon.stats.differences import Interval95
from ragmon.stats.intervals import Z95

Floats = NDArray[np.float64]

_HALVINGS = 60  # of the range in which a bound is looked for
_MOST_POINTS = 50


class RocPoint(NamedTuple):
    """One threshold."""

    threshold: float  # answers with a score up to it are flagged
    false_positive_rate: float  # of the good answers, those flagged
    true_positive_rate: float  # of the bad answers, those flagged


def auroc(score: ArrayLike, good: ArrayLike) -> Interval95:
    """Chance that a good answer has a higher score than a bad one, a tie counting half.

    Its interval is Newcombe's, which does not shrink to nothing where few answers are told apart
    perfectly. NaN unless there are answers of both kinds.

    Args:
        score: shape (n,), without NaN.
        good: shape (n,).

    Source: Newcombe (2006), Statistics in Medicine 25:559-573, method 5.
    """
    values, is_good = np.asarray(score, dtype=np.float64), np.asarray(good, dtype=np.bool_)
    many, few = int(is_good.sum()), int((~is_good).sum())
    if not many or not few:
        return Interval95(math.nan, math.nan, math.nan)
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[at]  # from 1; ties share the middle
    area = float((ranks[is_good].sum() - many * (many + 1) / 2.0) / (many * few))
    return Interval95(area, _bound(area, many, few, 0.0), _bound(area, many, few, 1.0))


def curve(score: ArrayLike, good: ArrayLike) -> list[RocPoint]:
    """The curve from (0, 0) to (1, 1) in at most 51 points; none unless both kinds are there."""
    values, is_good = np.asarray(score, dtype=np.float64), np.asarray(good, dtype=np.bool_)
    if not is_good.any() or is_good.all():
        return []
    thresholds, at = np.unique(values, return_inverse=True)
    false = np.cumsum(np.bincount(at, is_good)) / is_good.sum()
    true = np.cumsum(np.bincount(at, ~is_good)) / (~is_good).sum()
    shown = np.unique(np.linspace(0, len(thresholds) - 1, _MOST_POINTS).round().astype(np.intp))
    points = zip(thresholds[shown], false[shown], true[shown], strict=True)
    return [RocPoint(-math.inf, 0.0, 0.0), *(RocPoint(*map(float, point)) for point in points)]


def _bound(area: float, many: int, few: int, end: float) -> float:
    """The area furthest towards an end that lies within the margin of what was seen."""
    inside, outside = area, end
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2.0
        if abs(middle - area) <= Z95 * math.sqrt(_variance(middle, many, few)):
            inside = middle
        else:
            outside = middle
    return inside


def _variance(area: float, many: int, few: int) -> float:
    others = (many + few) / 2.0 - 1.0
    spread = 1.0 + others * (1.0 - area) / (2.0 - area) + others * area / (1.0 + area)
    return area * (1.0 - area) * spread / (many * few)
