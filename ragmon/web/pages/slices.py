"""Table of slices: each beside the rest of its pipeline, and whether they differ by chance."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ragmon.metric_series import Values, metrics
from ragmon.stats.differences import Difference, Interval95, difference
from ragmon.stats.paired import holm
from ragmon.web.pages import words
from ragmon.web.pages.headlines import ShownMetric
from ragmon.web.pages.sources import SliceFigures

_ALPHA = 0.05


class SliceCell(NamedTuple):
    """One metric of one slice."""

    title: str
    value: str
    interval: str
    apart: str  # difference from the rest; empty where it is unknown
    tone: str  # good, bad or same
    weight: float  # by which rows are sorted: the most certainly worse first


class SliceRow(NamedTuple):
    """One slice."""

    dimension: str
    value: str
    queries: float
    share: float  # of the pipeline's
    cells: list[SliceCell]


def slice_rows(figures: SliceFigures, shown: Sequence[ShownMetric]) -> list[SliceRow]:
    """A row a slice, in the order of the figures."""
    known = metrics(figures.columns)
    columns = []
    for metric in shown:
        series = known[metric.name]
        columns.append(
            _cells(metric, series.values(figures.slice_estimates), series.values(figures.rest))
        )
    total = float(figures.whole.queries[0]) or 1.0
    return [
        SliceRow(
            dimension,
            value,
            float(figures.slice_estimates.queries[at]),
            float(figures.slice_estimates.queries[at]) / total,
            [cells[at] for cells in columns],
        )
        for at, (dimension, value) in enumerate(figures.slices)
    ]


def sort_rows(rows: list[SliceRow], by: str, shown: Sequence[ShownMetric]) -> list[SliceRow]:
    """Rows in the order that was asked for.

    Args:
        rows: of ``slice_rows``.
        by: ``slice``, ``queries`` or the name of a metric: the most certainly worse first.
        shown: metrics of the cells.
    """
    names = [metric.name for metric in shown]
    if by in names:
        at = names.index(by)
        return sorted(rows, key=lambda row: -row.cells[at].weight)
    if by == "queries":
        return sorted(rows, key=lambda row: -row.queries)
    return sorted(rows, key=lambda row: (row.dimension, row.value))


def _cells(metric: ShownMetric, values: Values, rest: Values) -> list[SliceCell]:
    """A column of cells, whose p-values are corrected for their number."""
    apart = [_apart(values, rest, at) for at in range(len(values.value))]
    corrected = holm([1.0 if one is None else one.p_value for one in apart])
    return [
        _cell(metric, values, at, one, p_value)
        for at, (one, p_value) in enumerate(zip(apart, corrected, strict=True))
    ]


def _apart(values: Values, rest: Values, at: int) -> Difference | None:
    """The difference from the rest; None where either has no interval."""
    if not (math.isfinite(float(values.lower[at])) and math.isfinite(float(rest.lower[at]))):
        return None
    return difference(_interval(values, at), _interval(rest, at))


def _cell(
    metric: ShownMetric, values: Values, at: int, apart: Difference | None, p_value: float
) -> SliceCell:
    value, lower, upper = (float(part[at]) * metric.factor for part in values[:3])
    text, tone, weight = "", "", -math.inf
    if apart is not None and metric.unit == "ratio":
        text = f"{100.0 * apart.value:+.1f} pt"
        is_worse = apart.value * metric.better < 0.0
        is_sure = p_value < _ALPHA and metric.better != 0
        tone = ("bad" if is_worse else "good") if is_sure else "same"
        weight = (1.0 - p_value + 1e-3 * abs(apart.value)) * (1.0 if is_worse else -1.0)
    return SliceCell(
        metric.title,
        words.figure(value, metric.unit),
        words.span(lower, upper, metric.unit),
        text,
        tone,
        weight,
    )


def _interval(values: Values, at: int) -> Interval95:
    return Interval95(float(values.value[at]), float(values.lower[at]), float(values.upper[at]))
