"""Agreement of a judge with human labels, from counts that add up.

Both are cut at one half: a score of at least 0.5 calls the answer good.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragmon.stats.intervals import Z95, wilson_cc

Floats = NDArray[np.float64]

CONFUSION = ("both_good", "judge_only", "label_only", "both_bad")
"""Counts of answers by who calls them good; addable over answers, buckets and replicas."""


class AgreementFigure(NamedTuple):
    """A number with its 95 % interval; NaN where the counts do not say."""

    value: float
    lower: float
    upper: float


class Agreement(NamedTuple):
    """Of a judge with labels."""

    labels: int
    balanced_accuracy: AgreementFigure
    kappa: AgreementFigure


UNKNOWN = AgreementFigure(math.nan, math.nan, math.nan)


def confusion_rows(judge: ArrayLike, label: ArrayLike) -> Floats:
    """Answers as addable rows over ``CONFUSION``; all zero where either is NaN.

    Args:
        judge: scores in [0, 1], shape (n,).
        label: of humans, in [0, 1], shape (n,).
    """
    j, y = np.asarray(judge, dtype=np.float64), np.asarray(label, dtype=np.float64)
    known = ~np.isnan(j) & ~np.isnan(y)
    good, truth = j >= 0.5, y >= 0.5
    return np.stack([good & truth, good & ~truth, ~good & truth, ~good & ~truth], axis=-1) * (
        known[..., None] * 1.0
    )


def agreement(counts: ArrayLike) -> Agreement:
    """Balanced accuracy and Cohen's kappa with their intervals.

    Args:
        counts: over ``CONFUSION``, shape (4,).
    """
    a, b, c, d = (float(value) for value in np.asarray(counts, dtype=np.float64))
    return Agreement(round(a + b + c + d), balanced_accuracy(a, b, c, d), kappa(a, b, c, d))


def balanced_accuracy(a: float, b: float, c: float, d: float) -> AgreementFigure:
    """Mean of the shares of good and of bad answers that the judge recognises.

    Unknown unless there are labels of both kinds.

    Source of the interval: Zou and Donner (2008), Statistics in Medicine 27:1693-1702 (MOVER).
    """
    if a + c == 0 or b + d == 0:
        return UNKNOWN
    shares = (a / (a + c), d / (b + d))
    bounds = (wilson_cc(shares[0], a + c), wilson_cc(shares[1], b + d))
    value = sum(shares) / 2.0
    below = math.hypot(*(share - low for share, (low, _) in zip(shares, bounds, strict=True)))
    above = math.hypot(*(high - share for share, (_, high) in zip(shares, bounds, strict=True)))
    return AgreementFigure(value, max(value - below / 2.0, 0.0), min(value + above / 2.0, 1.0))


def kappa(a: float, b: float, c: float, d: float) -> AgreementFigure:
    """Cohen's kappa: agreement beyond what the two would share by chance, at most 1.

    Unknown unless there are labels of both kinds, as balanced accuracy is; a judge that says the
    same of all of them has 0.

    Source: Fleiss, Cohen and Everitt (1969), Psychological Bulletin 72:323-327, eq. 13.
    """
    n = a + b + c + d
    if a + c == 0 or b + d == 0:
        return UNKNOWN
    cells = np.array([[a, b], [c, d]]) / n
    judge, label = cells.sum(axis=1), cells.sum(axis=0)
    seen, chance = float(np.trace(cells)), float(judge @ label)
    value = (seen - chance) / (1.0 - chance)
    # Adding half an answer to each cell keeps a perfect agreement of few from looking certain.
    margin = Z95 * _kappa_deviation(np.array([[a, b], [c, d]]) + 0.5)
    return AgreementFigure(value, max(value - margin, -1.0), min(value + margin, 1.0))


def _kappa_deviation(counts: Floats) -> float:
    n = counts.sum()
    p = counts / n
    judge, label = p.sum(axis=1), p.sum(axis=0)
    seen, chance = np.trace(p), judge @ label
    marginal = judge[None, :] + label[:, None]  # of cell (i, j): judge's j and label's i
    agreeing = sum(
        p[i, i] * ((1 - chance) - (judge[i] + label[i]) * (1 - seen)) ** 2 for i in range(2)
    )
    other = (1 - seen) ** 2 * sum(p[i, j] * marginal[i, j] ** 2 for i, j in ((0, 1), (1, 0)))
    drift = (seen * chance - 2 * chance + seen) ** 2
    return float(math.sqrt(max(agreeing + other - drift, 0.0) / n) / (1 - chance) ** 2)
