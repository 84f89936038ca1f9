"""Curves over an axis: values with their intervals, what was expected, and what happened when."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ragmon.charts.axes import Axis
from ragmon.charts.frame import LETTER, OVER_TIME, Frame
from ragmon.charts.style import colour, dashes
from ragmon.charts.svg import element, label, picture, points, text_of

WIDE = (640.0, 220.0)
NARROW = (340.0, 210.0)
"""Width and height in units of the drawing; a narrow one stays legible on a phone."""

_FEW = 12  # points that are shown as dots as well
_MARK_ROWS = 3
_MARK_LETTER = LETTER * 4 / 3  # there is room for them on a phone as well


class Curve(Struct, frozen=True):
    """Values over x; NaN where there were no samples, which leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()


class Band(Struct, frozen=True):
    """A range over x, such as the values that a detector expects; NaN leaves a gap."""

    x: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]


class Mark(Struct, frozen=True):
    """Something that happened at ``x``, or lasted until ``until``."""

    x: float
    text: str
    kind: Literal["incident", "version", "baseline", "silence", "note"] = "note"
    until: float | None = None


def line_chart(
    curves: Sequence[Curve],
    *,
    title: str,
    x_axis: Axis,
    y_axis: Axis,
    expected: Band | None = None,
    marks: Sequence[Mark] = (),
    size: tuple[float, float] = WIDE,
) -> str:
    """Curves with a legend above when there are several.

    Args:
        curves: drawn in order, the first in the first colour.
        title: read out by screen readers.
        x_axis: below.
        y_axis: at the left; what lies beyond its ends is drawn at the end.
        expected: a grey band behind the curves.
        marks: dashed lines and shaded stretches of x, outside of which nothing is drawn.
        size: width and height of the drawing.
    """
    frame = Frame.around(x_axis, y_axis, size)
    parts = [frame.axes(), *_marks(frame, marks)]
    if expected is not None:
        parts += _areas(frame, expected.x, expected.lower, expected.upper, class_="expected")
    for at, curve in enumerate(curves):
        if curve.lower and curve.upper:
            parts += _areas(
                frame, curve.x, curve.lower, curve.upper, class_="band", fill=colour(at)
            )
    for at, curve in enumerate(curves):
        parts += _curve(frame, curve, at)
    parts += _mark_texts(frame, marks)  # over the curves
    class_ = OVER_TIME if size == WIDE else "chart"
    return legend([curve.name for curve in curves]) + picture(*size, title, *parts, class_=class_)


