"""Durations and sizes with units: ``90s``, ``7d``, ``20GB``."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_BYTES = {
    "": 1,
    "b": 1,
    **{f"{unit}b": 1000**power for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", 1)},
}
_AMOUNT = re.compile(r"\A\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def seconds(value: Any) -> Any:
    """Seconds in a duration such as ``15s``; numbers are seconds already.

    Raises:
        ValueError: not a duration.
    """
    if not isinstance(value, str):
        return value
    match = _AMOUNT.fullmatch(value)
    if not match or (match[2] or "s") not in _SECONDS:
        raise ValueError(f"{value!r} is not a duration; write for example 15s, 5m, 24h or 7d")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def size(value: Any) -> Any:
    """Bytes in a size such as ``20GB`` or ``512MiB``; numbers are bytes already.

    Raises:
        ValueError: not a size.
    """
    if not isinstance(value, str):
        return value
    match = _AMOUNT.fullmatch(value)
    if not match or match[2].lower() not in _BYTES:
        raise ValueError(f"{value!r} is not a size; write for example 500MB, 20GB or 512MiB")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def duration_text(value: float) -> str:
    """A duration in its largest whole unit: 86400 is ``24h`` as in ``windows``, 604800 ``7d``."""
    for unit in ("d", "h", "m", "s"):
        amount = value / _SECONDS[unit]
        if amount == int(amount) and (unit != "d" or amount > 1):
            return f"{int(amount)}{unit}"
    return f"{value:g}s"


Seconds = Annotated[float, BeforeValidator(seconds), Field(allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(size), Field(ge=1)]


def listed(value: Any) -> Any:
    """A list written in one string, as environment variables and flags have it: ``5m,1h``."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int | float) else value


def time_of_day(value: Any) -> Any:
    """``22:00``, which YAML reads as a number to the base of 60."""
    return f"{value // 60:02d}:{value % 60:02d}" if isinstance(value, int) else value
