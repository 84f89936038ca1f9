"""Lowest score above which nearly all answers are surely good, from labels.

It controls the risk of a selection: answers from the returned score on are good with at least the
promised share, in the population that the labels were drawn from, in all but one of twenty sets of
labels. Sources: Angelopoulos, Bates, Candes, Jordan and Lei (2021), "Learn then test" (fixed
sequences of exact binomial tests); Bauer (1991), Statistics in Medicine 10:871-890, on sequences.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

PROMISED = 0.9
"""Share of the marked answers that is good."""

CONFIDENCE = 0.95
"""Of the promise, over sets of labels."""

_TWO_SEQUENCES_FROM = 150  # labels, from which a second start costs less than it saves
_GROWTH = 1.25  # times as many labels in the next test


class PrecisionBound(NamedTuple):
    """A score from which on the promise holds."""

    floor: float
    marked: int  # labelled answers with that score or a higher one
    good: int  # of these


def precision_bound(
    score: ArrayLike,
    is_good: ArrayLike,
    *,
    promised: float = PROMISED,
    confidence: float = CONFIDENCE,
) -> PrecisionBound | None:
    """The lowest score for which labels prove the promise; None where they prove it for none.

    The answers with the highest scores are tested, then more and more of them, until a test does
    not reject that more than 1 - ``promised`` are bad. How many are tested depends on nothing but
    the number of labels, so that chance errs with at most 1 - ``confidence`` where the share of
    good answers does not fall as the score rises. Of 28 labels or fewer none prove anything.

    Args:
        score: shape (n,), without NaN.
        is_good: by the label, shape (n,), drawn as the answers are that the promise is for.
        promised: least share of good answers, in (0, 1).
        confidence: in (0, 1).
    """
    scores, good = np.asarray(score, dtype=np.float64), np.asarray(is_good, dtype=bool)
    if scores.shape != good.shape:
        raise ValueError(f"{scores.size} scores and {good.size} labels")
    order = np.argsort(-scores, kind="stable")
    ranked, bad = scores[order], np.cumsum(~good[order])
    tolerated = 1.0 - promised
    starts, error = _starts(scores.size, tolerated, 1.0 - confidence)
    marked = max((_proven(ranked, bad, start, tolerated, error) for start in starts), default=0)
    if not marked:
        return None
    return PrecisionBound(float(ranked[marked - 1]), marked, marked - int(bad[marked - 1]))


def _starts(labels: int, tolerated: float, error: float) -> tuple[tuple[int, ...], float]:
    """Sizes with which sequences begin, and the error that each may have.

    One bad answer among the best few ends the first sequence; the second begins with half of all.
    """
    if labels < _TWO_SEQUENCES_FROM:
        return (_least(tolerated, error),), error
    half = error / 2.0
    return (_least(tolerated, half), max(_least(tolerated, half), labels // 2)), half


def _least(tolerated: float, error: float) -> int:
    """Number of answers that prove the promise if all of them are good."""
    return math.ceil(math.log(error) / math.log1p(-tolerated))


def _proven(
    ranked: Floats, bad: NDArray[np.intp], start: int, tolerated: float, error: float
) -> int:
    """Number of the highest scores for which the promise is proven; equal scores go together."""
    proven = 0
    for size in _sizes(start, len(ranked)):
        together = int(np.searchsorted(-ranked, -ranked[size - 1], side="right"))
        if _binomial_cdf(int(bad[together - 1]), together, tolerated) > error:
            break
        proven = together
    return proven


def _sizes(start: int, most: int) -> Iterator[int]:
    size = start
    while size <= most:
        yield size
        if size == most:
            return
        size = min(most, int(size * _GROWTH))


def _binomial_cdf(hits: int, n: int, p: float) -> float:
    """Chance of at most so many hits among n."""
    logs = (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
        for k in range(hits + 1)
    )
    return min(1.0, math.fsum(map(math.exp, logs)))
