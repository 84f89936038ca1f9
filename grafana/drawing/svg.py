"""SVG elements, the colours, and how wide a text comes out."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

PAGE, CARD, EDGE, GRID = "#111217", "#181b1f", "#2c2f36", "#2a2d33"
TEXT, DIM = "#ccccdc", "#8e8e99"
PALETTE = (
    "#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#6ed0e0",
    "#fade2a", "#96d98d", "#ffa6b0", "#ca95e5",
)  # fmt: skip
NAMED = {
    "green": "#73bf69",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "red": "#f2495c",
    "blue": "#5794f2",
    "text": TEXT,
}

Point = tuple[float, float]


class Box:
    """A rectangle of the picture, in pixels."""

    def __init__(self, x: float, y: float, width: float, height: float) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height

    def inside(self, left: float, top: float, right: float, bottom: float) -> "Box":
        """What remains within margins."""
        width, height = self.width - left - right, self.height - top - bottom
        return Box(self.x + left, self.y + top, width, height)


def element(name: str, content: str = "", /, **attributes: str | float) -> str:
    """One element; ``_`` in the names of attributes stands for ``-``."""
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(_short(value))}"
        for key, value in attributes.items()
    )
    return f"<{name}{said}>{content}</{name}>" if content else f"<{name}{said}/>"


def text(
    x: float, y: float, what: str, *, size: float = 11, fill: str = TEXT, **more: str | float
) -> str:
    """A line of text, its baseline at ``y``."""
    return element("text", escape(what), x=x, y=y, font_size=size, fill=fill, **more)


def rectangle(box: Box, fill: str, **more: str | float) -> str:
    """A filled rectangle."""
    return element("rect", x=box.x, y=box.y, width=box.width, height=box.height, fill=fill, **more)


def line(points: Sequence[Point], stroke: str, **more: str | float) -> str:
    """A line through points."""
    return element("path", d=_path(points), fill="none", stroke=stroke, **more)


def area(upper: Sequence[Point], lower: Iterable[Point], fill: str, **more: str | float) -> str:
    """What lies between two lines."""
    return element("path", d=_path([*upper, *reversed(list(lower))]) + "z", fill=fill, **more)


def cut(what: str, width: float, size: float = 11) -> str:
    """The text, shortened to a width in pixels."""
    room = int(width / (size * 0.55))
    return what if len(what) <= room else what[: max(1, room - 1)] + "…"


def wide(what: str, size: float = 11) -> float:
    """About how many pixels a text takes."""
    return len(what) * size * 0.56


def _path(points: Sequence[Point]) -> str:
    """Moves to the first point, then relative steps: a third of the bytes of absolute ones."""
    rounded = [(round(x * 2) / 2, round(y * 2) / 2) for x, y in _straightened(points)]
    steps = [
        f"{_short(after[0] - before[0])} {_short(after[1] - before[1])}"
        for before, after in pairwise(rounded)
    ]
    first = f"M{_short(rounded[0][0])} {_short(rounded[0][1])}"
    return first + (f"l{' '.join(steps)}" if steps else "")


def _straightened(points: Sequence[Point]) -> list[Point]:
    """Without the points in the middle of a level stretch."""
    return [
        point
        for at, point in enumerate(points)
        if at in (0, len(points) - 1)
        or abs(points[at - 1][1] - point[1]) > 0.25
        or abs(points[at + 1][1] - point[1]) > 0.25
    ]


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
