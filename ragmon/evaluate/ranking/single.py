"""Metrics of one query. What every function shares stands in the package's docstring.

``ranked`` are ids, best first. ``relevant`` are the relevant ids; a mapping is read as grades,
and only grades above 0 are relevant. ``grades`` maps ids to grades, an id without one is
unjudged; relevant ids alone all have grade 1. All results lie in [0, 1] except ``dcg``.
Scores or a set as ``ranked`` are a TypeError, as they have no first, and so is a text in place of
ids.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final, Literal

from ragmon.evaluate.ranking.blocks import Relevant, as_grades

Gain = Literal["linear", "exponential"]
"""Gain of a grade: the grade itself, as in trec_eval, or 2^grade − 1."""

_REPEAT: Final[Any] = object()  # an id that no one can judge


def precision(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """P@k: relevant among the first k, over k, however few were retrieved.

    Raises:
        ValueError: k < 1.
    """
    return sum(_hits(ranked, relevant, k)) / k


def recall(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """R@k: relevant among the first k, over all relevant."""
    return _over(sum(_hits(ranked, relevant, k)), len(_relevant(relevant)))


def hit(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """1 when something relevant is among the first k, else 0; trec_eval's success@k."""
    return float(any(_hits(ranked, relevant, k)))


def f_beta(ranked: Sequence[str], relevant: Relevant, k: int, beta: float = 1.0) -> float:
    """F@k = (1 + β²) P R / (β² P + R): β > 1 weighs recall higher, β < 1 precision.

    Source: van Rijsbergen (1979), Information Retrieval, ch. 7.
    """
    p, r = precision(ranked, relevant, k), recall(ranked, relevant, k)
    return _over((1.0 + beta * beta) * p * r, beta * beta * p + r)


def average_precision(ranked: Sequence[str], relevant: Relevant, k: int | None = None) -> float:
    """AP = (1/R) Σ P@i over the ranks i of relevant results; R counts all relevant.

    A relevant document that was never retrieved adds 0. With k only the first k ranks are looked
    at, and R stays (trec_eval's map_cut).

    Source: Buckley & Voorhees (2000), SIGIR, 33-40.
    """
    total, hits = 0.0, 0
    for rank, relevant_here in enumerate(_hits(ranked, relevant, k), 1):
        if relevant_here:
            hits += 1
            total += hits / rank
    return _over(total, len(_relevant(relevant)))


def context_precision(ranked: Sequence[str], relevant: Relevant) -> float:
    """Average precision, under the name that RAG evaluation gives it.

    Where only the retrieved chunks were judged, pass those found useful: R is then what was
    found, as in RAGAS, and a chunk never retrieved cannot lower it.
    """
    return average_precision(ranked, relevant)


def mean_average_precision(queries: Iterable[tuple[Sequence[str], Relevant]]) -> float:
    """MAP: the mean of AP over (ranked, relevant) pairs.

    Raises:
        ValueError: there are no queries.
    """
    return _mean([average_precision(ranked, relevant) for ranked, relevant in queries])


def r_precision(ranked: Sequence[str], relevant: Relevant) -> float:
    """Precision at R, the number of relevant documents; there precision equals recall."""
    r = len(_relevant(relevant))
    return precision(ranked, relevant, r) if r else 0.0


def reciprocal_rank(ranked: Sequence[str], relevant: Relevant, k: int | None = None) -> float:
    """1 / rank of the first relevant result; 0 when none is retrieved (among the first k)."""
    ranks = (rank for rank, is_hit in enumerate(_hits(ranked, relevant, k), 1) if is_hit)
    return 1.0 / next(ranks, math.inf)


def mean_reciprocal_rank(queries: Iterable[tuple[Sequence[str], Relevant]]) -> float:
    """MRR: the mean reciprocal rank over (ranked, relevant) pairs.

    Raises:
        ValueError: there are no queries.
    """
    return _mean([reciprocal_rank(ranked, relevant) for ranked, relevant in queries])


def dcg(
    ranked: Sequence[str],
    grades: Relevant,
    k: int | None = None,
    gain: Gain = "linear",
) -> float:
    """DCG = Σ gain(grade at rank i) / log2(i + 1) over the first k ranks; not normalised.

    Source: Jarvelin & Kekalainen (2002), ACM TOIS 20:422-446 (linear); Burges et al. (2005),
    ICML, 89-96 (exponential).
    """
    known = as_grades(grades)
    return _discounted((known.get(key, 0.0) for key in _once(ranked, k)), gain)