def sparkline(values: Sequence[float], *, title: str, y_axis: Axis | None = None) -> str:
    """A curve of the size of a word, without axes; a dot marks the newest value.

    Args:
        values: at equal distances, oldest first; NaN where there were no samples.
        title: read out by screen readers.
        y_axis: range of the values; None takes that of the values.
    """
    width, height = 120.0, 28.0
    known = [value for value in values if not math.isnan(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    y_axis = y_axis or Axis(low, high if high > low else low + (abs(low) or 1.0), ())
    x_axis = Axis(0.0, max(len(values) - 1.0, 1.0), ())

    def place(at: float, value: float) -> tuple[float, float]:
        share = min(max(y_axis.share(value), 0.0), 1.0)
        return 3 + x_axis.share(at) * (width - 6), height - 3 - share * (height - 6)

    parts = [
        _path([place(at, value) for at, value in run], 0)
        for run in runs(list(map(float, range(len(values)))), values)
    ]
    if known:
        last = max(at for at, value in enumerate(values) if not math.isnan(value))
        x, y = place(last, values[last])
        parts.append(element("circle", cx=x, cy=y, r=2.5, fill=colour(0)))
    return picture(width, height, title, *parts)


def legend(names: Sequence[str]) -> str:
    """The names with their colours and dashes; nothing for one."""
    if len(names) < 2:
        return ""
    entries = [
        element(
            "span",
            element(
                "svg",
                element("line", x1=0, x2=24, y1=5, y2=5, stroke=colour(at), stroke_width=3,
                        stroke_dasharray=dashes(at)),
                viewBox="0 0 24 10", aria_hidden="true",
            ),
            text_of(name),
        )
        for at, name in enumerate(names)
    ]  # fmt: skip
    return element("p", *entries, class_="legend")


def runs(x: Sequence[float], y: Sequence[float]) -> Iterator[list[tuple[float, float]]]:
    """Stretches of points without a gap."""
    run: list[tuple[float, float]] = []
    for pair in zip(x, y, strict=True):
        if math.isnan(pair[1]):
            if run:
                yield run
            run = []
        else:
            run.append(pair)
    if run:
        yield run


def _curve(frame: Frame, curve: Curve, at: int) -> Iterator[str]:
    for run in runs(curve.x, curve.y):
        placed = [(frame.x(x), frame.y(_within(frame.y_axis, y))) for x, y in run]
        if len(placed) > 1:
            yield _path(placed, at)
        if len(placed) == 1 or len(curve.x) <= _FEW:
            for x, y in placed:
                yield element("circle", cx=x, cy=y, r=2.5, fill=colour(at))


def _path(placed: list[tuple[float, float]], at: int) -> str:
    return element(
        "polyline",
        points=points(placed),
        class_="curve",
        stroke=colour(at),
        stroke_dasharray=dashes(at),
    )


def _areas(
    frame: Frame,
    x: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    class_: str,
    fill: str | None = None,
) -> Iterator[str]:
    """The area between two curves, a polygon for each stretch where both are known."""
    high = {place: value for place, value in zip(x, upper, strict=True) if not math.isnan(value)}
    low = [value if place in high else math.nan for place, value in zip(x, lower, strict=True)]
    for run in runs(x, low):
        below = [(frame.x(at), frame.y(_within(frame.y_axis, value))) for at, value in run]
        above = [(frame.x(at), frame.y(_within(frame.y_axis, high[at]))) for at, _ in run]
        yield element("polygon", points=points(below + above[::-1]), class_=class_, fill=fill)


def _marks(frame: Frame, marks: Sequence[Mark]) -> Iterator[str]:
    first, last = frame.x_axis.first, frame.x_axis.last
    for mark in sorted(marks, key=lambda mark: mark.x):
        end = mark.x if mark.until is None else mark.until
        if end < first or mark.x > last:
            continue
        hover = element("title", text_of(mark.text))
        left, right = frame.x(max(mark.x, first)), frame.x(min(end, last))
        place = {"y": frame.top, "height": frame.bottom - frame.top}
        if right > left:
            kind = f"span {mark.kind}"
            yield element("rect", hover, x=left, width=right - left, class_=kind, **place)
        if mark.x >= first:
            place = {"y1": frame.top, "y2": frame.bottom}
            kind = f"mark {mark.kind}"
            yield element("line", hover, x1=left, x2=left, class_=kind, **place)


def _mark_texts(frame: Frame, marks: Sequence[Mark]) -> Iterator[str]:
    """The texts for which there is room, those of incidents first."""
    first, last = frame.x_axis.first, frame.x_axis.last
    begun = [mark for mark in marks if first <= mark.x <= last]
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_MARK_ROWS)]
    for mark in sorted(begun, key=lambda mark: (mark.kind != "incident", mark.x)):
        yield _mark_text(frame, mark.text, frame.x(mark.x), taken)


def _mark_text(
    frame: Frame, text: str, at: float, taken: Sequence[list[tuple[float, float]]]
) -> str:
    """The text beside a mark, in the first row where it touches no other; none without room."""
    wide = _MARK_LETTER * len(text) + 12
    for row, others in enumerate(taken):
        y = frame.top + 10 + 16 * row
        for begin, end in ((at, at + wide), (at - wide, at)):
            is_within = begin >= 0.0 and end <= frame.width
            if is_within and all(end <= left or begin >= right for left, right in others):
                others.append((begin, end))
                if begin == at:
                    return label(at + 3, y, text, class_="dim noted")
                return label(at - 3, y, text, anchor="end", class_="dim noted")
    return ""


def _within(axis: Axis, value: float) -> float:
    return min(max(value, axis.first), axis.last)
