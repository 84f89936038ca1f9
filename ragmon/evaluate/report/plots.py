"""Plots as SVG, drawn 340 units wide so that their text stays legible on a phone.

Colours are CSS variables of the page, which has a light and a dark set.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 340.0, 210.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 12.0, 10.0, 34.0
_COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)")


class Line(NamedTuple):
    """One curve."""

    name: str
    points: Sequence[tuple[float, float]]


class Bar(NamedTuple):
    """One bar with its interval; all in [0, 1]."""

    name: str
    value: float
    lower: float | None
    upper: float | None
    note: str = ""


class _Frame(NamedTuple):
    """Data to units of the drawing; y runs from 0 to 1."""

    first: float
    last: float

    def x(self, value: float) -> float:
        span = self.last - self.first or 1.0
        return _LEFT + (value - self.first) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value * (_HEIGHT - _TOP - _BOTTOM)


def lines(
    curves: Sequence[Line],
    *,
    title: str,
    x_name: str,
    ticks: Sequence[float],
    mark: float | None = None,
) -> str:
    """Curves with y in [0, 1], each named at its end by the legend above.

    Args:
        curves: up to four.
        title: read out by screen readers.
        x_name: under the axis.
        ticks: values on the x axis; the first and last are its ends.
        mark: where a dashed line stands.
    """
    frame = _Frame(ticks[0], ticks[-1])
    parts = [_axes(frame, ticks, x_name)]
    if mark is not None:
        x = frame.x(mark)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{frame.y(0):.1f}" class="mark"/>'
        )
    for line, colour in zip(curves, _COLOURS, strict=False):
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line.points)
        parts.append(f'<polyline points="{path}" style="stroke:{colour}"/>')
        if len(line.points) <= 12:
            parts += [
                f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.5" '
                f'style="fill:{colour}"/>'
                for x, y in line.points
            ]
    return _legend([line.name for line in curves]) + _svg(title, _HEIGHT, parts)


def bars(rows: Sequence[Bar], *, title: str) -> str:
    """Horizontal bars with intervals, one above the other, the name over each."""
    step, top = 34.0, 4.0
    parts = []
    for at, row in enumerate(rows):
        y = top + at * step
        parts.append(f'<text x="0" y="{y + 11:.0f}">{escape(row.name)}</text>')
        label = f"{row.value:.3f}{row.note}"
        parts.append(f'<text x="{_WIDTH}" y="{y + 11:.0f}" class="end">{escape(label)}</text>')
        parts.append(f'<rect x="0" y="{y + 16:.0f}" width="{_WIDTH}" height="9" class="track"/>')
        wide = row.value * _WIDTH
        parts.append(f'<rect x="0" y="{y + 16:.0f}" width="{wide:.1f}" height="9" class="bar"/>')
        if row.lower is not None and row.upper is not None:
            parts.append(_whisker(row.lower * _WIDTH, row.upper * _WIDTH, y + 20.5))
    return _svg(title, top + step * len(rows), parts)


def histogram(values: Sequence[float], *, title: str, bins: int = 10) -> str:
    """Histogram of scores in [0, 1]; small, to stand beside others."""
    counts = [0] * bins
    for value in values:
        counts[min(max(int(value * bins), 0), bins - 1)] += 1
    highest = max(counts, default=0) or 1
    width, height = 160.0, 70.0
    parts = []
    for at, count in enumerate(counts):
        tall = count / highest * (height - 16)
        x = at * width / bins
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{height - 14 - tall:.1f}" width="{width / bins - 2:.1f}" '
            f'height="{tall:.1f}" class="bar"><title>{count}</title></rect>'
        )
    parts.append(f'<line x1="0" x2="{width}" y1="{height - 14}" y2="{height - 14}" class="grid"/>')
    for x, text, anchor in ((0, "0", "start"), (width, "1", "end")):
        parts.append(f'<text x="{x}" y="{height - 3}" text-anchor="{anchor}">{text}</text>')
    return _svg(title, height, parts, width)


def _axes(frame: _Frame, ticks: Iterable[float], x_name: str) -> str:
    parts = []
    for y in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = frame.y(y)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
            f'<text x="{_LEFT - 5}" y="{at + 4:.1f}" class="end">{y:g}</text>'
        )
    parts += [
        f'<text x="{frame.x(tick):.1f}" y="{_HEIGHT - 19}" class="middle">{tick:g}</text>'
        for tick in ticks
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 4}" class="middle">{escape(x_name)}</text>')
    return "".join(parts)


def _whisker(low: float, high: float, y: float) -> str:
    ends = "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 4:.1f}" y2="{y + 4:.1f}" class="whisker"/>'
        for x in (low, high)
    )
    return f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="whisker"/>{ends}'


def _legend(names: Sequence[str]) -> str:
    entries = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in zip(names, _COLOURS, strict=False)
    )
    return f'<p class="legend">{entries}</p>' if len(names) > 1 else ""


def _svg(title: str, height: float, parts: Iterable[str], width: float = _WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
