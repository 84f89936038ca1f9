"""The space of a chart between its axes."""

from msgspec import Struct

from ragmon.charts.axes import Axis
from ragmon.charts.svg import element, label

LETTER = 6.9
"""Width of a letter at the size of the style sheet, on average."""
LARGE = 20 / 12
"""Size of texts on a phone, beside the usual one: there a wide drawing is half as large."""
OVER_TIME = "chart wide"
"""Class of a wide drawing that fits a phone, because its texts are large there."""


class Frame(Struct, frozen=True):
    """Two axes on a drawing of a size; y grows upward in data and downward in the drawing."""

    x_axis: Axis
    y_axis: Axis
    width: float
    height: float
    left: float  # where the y axis stands
    bottom: float  # where the x axis lies
    top: float = 10.0
    right: float = 12.0

    @classmethod
    def around(cls, x_axis: Axis, y_axis: Axis, size: tuple[float, float]) -> "Frame":
        """The frame that leaves room for the texts of both axes."""
        width, height = size
        longest = max((len(text) for _, text in y_axis.ticks), default=1)
        below = 36.0 if x_axis.name else 20.0
        return cls(x_axis, y_axis, width, height, 8.0 + LETTER * longest, height - below)

    def x(self, value: float) -> float:
        """A place along the x axis."""
        return self.left + self.x_axis.share(value) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """A place along the y axis."""
        return self.bottom - self.y_axis.share(value) * (self.bottom - self.top)

    def axes(self) -> str:
        """Grid lines with their values, and the x axis with its ticks and name."""
        right = self.width - self.right
        parts = [
            element("line", x1=self.left, x2=right, y1=self.y(at), y2=self.y(at), class_="grid")
            + label(self.left - 5, self.y(at) + 4, text, anchor="end")
            for at, text in self.y_axis.ticks
        ]
        parts += [
            element(
                "line",
                x1=self.x(at),
                x2=self.x(at),
                y1=self.bottom,
                y2=self.bottom + 4,
                class_="grid",
            )
            for at, _ in self.x_axis.ticks
        ]
        parts += self._x_texts()
        if self.x_axis.name:
            middle = (self.left + right) / 2
            parts.append(label(middle, self.height - 4, self.x_axis.name, anchor="middle"))
        return "".join(parts)

    def _x_texts(self) -> list[str]:
        """The texts below the x axis; one that would touch the one before is left out.

        Those that would touch when texts are large are of class ``minor``.
        """
        parts: list[str] = []
        free = large_free = 0.0
        for at, text in self.x_axis.ticks:
            half = LETTER * len(text) / 2
            middle = min(max(self.x(at), half), self.width - half)
            if middle - half >= free:
                is_minor = middle - LARGE * half < large_free
                class_ = "below minor" if is_minor else "below"
                moment = at if self.x_axis.has_clock else None
                parts.append(
                    label(middle, self.bottom + 16, text, anchor="middle", class_=class_, at=moment)
                )
                free = middle + half + LETTER
                if not is_minor:
                    large_free = middle + LARGE * (half + LETTER)
        return parts
