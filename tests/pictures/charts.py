"""Panels over time: lines, stacked areas, states and heat maps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from msgspec import Struct

from grafana.panels import BLUE, COMPANIONS, GREY
from tests.pictures.prometheus import Series
from tests.pictures.style import NAMED, PALETTE, Card, cut
from tests.pictures.units import ticks, written

_HOUR_S = 3_600
_LEGEND_ROWS = 3
_LETTER_PX = 6.2  # of a legend
_COMPANION = re.compile(COMPANIONS.strip("/"))


class Legended(Struct, frozen=True):
    """A series with its name in the legend."""

    name: str
    series: Series


class Timespan(Struct, frozen=True):
    """The stretch of time that all charts of a picture show, and what is marked on them."""

    start: float  # unix seconds
    end: float
    step_s: float
    annotations: tuple[tuple[float, str], ...]  # unix seconds and colour


def legend(template: str, series: Series) -> str:
    """``{{label}}`` filled in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: series.labels.get(match[1], ""), template).strip()


def timeseries(
    card: Card, panel: Mapping[str, Any], lines: Sequence[Legended], span: Timespan
) -> None:
    """Lines, or areas that add up."""
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    shown = [line for line in lines if not _COMPANION.search(line.name)]
    labels = [cut(_label(line, defaults["unit"]), card.width - 60, 7.0) for line in shown]
    columns = _columns(card, labels)
    rows = min(-(-len(labels) // columns), _LEGEND_ROWS)
    axes = _time_axes(card.axes(64, 32, 12, 26 + 16 * rows), card, span)
    if "stacking" in custom:
        handles = _stack(axes, shown, span)
        axes.set_ylim(0.0, axes.dataLim.y1 * 1.05 or 1.0)
    else:
        handles = _lines(axes, lines, span)
        values = [value for line in lines for _, value in line.series.points]
        high = defaults.get("max", max(custom.get("axisSoftMax", 0.0), *values) * 1.05)
        low = defaults.get("min", min(values))
        axes.set_ylim(low, high if high > low else low + 1.0)
    _value_axis(axes, defaults["unit"])
    for moment, colour in span.annotations:
        axes.axvline(moment, color=NAMED[colour], linestyle=(0, (3, 3)), linewidth=0.8)
    _legend(card, axes, handles, labels)


def states(card: Card, panel: Mapping[str, Any], lines: Sequence[Legended], span: Timespan) -> None:
    """A bar a series, coloured by state."""
    options = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    most = max(int((card.height - 60) / 18), 1)
    rows = lines[:most]
    names = [cut(line.name, card.width / 3, 7.0) for line in rows]
    axes = _time_axes(card.axes(20 + 6.5 * max(map(len, names)), 32, 12, 26), card, span)
    for row, line in enumerate(rows):
        for value, start, end in _unchanged(line.series, span.step_s):
            colour = NAMED[options[f"{value:.0f}"]["color"]]
            axes.broken_barh([(start, end - start)], (row - 0.4, 0.8), color=colour)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), names)
    axes.grid(visible=False, axis="y")


