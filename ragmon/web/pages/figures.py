"""Charts of a page: metrics over time with what happened meanwhile, and values to hover over."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragmon.charts import axes
from ragmon.charts.area import Layer, stacked_area
from ragmon.charts.axes import Axis
from ragmon.charts.frame import Frame
from ragmon.charts.line import WIDE, Band, Curve, Mark, line_chart
from ragmon.counts import counted
from ragmon.metric_series import Floats, SeriesMetric, Values, metrics
from ragmon.web.pages import words
from ragmon.web.pages.headlines import ShownMetric
from ragmon.web.pages.sources import Course

_MODES = ("retrieval", "ranking", "generation", "unknown")
_STAGES = ("total", "retrieval", "generation")
_MOST_MARK = 24  # letters
_MOST_OF = 0.25  # part of the steps whose intervals may end beyond a close axis


class ChartFigure(NamedTuple):
    """A chart with its words."""

    title: str
    note: str
    svg: str
    hover: dict[str, str]  # attributes by which the script finds the value under the pointer
    metric: str = ""  # name, where it shows one
    zoom: str = ""  # address for a part of the time; empty: the same page


class TimeSpan(NamedTuple):
    """The time that charts show, unix seconds."""

    start: float
    end: float


def known_names(course: Course) -> list[str]:
    """Metrics that have a sample in that time."""
    return [
        name
        for name, metric in metrics(course.columns).items()
        if np.isfinite(metric.values(course.estimates).value).any()
    ]


def metric_figure(
    metric: ShownMetric,
    course: Course,
    span: TimeSpan,
    marks: Sequence[Mark],
    expected: Band | None = None,
    *,
    is_close: bool = False,
) -> ChartFigure | None:
    """One metric with its interval; None where it has no sample in all that time.

    Args:
        metric: to draw.
        course: of the metric.
        span: that the chart shows.
        marks: on it.
        expected: instead of what the course expects.
        is_close: look at the values from near by, and cut what few samples leave open.
    """
    series = metrics(course.columns)[metric.name]
    values = series.values(course.estimates)
    value, lower, upper = (_scaled(part, metric.factor) for part in values[:3])
    if not any(map(math.isfinite, value)):
        return None
    x = _middles(course, len(value))
    if expected is None and metric.name in course.expected:
        expected = Band(x, *(end.tolist() for end in course.expected[metric.name]))
    if is_close and metric.unit == "ratio":
        y_axis = _close_axis(Curve(metric.title, x, value, lower, upper), expected)
    else:
        y_axis = _y_axis(metric, [number for number in (*value, *upper) if math.isfinite(number)])
    x_axis = axes.times(span.start, span.end)
    svg = line_chart(
        [Curve(metric.title, x, value, lower, upper)],
        title=f"{metric.title} over time",
        x_axis=x_axis,
        y_axis=y_axis,
        expected=expected,
        marks=marks,
    )
    texts = [_text(metric, values, at) for at in range(len(value))]
    hover = _hover(course, x_axis, y_axis, texts)
    return ChartFigure(metric.title, metric.note, svg, hover, metric.name)


def sides_figure(
    metric: ShownMetric, sides: Sequence[tuple[str, Course]], span: TimeSpan
) -> ChartFigure | None:
    """One metric of several slices with their intervals, whose courses have the same steps."""
    course = sides[0][1]
    known = {
        name: metrics(side.columns)[metric.name].values(side.estimates) for name, side in sides
    }
    x = _middles(course, len(course.estimates.queries))
    curves = [
        Curve(name, x, *(_scaled(part, metric.factor) for part in values[:3]))
        for name, values in known.items()
    ]
    ends = [
        number
        for curve in curves
        for number in (*curve.y, *(curve.upper if metric.unit == "ratio" else ()))
        if math.isfinite(number)
    ]
    if not ends:
        return None
    y_axis, x_axis = _y_axis(metric, ends), axes.times(span.start, span.end)
    title = f"{metric.title} of both over time"
    svg = line_chart(curves, title=title, x_axis=x_axis, y_axis=y_axis)
    texts = [
        "; ".join(f"{name}: {_text(metric, values, at)}" for name, values in known.items())
        for at in range(len(x))
    ]
    hover = _hover(course, x_axis, y_axis, texts)
    return ChartFigure(metric.title, metric.note, svg, hover, metric.name)


def modes_figure(
    known: dict[str, SeriesMetric], course: Course, span: TimeSpan
) -> ChartFigure | None:
    """Failure modes as shares of the queries, one above the other."""
    layers = [
        Layer(mode, known[f"failure_mode/{mode}"].values(course.estimates).value.tolist())
        for mode in _MODES
    ]
    layers = [layer for layer in layers if any(share > 0 for share in layer.y)]
    if not layers:
        return None
    totals = [sum(column) for column in zip(*(layer.y for layer in layers), strict=True)]
    y_axis = axes.ratios([total for total in totals if math.isfinite(total)])
    x_axis = axes.times(span.start, span.end)
    svg = stacked_area(
        layers, _middles(course, len(totals)), title="Failure modes", x_axis=x_axis, y_axis=y_axis
    )
    texts = [
        ", ".join(f"{layer.name} {words.figure(layer.y[at])}" for layer in layers)
        if math.isfinite(totals[at])
        else "no samples"
        for at in range(len(totals))
    ]
    note = "share of queries that failed, by the stage that is to blame"
    return ChartFigure("Failure modes", note, svg, _hover(course, x_axis, y_axis, texts))


def latency_figure(
    known: dict[str, SeriesMetric], course: Course, span: TimeSpan, marks: Sequence[Mark]
) -> ChartFigure | None:
    """The 95th percentile of each stage."""
    x = _middles(course, len(course.estimates.queries))
    curves = [
        Curve(stage, x, _scaled(known[f"latency_ms@p95/{stage}"].values(course.estimates)[0], 1e-3))
        for stage in _STAGES
    ]
    curves = [curve for curve in curves if any(map(math.isfinite, curve.y))]
    if not curves:
        return None
    highest = max(value for curve in curves for value in curve.y if math.isfinite(value))
    y_axis = axes.numbers(0.0, highest or 1.0, "seconds")
    x_axis = axes.times(span.start, span.end)
    svg = line_chart(curves, title="Latency by stage", x_axis=x_axis, y_axis=y_axis, marks=marks)
    texts = [
        ", ".join(
            f"{curve.name} {words.figure(curve.y[at], 'seconds')}"
            for curve in curves
            if math.isfinite(curve.y[at])
        )
        or "no samples"
        for at in range(len(x))
    ]
    hover = _hover(course, x_axis, y_axis, texts)
    return ChartFigure("Latency by stage", "95th percentile", svg, hover)


def mark_text(text: str) -> str:
    """A text short enough to stand beside a mark."""
    return words.plain(text, _MOST_MARK)


def _text(metric: ShownMetric, values: Values, at: int) -> str:
    """The value of a step as it is shown under the pointer."""
    value, lower, upper = (float(part[at]) * metric.factor for part in values[:3])
    if not math.isfinite(value):
        return "no samples"
    interval = words.span(lower, upper, metric.unit)
    between = f" ({interval})" if interval else ""
    samples = "" if metric.unit == "count" else f", {counted(values.samples[at], 'sample')}"
    return f"{words.figure(value, metric.unit)}{between}{samples}"


def _hover(course: Course, x_axis: Axis, y_axis: Axis, texts: Sequence[str]) -> dict[str, str]:
    """Place of the x axis in the drawing, its ends, and the text of each step."""
    frame = Frame.around(x_axis, y_axis, WIDE)
    return {
        "data-left": f"{frame.left / frame.width:.4f}",
        "data-right": f"{1.0 - frame.right / frame.width:.4f}",
        "data-from": f"{x_axis.first:.0f}",
        "data-to": f"{x_axis.last:.0f}",
        "data-start": f"{course.start:.0f}",
        "data-step": f"{course.step_s:.0f}",
        "data-values": "|".join(texts),
    }


def _scaled(values: Floats, factor: float) -> list[float]:
    scaled: list[float] = (values * factor).tolist()
    return scaled


def _middles(course: Course, length: int) -> list[float]:
    """Each value stands in the middle of its step."""
    return [course.start + (at + 0.5) * course.step_s for at in range(length)]


def _y_axis(metric: ShownMetric, values: Sequence[float]) -> Axis:
    if metric.unit == "ratio":
        return axes.ratios(values)
    lowest, highest = min(values), max(values)
    return axes.numbers(min(lowest, 0.0), highest or 1.0, metric.unit)


def _close_axis(curve: Curve, expected: Band | None) -> Axis:
    """An axis around the values of a share, most of their intervals and most of the expected band.

    A minute with three queries has an interval from 10 to 90 %: on an axis that has room for all of
    them, no change can be seen.
    """
    lows = [np.nanmin(curve.y), np.nanquantile(curve.lower, _MOST_OF)]
    highs = [np.nanmax(curve.y), np.nanquantile(curve.upper, 1.0 - _MOST_OF)]
    if expected is not None and np.isfinite(expected.lower).any():
        lows.append(np.nanquantile(expected.lower, _MOST_OF))
        highs.append(np.nanquantile(expected.upper, 1.0 - _MOST_OF))
    low, high = max(float(min(lows)), 0.0), min(float(max(highs)), 1.0)
    close = axes.numbers(low, high, "ratio", most=4)
    if close.first >= 0.0 and close.last <= 1.0:
        return close
    return axes.numbers(max(close.first, 0.0), min(close.last, 1.0), "ratio", most=4)