def ndcg(
    ranked: Sequence[str],
    grades: Relevant,
    k: int | None = None,
    gain: Gain = "linear",
) -> float:
    """DCG over that of the best possible ranking, made of *all* judged documents.

    Taking the ideal over the retrieved ones alone would forgive what was never found.
    """
    best = sorted((grade for grade in as_grades(grades).values() if grade > 0), reverse=True)
    return _over(dcg(ranked, grades, k, gain), _discounted(best[: _depth(k)], gain))


def err(
    ranked: Sequence[str],
    grades: Relevant,
    k: int | None = None,
    *,
    mapping: Gain = "exponential",
    highest: float | None = None,
) -> float:
    """ERR = Σ (1/i) s_i Π_{j<i} (1 − s_j): the expected reciprocal rank where a reader stops.

    Args:
        ranked: ids, best first.
        grades: grade of each judged id.
        k: ranks looked at; all.
        mapping: how a grade g satisfies: "exponential" (2^g − 1) / 2^G, "linear" g / G.
        highest: G, the top of the grading scale; the highest of ``grades``.

    Raises:
        ValueError: k < 1, or a grade above ``highest``.

    Source: Chapelle, Metzler, Zhang & Grinspan (2009), CIKM, 621-630.
    """
    known = as_grades(grades)
    top = max(known.values(), default=0.0) if highest is None else highest
    if any(grade > top for grade in known.values()):
        raise ValueError(f"a grade lies above the highest, {top}")
    exponential = is_exponential(mapping)
    reading, total = 1.0, 0.0
    for rank, key in enumerate(_once(ranked, k), 1):
        grade = known.get(key, 0.0)
        if grade > 0:
            stops = (2.0**grade - 1.0) / 2.0**top if exponential else grade / top
            total += reading * stops / rank
            reading *= 1.0 - stops
    return total


def bpref(ranked: Sequence[str], grades: Relevant) -> float:
    """Preference of relevant over judged irrelevant documents; unjudged ones do not count.

    (1/R) Σ over retrieved relevant r of 1 − min(n_r, R) / min(R, N), with n_r the judged
    irrelevant above r, R and N the judged relevant and irrelevant.

    Source: Buckley & Voorhees (2004), SIGIR, 25-32; trec_eval's form.
    """
    known = as_grades(grades)
    relevant = sum(grade > 0 for grade in known.values())
    irrelevant = sum(grade == 0 for grade in known.values())
    above, total = 0, 0.0
    for key in _once(ranked, None):
        grade = known.get(key, -1.0)
        if grade > 0:
            total += 1.0 - min(above, relevant) / min(relevant, irrelevant) if above else 1.0
        elif grade == 0:
            above += 1
    return _over(total, relevant)


def unjudged(ranked: Sequence[str], grades: Relevant, k: int) -> float:
    """Share of the first k results without a judgement; 0 when nothing was retrieved.

    Divides by what was retrieved. Where it is high, the other metrics undersell the ranking.
    """
    known, first = as_grades(grades), list(_once(ranked, k))
    return _over(sum(key is not _REPEAT and key not in known for key in first), len(first))


def is_exponential(gain: Gain) -> bool:
    """True for the exponential gain.

    Raises:
        ValueError: neither.
    """
    if gain not in ("linear", "exponential"):
        raise ValueError(f"{gain!r} is neither 'linear' nor 'exponential'")
    return gain == "exponential"


def _relevant(relevant: Relevant) -> Collection[str]:
    if isinstance(relevant, set | frozenset):
        return relevant
    return {key for key, grade in as_grades(relevant).items() if grade > 0}


def _hits(ranked: Sequence[str], relevant: Relevant, k: int | None) -> Iterator[bool]:
    ids = _relevant(relevant)
    return (key in ids for key in _once(ranked, k))


def _once(ranked: Sequence[str], k: int | None) -> Iterator[str]:
    """The first k ids, with a mark in place of a repeat."""
    if isinstance(ranked, Mapping | AbstractSet):
        hint = "order scores by ragmon.evaluate.ranking.ranked"
        raise TypeError(f"a {type(ranked).__name__} is no ranking, best first; {hint}")
    seen: set[str] = set()
    for key in islice(ranked, _depth(k)):
        yield _REPEAT if key in seen else key
        seen.add(key)


def _depth(k: int | None) -> int | None:
    if k is not None and k < 1:
        raise ValueError(f"k is {k}; it counts ranks from 1")
    return k


def _discounted(grades: Iterable[float], gain: Gain) -> float:
    worth = (max(grade, 0.0) for grade in grades)
    gains = (2.0**grade - 1.0 for grade in worth) if is_exponential(gain) else worth
    return sum((value / math.log2(rank + 1) for rank, value in enumerate(gains, 1)), 0.0)


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("no queries")
    return math.fsum(values) / len(values)