def heatmap(
    card: Card, panel: Mapping[str, Any], lines: Sequence[Legended], span: Timespan
) -> None:
    """Cumulative buckets as cells, the darker the fuller."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    buckets = sorted(lines, key=lambda line: float(line.series.labels["le"]))
    moments = sorted({moment for line in lines for moment, _ in line.series.points})
    below = np.zeros(len(moments))
    counts = np.zeros((len(buckets), len(moments)))
    for row, line in enumerate(buckets):
        points = dict(line.series.points)
        total = np.array([points.get(moment, np.nan) for moment in moments])
        counts[row] = np.where(np.isnan(total), 0.0, total - below)
        below = np.where(np.isnan(total), below, total)
    axes = _time_axes(card.axes(64, 32, 12, 26), card, span)
    share = np.sqrt(np.maximum(counts, 0.0) / max(float(counts.max()), 1e-9))
    edges = [moments[0] - span.step_s, *moments]
    cells = np.ma.masked_where(share <= 0.0, share)
    axes.pcolormesh(
        edges, np.arange(len(buckets) + 1), cells, cmap="inferno", vmin=-0.2, rasterized=True
    )
    names = [_edge(float(line.series.labels["le"]), unit) for line in buckets]
    every = -(-len(names) // 10)
    axes.set_yticks(np.arange(1, len(names) + 1)[::every], names[::every])
    axes.grid(visible=False)


def _edge(value: float, unit: str) -> str:
    return "∞" if value == float("inf") else written(value, unit)


def _time_axes(axes: Axes, card: Card, span: Timespan) -> Axes:
    """An axis of hours; a narrow panel has every fourth."""
    every = (4 if card.width < 700 else 2) * _HOUR_S
    first = int(span.start // every + 1) * every
    hours = list(range(first, int(span.end), every))
    axes.set_xticks(hours, [datetime.fromtimestamp(hour, UTC).strftime("%H:%M") for hour in hours])
    axes.set_xlim(span.start, span.end)
    return axes


def _value_axis(axes: Axes, unit: str) -> None:
    values = ticks(*axes.get_ylim(), unit)
    axes.set_yticks(values, [written(value, unit) for value in values])


def _lines(axes: Axes, lines: Sequence[Legended], span: Timespan) -> list[Line2D]:
    """Draw all lines; returns those that the legend names."""
    handles = []
    colours = iter(_colours([line for line in lines if not _COMPANION.search(line.name)]))
    for line in lines:
        style: dict[str, Any] = {"linewidth": 1.2}
        if _COMPANION.search(line.name):
            style = {"linewidth": 0.8, "linestyle": (0, (2, 3)), "color": GREY}
        else:
            style["color"] = next(colours)
            if line.name.endswith(" ago"):
                style |= {"linewidth": 0.8, "linestyle": (0, (7, 5))}
        moments, values = with_gaps(line.series, span.step_s)
        marker = "." if len(values) == 1 else ""
        handles += axes.plot(moments, values, marker=marker, label=line.name, **style)
    return [line for line in handles if not _COMPANION.search(str(line.get_label()))]


def _stack(axes: Axes, lines: Sequence[Legended], span: Timespan) -> list[Line2D]:
    """Areas one on another; a series without a point counts as 0 there."""
    moments = np.arange(span.start, span.end + span.step_s, span.step_s)
    below = np.zeros(len(moments))
    handles = []
    for line, colour in zip(lines, _colours(lines), strict=True):
        points = {round((at - span.start) / span.step_s): value for at, value in line.series.points}
        above = below + np.array([points.get(index, 0.0) for index in range(len(moments))])
        axes.fill_between(moments, below, above, color=colour, alpha=0.4, linewidth=0)
        edge = np.where(above > below, above, np.nan)
        handles += axes.plot(moments, edge, color=colour, linewidth=0.8)
        below = above
    return handles


def _colours(lines: Sequence[Legended]) -> list[str]:
    """Colours as the overrides of the panels have them."""
    return [
        GREY
        if line.name.endswith(" ago")
        else BLUE
        if line.name.endswith(" baseline")
        else PALETTE[number % len(PALETTE)]
        for number, line in enumerate(lines)
    ]


def _label(line: Legended, unit: str) -> str:
    return f"{line.name}  {written(line.series.last, unit)}"


def _columns(card: Card, labels: Sequence[str]) -> int:
    """Columns of a legend: as many as its longest label lets."""
    widest = 34 + _LETTER_PX * max(map(len, labels), default=1)
    return max(min(int((card.width - 20) / widest), len(labels)), 1)


def _legend(card: Card, axes: Axes, handles: Sequence[Line2D], labels: Sequence[str]) -> None:
    """A legend below the hours; what exceeds three rows is counted."""
    columns = _columns(card, labels)
    room = columns * _LEGEND_ROWS
    texts = list(labels[:room])
    if len(labels) > room:
        texts[-1] = f"+ {len(labels) - room + 1} more"
    axes.legend(
        handles[: len(texts)],
        texts,
        loc="upper left",
        bbox_to_anchor=(-50 / max(card.width - 76, 1), -20 / max(card.height - 90, 1)),
        ncols=columns,
        fontsize=7,
        handlelength=1.2,
        columnspacing=1.0,
        labelspacing=0.25,
        borderpad=0.0,
    )


def with_gaps(series: Series, step_s: float) -> tuple[list[float], list[float]]:
    """Times and values, with a NaN in each gap so that no line crosses it."""
    moments: list[float] = []
    values: list[float] = []
    for moment, value in series.points:
        if moments and moment - moments[-1] > 1.5 * step_s:
            moments.append(moments[-1] + step_s)
            values.append(float("nan"))
        moments.append(moment)
        values.append(value)
    return moments, values


def _unchanged(series: Series, step_s: float) -> Iterator[tuple[float, float, float]]:
    """Stretches of one value, each with its start and end."""
    moments, values = with_gaps(series, step_s)
    pairs = zip(moments, values, strict=True)
    for value, same in groupby(pairs, key=lambda pair: pair[1]):
        times = [moment for moment, _ in same]
        if value == value:  # a NaN is a gap
            yield value, times[0], times[-1] + step_s
