"""Values as people read them, by unit."""

import math
from typing import Literal

Unit = Literal["ratio", "seconds", "count", "score", "dollars"]

_SI = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def value_text(value: float, unit: Unit) -> str:
    """A value with its unit, to about three digits.

    Args:
        value: a ratio in [0, 1], seconds, a count, a score or US dollars; NaN is "no samples".
        unit: of the value.
    """
    if math.isnan(value):
        return "no samples"
    if unit == "ratio":
        return f"{_digits(100 * value)} %"
    if unit == "seconds":
        return _seconds(value)
    if unit == "dollars":
        return f"${_digits(value)}"
    return _digits(value) if unit == "score" else _count(value)


def _seconds(value: float) -> str:
    if value == 0:
        return "0 s"
    if abs(value) < 1e-3:
        return f"{_digits(value * 1e6)} µs"
    if abs(value) < 1:
        return f"{_digits(value * 1e3)} ms"
    if abs(value) < 120:
        return f"{_digits(value)} s"
    return f"{_digits(value / 60)} min" if abs(value) < 7200 else f"{_digits(value / 3600)} h"


def _count(value: float) -> str:
    for size, letter in _SI:
        if abs(value) >= size:
            return f"{_digits(value / size)} {letter}"
    return _digits(value)


def _digits(value: float) -> str:
    """Three digits without zeros at the end; never an exponent below a million."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(decimals, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
