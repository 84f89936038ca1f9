"""Outcomes of each topic beside those of all others, with intervals and a false-discovery rate."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.report import MeanEstimate
from ragmon.stats.differences import Interval95, difference
from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates
from ragmon.stats.intervals import mean_interval

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

OutcomeName = Literal["hit_rate", "zero_result", "grounding", "disliked"]
BETTER_HIGH: Mapping[OutcomeName, bool] = {
    "hit_rate": True,
    "zero_result": False,
    "grounding": True,
    "disliked": False,
}
"""Outcomes, and whether more of each is better."""
_LEAST = 5.0  # queries with an outcome below which nothing is tested


class TopicOutcome(Struct, frozen=True, kw_only=True):
    """One outcome of a topic, beside that of all other queries."""

    topic: MeanEstimate
    rest: MeanEstimate
    difference: float | None  # topic minus rest; null where either is unknown
    lower: float | None  # 95 % interval of the difference
    upper: float | None
    false_discovery_rate: float | None  # at which it is a finding; null: too few were observed
    is_worse: bool  # a finding at 5 %, and in the bad direction
    failures_in_excess: float  # queries that would not have failed at the rate of the rest


class _TopicMoments(NamedTuple):
    """Sums of an outcome by topic; the last row is of queries without a topic."""

    n: Floats
    sum_x: Floats
    sum_xx: Floats


def outcomes(
    labels: Labels, topics: int, values: Mapping[OutcomeName, Floats]
) -> list[dict[OutcomeName, TopicOutcome]]:
    """Every outcome of each topic; those of which nothing was observed are absent.

    Args:
        labels: topic of each query; -1: none.
        topics: their number.
        values: of each query, in [0, 1]; NaN where unknown.
    """
    rows: list[dict[OutcomeName, _Tested]] = [{} for _ in range(topics)]
    for name, observed in values.items():
        is_binary = name != "grounding"
        moments = _moments(labels, topics, observed)
        for topic, tested in enumerate(_against_rest(moments, is_binary=is_binary)):
            if tested is not None:
                rows[topic][name] = tested
    flat = [(topic, name) for topic, row in enumerate(rows) for name in row]
    rates = false_discovery_rates([rows[topic][name].p_value for topic, name in flat])
    result: list[dict[OutcomeName, TopicOutcome]] = [{} for _ in range(topics)]
    for (topic, name), rate in zip(flat, rates.tolist(), strict=True):
        result[topic][name] = _outcome(rows[topic][name], rate, is_high_better=BETTER_HIGH[name])
    return result


class _Tested(NamedTuple):
    topic: Interval95
    rest: Interval95
    n: int
    rest_n: int
    p_value: float  # NaN: not tested


def _moments(labels: Labels, topics: int, observed: Floats) -> _TopicMoments:
    known = ~np.isnan(observed)
    group, x = np.where(labels[known] < 0, topics, labels[known]), observed[known]
    return _TopicMoments(
        np.bincount(group, minlength=topics + 1).astype(np.float64),
        np.bincount(group, x, topics + 1).astype(np.float64),
        np.bincount(group, x * x, topics + 1).astype(np.float64),
    )


def _against_rest(moments: _TopicMoments, *, is_binary: bool) -> list[_Tested | None]:
    """Each topic beside everything else."""
    own = [part[:-1] for part in moments]
    rest = [part.sum() - part[:-1] for part in moments]
    of_topic = mean_interval(own[0], own[1], own[2], binary=is_binary)
    of_rest = mean_interval(rest[0], rest[1], rest[2], binary=is_binary)
    sides = zip(zip(*of_topic, strict=True), zip(*of_rest, strict=True), strict=True)
    tested: list[_Tested | None] = []
    for at, (one, other) in enumerate(sides):
        topic, others = Interval95(*map(float, one)), Interval95(*map(float, other))
        enough = min(own[0][at], rest[0][at]) >= _LEAST
        p_value = difference(topic, others).p_value if enough else float("nan")
        counts = int(own[0][at]), int(rest[0][at])
        tested.append(_Tested(topic, others, *counts, p_value) if own[0][at] else None)
    return tested


def _outcome(tested: _Tested, rate: float, *, is_high_better: bool) -> TopicOutcome:
    gap = difference(tested.topic, tested.rest)
    is_known = tested.rest_n > 0
    is_worse = rate <= FALSE_DISCOVERIES and (gap.value < 0.0) == is_high_better
    return TopicOutcome(
        topic=_estimate(tested.topic, tested.n),
        rest=_estimate(tested.rest, tested.rest_n),
        difference=gap.value if is_known else None,
        lower=gap.lower if is_known else None,
        upper=gap.upper if is_known else None,
        false_discovery_rate=None if np.isnan(rate) else rate,
        is_worse=bool(is_worse),
        failures_in_excess=abs(gap.value) * tested.n if is_worse else 0.0,
    )


def _estimate(interval: Interval95, n: int) -> MeanEstimate:
    if not n:
        return MeanEstimate(estimate=None, lower=None, upper=None, samples=0)
    return MeanEstimate(
        estimate=interval.value, lower=interval.lower, upper=interval.upper, samples=n
    )


def impact(fares: Mapping[OutcomeName, TopicOutcome]) -> float:
    """Queries that fail in excess, by the outcome that has the most of them."""
    return max((outcome.failures_in_excess for outcome in fares.values()), default=0.0)


def order(every: Sequence[Mapping[OutcomeName, TopicOutcome]], queries: Sequence[int]) -> list[int]:
    """Topics by what fails most, most often; those that fare no worse by their queries."""
    return sorted(range(len(every)), key=lambda at: (-impact(every[at]), -queries[at], at))
