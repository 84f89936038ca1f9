"""Numbers as Grafana's units write them, and round ticks for an axis."""

import math

from matplotlib.ticker import MaxNLocator

_SI = ((1e9, "G"), (1e6, "M"), (1e3, "K"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_TICKS = 5


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
    """Values between two that are round in their unit: whole minutes, MiB, tenths."""
    sizes = {"bytes": [size for size, _ in _BINARY], "s": [86_400.0, 3_600.0, 60.0]}
    scale = next((size for size in sizes.get(unit, ()) if high >= size), 1.0)
    locator = MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10])
    values = (scale * tick for tick in locator.tick_values(low / scale, high / scale))
    return [value for value in values if low <= value <= high]


def _seconds(value: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return "0 s" if value == 0 else f"{value * 1e6:.3g} µs"
