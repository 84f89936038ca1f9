"""Timings of one request: each step as a bar at the time at which it ran."""

from collections.abc import Sequence

from msgspec import Struct

from ragmon.charts import axes
from ragmon.charts.style import colour
from ragmon.charts.svg import element, label, picture, text_of
from ragmon.charts.units import value_text

_WIDTH = 640.0
_ROW, _AXIS = 22.0, 22.0
_NAMES, _DURATIONS = 200.0, 100.0  # room at the left and at the right
_MOST_LETTERS = 30


class TimedStep(Struct, frozen=True):
    """One step; seconds since the request began."""

    name: str
    start_s: float
    duration_s: float
    depth: int = 0  # of steps around it
    kind: int = 0  # number of its colour
    is_failed: bool = False


def waterfall(steps: Sequence[TimedStep], *, title: str) -> str:
    """The steps from top to bottom, each with its name and duration.

    Args:
        steps: in the order in which they are read.
        title: read out by screen readers.
    """
    ends = [step.start_s + step.duration_s for step in steps]
    first, last = min((step.start_s for step in steps), default=0.0), max(ends, default=1.0)
    axis = axes.numbers(first, max(last, first + 1e-6), "seconds", most=5)
    height = _ROW * len(steps) + _AXIS

    def x(seconds: float) -> float:
        return _NAMES + axis.share(seconds) * (_WIDTH - _NAMES - _DURATIONS)

    parts = []
    for at, text in axis.ticks:
        parts.append(
            element("line", x1=x(at), x2=x(at), y1=0, y2=height - _AXIS, class_="grid")
            + label(x(at), height - 6, text, anchor="middle")
        )
    for number, step in enumerate(steps):
        parts.append(_row(step, number * _ROW, x(step.start_s), x(step.start_s + step.duration_s)))
    return picture(_WIDTH, height, title, *parts)


def _row(step: TimedStep, top: float, left: float, right: float) -> str:
    duration = value_text(step.duration_s, "seconds")
    failed = ", failed" if step.is_failed else ""
    bar = element(
        "rect",
        element("title", text_of(f"{step.name}: {duration}{failed}")),
        x=left,
        y=top + 5,
        width=max(right - left, 2.0),
        height=_ROW - 10,
        class_="layer",
        fill="var(--c2)" if step.is_failed else colour(step.kind),
    )
    depth = min(step.depth, 8)
    name = _cut(step.name, _MOST_LETTERS - depth)
    beside = label(right + 4, top + 15, f"{duration}{failed}", class_="dim")
    return label(8.0 * depth, top + 15, name) + bar + beside


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
