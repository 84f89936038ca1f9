"""Panels over time: lines, stacked areas, states and heat maps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from grafana.drawing.prometheus import Series
from grafana.drawing.scale import Axes, clock, ticks, written
from grafana.drawing.svg import (
    DIM,
    GRID,
    NAMED,
    PALETTE,
    TEXT,
    Box,
    area,
    cut,
    element,
    line,
    rectangle,
    text,
    wide,
)
from grafana.panels import BLUE, COMPANIONS, GREY

_LEGEND_LINES = 3
_LEGEND_PX = 15
_LEFT_PX = 68  # for the longest value on an axis
_HOUR_S = 3_600


class Drawn(Struct, frozen=True):
    """A series with its legend."""

    name: str
    series: Series


class Marks(Struct, frozen=True):
    """The stretch of time that a picture shows, and what is marked on all of its charts."""

    start: float  # unix seconds
    end: float
    step_s: float
    annotations: tuple[tuple[float, str], ...]  # when, colour


def legend(template: str, series: Series) -> str:
    """``{{label}}`` filled in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: series.labels.get(found[1], ""), template).strip()


def timeseries(box: Box, panel: Mapping[str, Any], drawn: Sequence[Drawn], marks: Marks) -> str:
    """Lines, or areas that add up."""
    defaults = panel["fieldConfig"]["defaults"]
    shown = [each for each in drawn if not re.search(COMPANIONS.strip("/"), each.name)]
    colours = {each.name: _colour(each.name, at) for at, each in enumerate(shown)}
    rows = _legend_rows(shown, defaults["unit"], box.width - 16)
    plot = box.inside(_LEFT_PX, 8, 12, 26 + _LEGEND_PX * len(rows))
    stacked = "stacking" in defaults.get("custom", {})
    values = [value for each in drawn for _, value in each.series.points]
    soft = defaults.get("custom", {}).get("axisSoftMax", 0.0)
    high = defaults.get("max", max([soft, *values], default=1.0) * 1.05)
    if stacked:
        high = max(_totals(shown).values(), default=1.0) * 1.05
    low = defaults.get("min", min(values, default=0.0))
    axes = Axes(plot, marks.start, marks.end, low, high)
    body = [*_grid(axes, defaults["unit"], marks)]
    body += _stack(axes, shown, colours) if stacked else _lines(axes, drawn, colours, marks)
    return "".join([*body, *_legend(box, rows, colours)])


def states(box: Box, panel: Mapping[str, Any], drawn: Sequence[Drawn], marks: Marks) -> str:
    """A bar a series."""
    options = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    most = int((box.height - 40) / 18)
    left = 20 + max((wide(each.name) for each in drawn[:most]), default=0.0)
    axes = Axes(box.inside(left, 8, 12, 26), marks.start, marks.end, 0, 1)
    height = axes.box.height / max(1, min(most, len(drawn)))
    body = list(_times(axes))
    for at, each in enumerate(drawn[:most]):
        y = axes.box.y + at * height
        body.append(text(box.x + 12, y + height / 2 + 4, each.name))
        for value, start, end in _unchanged(each.series, marks.step_s):
            bar = Box(axes.x(start), y + 2, axes.x(end) - axes.x(start), height - 4)
            body.append(rectangle(bar, NAMED[options[f"{value:.0f}"]["color"]]))
    return "".join(body)


