"""Durations and sizes with units: ``90s``, ``7d``, ``20GB``."""

import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ragmon.durations import UNITS

_BYTES = {
    "": 1,
    "b": 1,
    **{f"{unit}b": 1000**power for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", 1)},
}
_UNIT_NAMES = ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
_AMOUNT = re.compile(r"\A\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def seconds(value: Any) -> Any:
    """Seconds in a duration such as ``15s``; numbers are seconds already.

    Raises:
        ValueError: not a duration.
    """
    if not isinstance(value, str):
        return value
    match = _AMOUNT.fullmatch(value)
    if not match or (match[2] or "s") not in UNITS:
        raise ValueError(f"{value!r} is not a duration; write for example 15s, 5m, 24h or 7d")
    return float(match[1]) * UNITS[match[2] or "s"]


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


def size_text(value: int) -> str:
    """A size in the unit that makes it shortest: 33554432 is ``32MiB``, 20000000000 ``20GB``."""
    units = (unit for unit in _UNIT_NAMES if value % _BYTES[unit.lower()] == 0)
    unit = max(units, key=lambda name: _BYTES[name.lower()])
    return f"{value // _BYTES[unit.lower()]}{unit}"


Seconds = Annotated[float, BeforeValidator(seconds), Field(allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(size), Field(ge=1)]


def listed(value: Any) -> Any:
    """A list written in one string, as environment variables and flags have it: ``5m,1h``."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int | float) else value


def moment(value: Any) -> Any:
    """Unix seconds of a date (its first second, UTC) or of a time in RFC 3339.

    Raises:
        ValueError: neither.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            example = "2027-06-30 or 2027-06-30T12:00:00Z"
            raise ValueError(
                f"{value[:100]!r} is not a time; write for example {example}"
            ) from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp()
    return value


def time_of_day(value: Any) -> Any:
    """``22:00``, which YAML reads as a number to the base of 60."""
    return f"{value // 60:02d}:{value % 60:02d}" if isinstance(value, int) else value
