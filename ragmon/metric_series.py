"""A metric over time, by the names that a report has for it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.report import known, metric_key
from ragmon.signals import Column
from ragmon.signals.latency import STAGES
from ragmon.windows import LATENCY, Merged
from ragmon.windows.estimates import QUANTILES, Estimates, estimate, shown
from ragmon.windows.history import Steps

QUERIES = "queries"

Floats = NDArray[np.float64]


class MetricPoint(Struct, frozen=True, kw_only=True):
    """A metric over one step; null where there were no samples."""

    at: float  # unix seconds at which the step begins
    value: float | None
    lower: float | None  # 95 % interval; null where the metric has none
    upper: float | None
    samples: int
    expected_lower: float | None = None  # what detection calls ordinary; null where it knows too
    expected_upper: float | None = None  # little, and for steps of more than an hour


class MetricSeries(Struct, frozen=True, kw_only=True):
    """A metric of a pipeline or slice over time, oldest point first."""

    metric: str
    pipeline: str
    dimension: str  # empty: the pipeline as a whole
    value: str
    start: float = msgspec.field(name="from")  # unix seconds at which the first step begins
    to: float  # unix seconds at which the last step ends
    step: float  # seconds
    points: list[MetricPoint]


class Values(NamedTuple):
    """Of each step, shape (steps,); NaN where there is none."""

    value: Floats
    lower: Floats  # 95 % interval
    upper: Floats
    samples: Floats


class SeriesMetric(NamedTuple):
    """A metric that can be asked for over time."""

    name: str
    needs_latencies: bool
    values: Callable[[Estimates], Values]


def metrics(columns: Sequence[Column]) -> dict[str, SeriesMetric]:
    """Everything that can be asked for, by name.

    Args:
        columns: of the observations.
    """
    named = {QUERIES: SeriesMetric(QUERIES, needs_latencies=False, values=_queries)}
    for at, column in enumerate(shown(columns)):
        if column.metric is not None or column.name in (LATENCY, "failure_mode"):
            name = metric_key(column)
            named[name] = SeriesMetric(name, needs_latencies=False, values=_mean(at))
    for stage, stage_name in enumerate(STAGES):
        for number, quantile in enumerate(QUANTILES):
            name = f"{LATENCY}@p{100 * quantile:g}/{stage_name}"
            named[name] = SeriesMetric(name, needs_latencies=True, values=_quantile(stage, number))
    return named


def points(
    metric: SeriesMetric,
    merged: Merged,
    columns: Sequence[Column],
    over: Steps,
    expected: tuple[Floats, Floats] | None = None,
) -> list[MetricPoint]:
    """The metric for each step.

    Args:
        metric: one of ``metrics``.
        merged: sums with a row for each step, in the place of a window's series.
        columns: of the observations.
        over: the steps.
        expected: ends of what is ordinary, each (steps,); None: not known.
    """
    values = metric.values(estimate(merged, columns))
    unknown = np.full(len(values.value), np.nan)
    ends = (unknown, unknown) if expected is None else expected
    rows = zip(*(column.tolist() for column in (*values, *ends)), strict=True)
    return [
        MetricPoint(
            at=float(over.start + at * over.step_s),
            value=known(value),
            lower=known(lower),
            upper=known(upper),
            samples=int(samples),
            expected_lower=known(low),
            expected_upper=known(high),
        )
        for at, (value, lower, upper, samples, low, high) in enumerate(rows)
    ]


def _queries(estimates: Estimates) -> Values:
    unknown = np.full(len(estimates.queries), np.nan)
    return Values(estimates.queries, unknown, unknown, estimates.queries)


def _mean(at: int) -> Callable[[Estimates], Values]:
    def mean(estimates: Estimates) -> Values:
        samples = estimates.samples[:, at]
        some = np.where(samples > 0, 1.0, np.nan)
        return Values(
            estimates.mean[:, at] * some,
            estimates.lower[:, at] * some,
            estimates.upper[:, at] * some,
            samples,
        )

    return mean


def _quantile(stage: int, number: int) -> Callable[[Estimates], Values]:
    def quantile(estimates: Estimates) -> Values:
        value = estimates.latency_ms[:, stage, number]
        unknown = np.full(len(value), np.nan)
        return Values(value, unknown, unknown, estimates.queries)

    return quantile
