"""Numbers as Grafana's units write them, and where to put the ticks of an axis."""

import math
from datetime import UTC, datetime

from grafana.drawing.svg import Box, Point

_SI = ((1e9, "G"), (1e6, "M"), (1e3, "K"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))


def written(value: float, unit: str) -> str:
    """A value as text, in a unit by Grafana's name for it."""
    if math.isnan(value):
        return "–"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return _seconds(value)
    if unit == "bytes":
        size, name = next(((s, n) for s, n in _BINARY if abs(value) >= s), (1.0, "B"))
        return f"{value / size:.3g} {name}"
    if unit == "currencyUSD":
        return f"${value:.3g}"
    size, name = next(((s, n) for s, n in _SI if abs(value) >= s), (1.0, ""))
    after = " req/s" if unit == "reqps" else ""
    return f"{value / size:.3g}{name and ' ' + name}{after}"


def ticks(low: float, high: float, unit: str) -> list[float]:
    """Three to six values between two that are round in their unit."""
    sizes = {"bytes": [size for size, _ in _BINARY], "s": [86_400.0, 3_600.0, 60.0]}
    scale = next((size for size in sizes.get(unit, ()) if high >= size), 1.0)
    return [each * scale for each in _round(low / scale, high / scale)]


def _round(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [each * step for each in range(first, math.floor(high / step + 1e-9) + 1)]


def clock(moment: float) -> str:
    """The time of day."""
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M")


class Axes:
    """Places times and values in a box."""

    def __init__(self, box: Box, start: float, end: float, low: float, high: float) -> None:
        self.box = box
        self.start, self.end = start, end
        self.low, self.high = low, high if high > low else low + 1.0

    def x(self, moment: float) -> float:
        """Pixels of a time."""
        return self.box.x + self.box.width * (moment - self.start) / (self.end - self.start)

    def y(self, value: float) -> float:
        """Pixels of a value, kept inside the box."""
        share = (value - self.low) / (self.high - self.low)
        return self.box.bottom - self.box.height * min(1.0, max(0.0, share))

    def point(self, moment: float, value: float) -> Point:
        """Pixels of both."""
        return self.x(moment), self.y(value)


def _seconds(value: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return "0 s" if value == 0 else f"{value * 1e6:.3g} µs"
