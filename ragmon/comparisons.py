"""Two slices of a pipeline over the same hours: every metric of both, and what is not chance."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.metric_series import QUERIES, Values, metrics
from ragmon.report import MeanEstimate, known
from ragmon.signals import Column
from ragmon.stats.differences import Difference, Interval95, difference
from ragmon.stats.paired import holm
from ragmon.windows import Merged
from ragmon.windows.estimates import Estimates
from ragmon.windows.row_layout import RowLayout

ALPHA = 0.05
"""Chance that any metric of a comparison is said to differ when none does."""

Bools = NDArray[np.bool_]


class ComparedMetric(Struct, frozen=True, kw_only=True):
    """A metric of both; the difference is the candidate minus the reference."""

    metric: str
    reference: MeanEstimate
    candidate: MeanEstimate
    difference: float | None
    lower: float | None  # 95 % interval of the difference; null where either has none
    upper: float | None
    p_value: float | None  # of no difference; null where it cannot be tested
    p_corrected: float | None  # corrected for the number of metrics tested (Holm)
    differs: bool  # more than chance: the corrected one is below 5 %


class ComparedSlice(Struct, frozen=True, kw_only=True):
    """One of the two."""

    value: str
    queries: int  # in the hours that are compared
    queries_in_all: int  # in all of the time asked for


class SliceComparison(Struct, frozen=True, kw_only=True):
    """Two values of a dimension of one pipeline, over the same hours."""

    pipeline: str
    dimension: str
    reference: ComparedSlice
    candidate: ComparedSlice
    start: float = msgspec.field(name="from")  # unix seconds
    to: float
    hours: str  # shared: those in which both had queries; all: there were none
    seconds: float  # length of these hours
    metrics: list[ComparedMetric]


def shared_steps(one: Merged, other: Merged, columns: Sequence[Column]) -> Bools:
    """True for each step in which both had queries."""
    queries = RowLayout(len(columns)).queries
    shared: Bools = (one.rows[:, queries] > 0.0) & (other.rows[:, queries] > 0.0)
    return shared


def total_of(merged: Merged, chosen: Bools) -> Merged:
    """Sums of the chosen steps, in one row."""
    assert merged.judged is not None
    return Merged(
        merged.rows[chosen].sum(axis=0, keepdims=True),
        merged.latency[chosen].sum(axis=0, keepdims=True),
        merged.judged[chosen].sum(axis=0, keepdims=True),
    )


def beside(one: Merged, other: Merged) -> Merged:
    """The rows of the first, then those of the second."""
    assert one.judged is not None
    assert other.judged is not None
    return Merged(
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.latency, other.latency]),
        np.concatenate([one.judged, other.judged]),
    )


def compared_metrics(estimates: Estimates, columns: Sequence[Column]) -> list[ComparedMetric]:
    """Every metric that either has samples of.

    The queries of the two are taken as independent samples, and metrics are tested at once: a
    release that changes nothing is said to differ in any of them once in twenty comparisons.

    Args:
        estimates: two rows, the reference and the candidate.
        columns: of the observations.
    """
    named = {
        name: metric.values(estimates)
        for name, metric in metrics(columns).items()
        if name != QUERIES
    }
    some = {name: values for name, values in named.items() if np.isfinite(values.value).any()}
    apart = {name: _apart(values) for name, values in some.items()}
    tested = {name: one.p_value for name, one in apart.items() if _has_interval(one)}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return [
        ComparedMetric(
            metric=name,
            reference=_side(values, 0),
            candidate=_side(values, 1),
            difference=known(apart[name].value),
            lower=known(apart[name].lower),
            upper=known(apart[name].upper),
            p_value=tested.get(name),
            p_corrected=corrected.get(name),
            differs=corrected.get(name, 1.0) < ALPHA,
        )
        for name, values in some.items()
    ]


def _apart(values: Values) -> Difference:
    """The second minus the first."""
    reference, candidate = (Interval95(*(float(part[at]) for part in values[:3])) for at in (0, 1))
    return difference(candidate, reference)


def _has_interval(apart: Difference) -> bool:
    return math.isfinite(apart.lower) and math.isfinite(apart.upper)


def _side(values: Values, at: int) -> MeanEstimate:
    value, lower, upper = (known(float(part[at])) for part in values[:3])
    return MeanEstimate(estimate=value, lower=lower, upper=upper, samples=int(values.samples[at]))
