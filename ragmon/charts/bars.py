"""Histograms, and bars with their intervals."""

from collections.abc import Sequence

from msgspec import Struct

from ragmon.charts.svg import element, label, picture, points, text_of
from ragmon.charts.units import Unit, value_text

_WIDTH = 340.0


class Bar(Struct, frozen=True):
    """A value with its 95 % interval, where one is known."""

    name: str
    value: float
    lower: float | None = None
    upper: float | None = None
    note: str = ""


def bars(rows: Sequence[Bar], *, title: str, unit: Unit, highest: float = 1.0) -> str:
    """Horizontal bars, one above the other, the name over each.

    Args:
        rows: from top to bottom.
        title: read out by screen readers.
        unit: of the values.
        highest: the value as wide as the drawing.
    """
    step, top = 34.0, 4.0
    parts = []
    for at, row in enumerate(rows):
        y = top + at * step
        value = f"{value_text(row.value, unit)}{row.note}"
        parts.append(label(0, y + 11, row.name) + label(_WIDTH, y + 11, value, anchor="end"))
        parts.append(element("rect", x=0, y=y + 16, width=_WIDTH, height=9, class_="track"))
        wide = _share(row.value, highest) * _WIDTH
        parts.append(element("rect", x=0, y=y + 16, width=wide, height=9, class_="bar"))
        if row.lower is not None and row.upper is not None:
            low, high = _share(row.lower, highest), _share(row.upper, highest)
            parts.append(_whisker(low * _WIDTH, high * _WIDTH, y + 20.5))
    return picture(_WIDTH, top + step * len(rows), title, *parts)


def histogram(
    counts: Sequence[float],
    *,
    title: str,
    ends: tuple[str, str],
    before: Sequence[float] = (),
    size: tuple[float, float] = (160.0, 70.0),
) -> str:
    """Bins of equal width; small, to stand beside others.

    Args:
        counts: of each bin.
        title: read out by screen readers.
        ends: texts at the first and last edge.
        before: counts of the same bins at another time, drawn as an outline of equal area.
        size: width and height of the drawing.
    """
    width, height = size
    base = height - 14
    total, total_before = sum(counts) or 1.0, sum(before) or 1.0
    shares, outline = [c / total for c in counts], [c / total_before for c in before]
    highest = max((*shares, *outline), default=0.0) or 1.0
    wide = width / max(len(counts), 1)
    parts = []
    for at, (count, share) in enumerate(zip(counts, shares, strict=True)):
        tall = share / highest * (base - 2)
        hover = element("title", text_of(value_text(count, "count")))
        parts.append(
            element(
                "rect",
                hover,
                x=at * wide + 1,
                y=base - tall,
                width=max(wide - 2, 1),
                height=tall,
                class_="bar",
            )
        )
    if outline:
        steps = [
            (place * wide, base - share / highest * (base - 2))
            for at, share in enumerate(outline)
            for place in (at, at + 1)
        ]
        parts.append(
            element("polyline", points=points([(0, base), *steps, (width, base)]), class_="before")
        )
    parts.append(element("line", x1=0, x2=width, y1=base, y2=base, class_="grid"))
    parts += [label(0, height - 3, ends[0]), label(width, height - 3, ends[1], anchor="end")]
    return picture(width, height, title, *parts)


def _whisker(low: float, high: float, y: float) -> str:
    ends = "".join(
        element("line", x1=x, x2=x, y1=y - 4, y2=y + 4, class_="whisker") for x in (low, high)
    )
    return element("line", x1=low, x2=high, y1=y, y2=y, class_="whisker") + ends


def _share(value: float, highest: float) -> float:
    return min(max(value / highest, 0.0), 1.0)
