"""Colours of Grafana's dark theme, and the cards that panels are drawn on."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from msgspec import Struct

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
SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "text.color": TEXT,
    "text.parse_math": False,  # a $ is money, or a variable
    "axes.edgecolor": EDGE,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": DIM,
    "ytick.color": DIM,
    "legend.frameon": False,
    "svg.fonttype": "none",  # texts stay texts: small, and found by a search
    "svg.hashsalt": "ragmon",  # the same picture is the same file
    "path.simplify_threshold": 0.3,
}
_PIXELS = 100.0  # an inch


class Card(Struct, frozen=True):
    """The rectangle of one panel; pixels of the figure, from its upper left corner."""

    figure: Figure
    x: float
    y: float
    width: float
    height: float

    def draw(self, title: str) -> None:
        """Draw background and title."""
        left, bottom, width, height = self._share(0, 0, 0, 0)
        place = {"transform": self.figure.transFigure, "zorder": -1}
        self.figure.add_artist(
            Rectangle((left, bottom), width, height, fc=CARD, ec=EDGE, lw=0.8, **place)
        )
        self.write(10, 18, cut(title, self.width - 20))

    def write(self, x: float, y: float, text: str, **style: object) -> None:
        """Write a text whose baseline is y pixels below the upper edge."""
        share_x = (self.x + x) / _width(self.figure)
        share_y = 1.0 - (self.y + y) / _height(self.figure)
        self.figure.text(share_x, share_y, text, **style)

    def axes(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes within margins of the card, in pixels."""
        axes = self.figure.add_axes(self._share(left, top, right, bottom))
        axes.tick_params(length=0, pad=3, labelsize=7)
        axes.spines[:].set_visible(False)
        return axes

    def _share(
        self, left: float, top: float, right: float, bottom: float
    ) -> tuple[float, float, float, float]:
        """Left, bottom, width and height as shares of the figure."""
        width, height = _width(self.figure), _height(self.figure)
        return (
            (self.x + left) / width,
            1.0 - (self.y + self.height - bottom) / height,
            max(self.width - left - right, 1.0) / width,
            max(self.height - top - bottom, 1.0) / height,
        )


def page(width: float, height: float) -> Figure:
    """An empty figure of a size in pixels."""
    return Figure(figsize=(width / _PIXELS, height / _PIXELS), dpi=_PIXELS, facecolor=PAGE)


def cut(text: str, width: float, size: float = 8.0) -> str:
    """A text that fits a width in pixels, shortened at its end if it must be."""
    most = max(int(width / (0.86 * size)), 1)  # a point is 1.39 pixels, a letter 0.62 of that
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(figure: Figure) -> float:
    return float(figure.get_figwidth()) * _PIXELS


def _height(figure: Figure) -> float:
    return float(figure.get_figheight()) * _PIXELS