def heatmap(box: Box, panel: Mapping[str, Any], drawn: Sequence[Drawn], marks: Marks) -> str:
    """Cumulative buckets as cells, the darker the fuller."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    by_edge = sorted(drawn, key=lambda each: float(each.series.labels["le"]))
    axes = Axes(box.inside(_LEFT_PX, 8, 12, 26), marks.start, marks.end, 0, len(by_edge))
    body = list(_times(axes))
    below: dict[float, float] = {}
    cells = []
    for row, each in enumerate(by_edge):
        edge = float(each.series.labels["le"])
        name = "∞" if edge == float("inf") else written(edge, unit)
        body.append(text(axes.box.x - 6, axes.y(row + 0.3), name, fill=DIM, text_anchor="end"))
        for moment, value in each.series.points:
            cells.append((row, moment, value - below.get(moment, 0.0)))
            below[moment] = value
    most = max((count for *_, count in cells), default=1.0)
    for row, moment, count in cells:
        if count > 0:
            x = axes.x(moment - marks.step_s)
            cell = Box(x, axes.y(row + 1), axes.x(moment) - x, axes.y(row) - axes.y(row + 1))
            share = round(0.12 + 0.88 * (count / most) ** 0.5, 2)
            body.append(rectangle(cell, NAMED["orange"], fill_opacity=str(share)))
    return "".join(body)


def _colour(name: str, at: int) -> str:
    """As the overrides of the panels have it."""
    if name.endswith(" ago"):
        return GREY
    return BLUE if name.endswith(" baseline") else PALETTE[at % len(PALETTE)]


def _lines(
    axes: Axes, drawn: Sequence[Drawn], colours: Mapping[str, str], marks: Marks
) -> Iterator[str]:
    for each in drawn:
        style: dict[str, str | float] = {"stroke_width": 1.5}
        if re.search(COMPANIONS.strip("/"), each.name):
            style = {"stroke_width": 1, "stroke_dasharray": "2 3"}
        elif each.name.endswith(" ago"):
            style = {"stroke_width": 1, "stroke_dasharray": "7 5"}
        elif each.name.endswith(" baseline"):
            style = {"stroke_width": 1}
        for stretch in _stretches(each.series, marks.step_s):
            points = [axes.point(*point) for point in stretch]
            yield line(points, colours.get(each.name, GREY), **style)


def _stack(axes: Axes, drawn: Sequence[Drawn], colours: Mapping[str, str]) -> Iterator[str]:
    below: dict[float, float] = {}
    for each in drawn:
        if not any(value for _, value in each.series.points):
            continue
        lower = [axes.point(at, below.get(at, 0.0)) for at, _ in each.series.points]
        for at, value in each.series.points:
            below[at] = below.get(at, 0.0) + value
        upper = [axes.point(at, below[at]) for at, _ in each.series.points]
        yield area(upper, lower, colours[each.name], fill_opacity="0.4")
        yield line(upper, colours[each.name], stroke_width=1)


def _totals(drawn: Sequence[Drawn]) -> dict[float, float]:
    totals: dict[float, float] = {}
    for each in drawn:
        for at, value in each.series.points:
            totals[at] = totals.get(at, 0.0) + value
    return totals


def _stretches(series: Series, step_s: float) -> Iterator[list[tuple[float, float]]]:
    """Points without a gap between them."""
    stretch: list[tuple[float, float]] = []
    for point in series.points:
        if stretch and point[0] - stretch[-1][0] > 1.5 * step_s:
            yield stretch
            stretch = []
        stretch.append(point)
    yield stretch


def _unchanged(series: Series, step_s: float) -> Iterator[tuple[float, float, float]]:
    """Stretches of one value, each with its start and end."""
    for stretch in _stretches(series, step_s):
        for value, same in groupby(stretch, key=lambda point: point[1]):
            times = [at for at, _ in same]
            yield value, times[0], times[-1] + step_s


def _grid(axes: Axes, unit: str, marks: Marks) -> Iterator[str]:
    for value in ticks(axes.low, axes.high, unit):
        y = axes.y(value)
        yield line([(axes.box.x, y), (axes.box.right, y)], GRID)
        yield text(axes.box.x - 6, y + 4, written(value, unit), fill=DIM, text_anchor="end")
    yield from _times(axes)
    for moment, colour in marks.annotations:
        x = axes.x(moment)
        ends = [(x, axes.box.y), (x, axes.box.bottom)]
        yield line(ends, NAMED[colour], stroke_dasharray="3 3", stroke_opacity="0.8")


def _times(axes: Axes) -> Iterator[str]:
    every = (4 if axes.box.width < 700 else 2) * _HOUR_S
    moment = (axes.start // every + 1) * every
    while moment < axes.end - every / 8:  # the last label stays inside
        x = axes.x(moment)
        yield line([(x, axes.box.y), (x, axes.box.bottom)], GRID)
        yield text(x, axes.box.bottom + 15, clock(moment), fill=DIM, text_anchor="middle")
        moment += every


Rows = list[list[tuple[str, str]]]
"""Lines of a legend: (name of a series, what is written)."""


def _legend_rows(drawn: Sequence[Drawn], unit: str, width: float) -> Rows:
    rows: Rows = [[]]
    room = width
    for each in drawn:
        said = cut(f"{each.name}  {written(each.series.last, unit)}", width - 30)
        needed = wide(said) + 30
        if needed > room and rows[-1]:
            rows.append([])
            room = width
        rows[-1].append((each.name, said))
        room -= needed
    more = sum(map(len, rows[_LEGEND_LINES:]))
    rows = rows[:_LEGEND_LINES]
    if more:
        rows[-1].append(("", f"+ {more}"))
    return rows


def _legend(box: Box, rows: Rows, colours: Mapping[str, str]) -> Iterator[str]:
    y = box.bottom - 6 - _LEGEND_PX * (len(rows) - 1)
    for row in rows:
        x = box.x + 12.0
        for name, said in row:
            if name:
                yield element("rect", x=x, y=y - 5, width=12, height=3, fill=colours[name])
            yield text(x + 17, y, said, fill=TEXT)
            x += wide(said) + 30
        y += _LEGEND_PX
