"""Metrics of many queries at once; formulas, sources and edge cases stand in ``single``.

Every function takes ``JudgedRankings`` arrays of n queries and returns float64 of shape (n,).
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.evaluate.ranking.blocks import Floats, JudgedRankings
from ragmon.evaluate.ranking.single import Gain, is_exponential


def precision(judged: JudgedRankings, k: int) -> Floats:
    """P@k."""
    return _hit_counts(judged, k) / k


def recall(judged: JudgedRankings, k: int) -> Floats:
    """R@k."""
    return _over(_hit_counts(judged, k), judged.relevant)


def hit(judged: JudgedRankings, k: int) -> Floats:
    """1 where something relevant is among the first k."""
    return (_hit_counts(judged, k) > 0).astype(np.float64)


def f_beta(judged: JudgedRankings, k: int, beta: float = 1.0) -> Floats:
    """F@k."""
    p, r = precision(judged, k), recall(judged, k)
    return _over((1.0 + beta * beta) * p * r, beta * beta * p + r)


def average_precision(judged: JudgedRankings, k: int | None = None) -> Floats:
    """AP; with k only the first k ranks are looked at."""
    hits = _hits(judged, k).astype(np.float64)
    at_hits = np.cumsum(hits, axis=1)
    at_hits *= hits
    return _over(at_hits @ _reciprocal_ranks(hits.shape[1]), judged.relevant)


def r_precision(judged: JudgedRankings) -> Floats:
    """Precision at the number of relevant documents."""
    hits = _hits(judged)
    within = np.arange(hits.shape[1]) < judged.relevant[:, None]
    return _over((hits & within).sum(axis=1), judged.relevant)


def reciprocal_rank(judged: JudgedRankings, k: int | None = None) -> Floats:
    """1 / rank of the first relevant result; 0 without one."""
    hits = _hits(judged, k)
    if not hits.shape[1]:
        return np.zeros(len(hits))
    first = hits.argmax(axis=1)
    return np.where(hits[np.arange(len(hits)), first], 1.0 / (first + 1.0), 0.0)


def dcg(judged: JudgedRankings, k: int | None = None, gain: Gain = "linear") -> Floats:
    """DCG."""
    return _discounted(judged.grades, k, gain)


def ndcg(judged: JudgedRankings, k: int | None = None, gain: Gain = "linear") -> Floats:
    """DCG over that of the best possible ranking of all judged documents."""
    return _over(dcg(judged, k, gain), _discounted(judged.ideal, k, gain))


def err(
    judged: JudgedRankings, k: int | None = None, *, mapping: Gain = "exponential", highest: float
) -> Floats:
    """ERR on a scale of grades that ends at ``highest``.

    Raises:
        ValueError: a grade lies above ``highest``.
    """
    if judged.ideal.size and judged.ideal.max() > highest:
        raise ValueError(f"a grade lies above the highest, {highest}")
    grades = _positive(judged.grades[:, :k])
    if is_exponential(mapping):
        stops = np.expm1(grades * np.log(2.0)) / 2.0**highest
    else:
        stops = grades / highest if highest > 0 else grades
    reading = np.cumprod(1.0 - stops, axis=1)
    stops[:, 1:] *= reading[:, :-1]
    expected: Floats = stops @ _reciprocal_ranks(stops.shape[1])
    return expected


def bpref(judged: JudgedRankings) -> Floats:
    """Preference of relevant over judged irrelevant documents."""
    hits = _hits(judged)
    above = np.cumsum(judged.grades == 0, axis=1)
    limit = np.minimum(judged.relevant, judged.irrelevant)[:, None]
    share = np.minimum(above, judged.relevant[:, None]) / np.maximum(limit, 1)
    return _over(((1.0 - share) * hits).sum(axis=1), judged.relevant)


def unjudged(judged: JudgedRankings, k: int) -> Floats:
    """Share of the first k results without a judgement."""
    missing = np.isnan(judged.grades[:, :k]).sum(axis=1)
    return _over(missing, np.minimum(judged.retrieved, k))


def auc_pr(judged: JudgedRankings) -> Floats:
    """Area under the interpolated precision-recall curve."""
    hits = _hits(judged)
    best = np.cumsum(hits, axis=1) * _reciprocal_ranks(hits.shape[1])
    best = np.maximum.accumulate(best[:, ::-1], axis=1)[:, ::-1]
    return _over((best * hits).sum(axis=1), judged.relevant)


def interpolated_precision(judged: JudgedRankings, levels: Floats) -> Floats:
    """Highest precision at or beyond each level of recall; shape (n, levels).

    A level r is reached with ⌊rR + 0.9⌋ relevant results, which is trec_eval's rounding.
    """
    hits = _hits(judged)
    depth = hits.shape[1]
    if not depth:
        return np.zeros((len(hits), len(levels)))
    counts = np.cumsum(hits, axis=1)
    best = counts * _reciprocal_ranks(depth)
    best = np.maximum.accumulate(best[:, ::-1], axis=1)[:, ::-1]
    needed = np.floor(levels * judged.relevant[:, None] + 0.9).astype(np.int64)
    reached = (counts[:, :, None] < needed[:, None, :]).sum(axis=1)  # first rank that has them
    rows = np.arange(len(hits))[:, None]
    values: Floats = best[rows, np.minimum(reached, depth - 1)]
    values[(reached >= depth) | (judged.relevant[:, None] == 0)] = 0.0
    return values


def _hits(judged: JudgedRankings, k: int | None = None) -> NDArray[np.bool_]:
    if k is not None and k < 1:
        raise ValueError(f"k is {k}; it counts ranks from 1")
    hits: NDArray[np.bool_] = judged.grades[:, :k] > 0.0
    return hits


def _hit_counts(judged: JudgedRankings, k: int) -> Floats:
    counts: Floats = np.count_nonzero(_hits(judged, k), axis=1).astype(np.float64)
    return counts


def _positive(grades: Floats) -> Floats:
    """Grades, with 0 for what is unjudged or below 0."""
    return np.where(grades > 0.0, grades, 0.0)


def _discounted(grades: Floats, k: int | None, gain: Gain) -> Floats:
    worth = _positive(grades[:, :k])
    if is_exponential(gain):
        worth = np.exp2(worth) - 1.0
    discounted: Floats = worth @ (1.0 / np.log2(np.arange(2, worth.shape[1] + 2)))
    return discounted


def _reciprocal_ranks(depth: int) -> Floats:
    return 1.0 / np.arange(1, depth + 1)


def _over(numerator: NDArray[np.number], denominator: NDArray[np.number]) -> Floats:
    """Quotients; 0 where there is nothing to divide by."""
    out = np.zeros(len(numerator))
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out
