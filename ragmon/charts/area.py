"""Stacked areas: shares or counts that add up, over an axis."""

import math
from collections.abc import Sequence

from msgspec import Struct

from ragmon.charts.axes import Axis
from ragmon.charts.frame import OVER_TIME, Frame
from ragmon.charts.line import WIDE, legend, runs
from ragmon.charts.style import colour
from ragmon.charts.svg import element, picture, points, text_of


class Layer(Struct, frozen=True):
    """One of the parts; NaN in any layer leaves a gap in all."""

    name: str
    y: Sequence[float]


def stacked_area(
    layers: Sequence[Layer],
    x: Sequence[float],
    *,
    title: str,
    x_axis: Axis,
    y_axis: Axis,
    size: tuple[float, float] = WIDE,
) -> str:
    """The layers one above the other, the first at the bottom.

    Args:
        layers: each with a value for every x, at least 0.
        x: ascending.
        title: read out by screen readers.
        x_axis: below.
        y_axis: at the left, from 0.
        size: width and height of the drawing.
    """
    frame = Frame.around(x_axis, y_axis, size)
    parts = [frame.axes()]
    floor = [0.0 if all(map(math.isfinite, column)) else math.nan for column in _columns(layers, x)]
    for at, layer in enumerate(layers):
        top = [low + high for low, high in zip(floor, layer.y, strict=True)]
        below = dict(zip(x, floor, strict=True))
        for run in runs(x, top):
            if len(run) == 1:  # a moment between gaps is still an area
                place, value = run[0]
                half = (x_axis.last - x_axis.first) / 400
                run = [(place - half, value), (place + half, value)]  # noqa: PLW2901
                below |= {place - half: below[place], place + half: below[place]}
            upper = [(frame.x(place), frame.y(value)) for place, value in run]
            lower = [(frame.x(place), frame.y(below[place])) for place, _ in run]
            parts.append(
                element(
                    "polygon",
                    element("title", text_of(layer.name)),
                    points=points(upper + lower[::-1]),
                    class_="layer",
                    fill=colour(at),
                )
            )
        floor = top
    class_ = OVER_TIME if size == WIDE else "chart"
    return legend([layer.name for layer in layers]) + picture(*size, title, *parts, class_=class_)


def _columns(layers: Sequence[Layer], x: Sequence[float]) -> list[tuple[float, ...]]:
    """The values of all layers at each x."""
    return [tuple(layer.y[at] for layer in layers) for at in range(len(x))]
