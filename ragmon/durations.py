"""Durations and moments as people write and read them: ``24h``, ``2026-11-21 03:02 UTC``."""

from datetime import UTC, datetime

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
"""Seconds in a unit."""


def duration_text(value: float) -> str:
    """A duration in its largest whole unit: 86400 is ``24h`` as in ``windows``, 604800 ``7d``."""
    for unit in ("d", "h", "m", "s"):
        amount = value / UNITS[unit]
        if amount == int(amount) and (unit != "d" or amount > 1):
            return f"{int(amount)}{unit}"
    return f"{value:g}s"


def rounded_duration_text(value: float) -> str:
    """A duration rounded down to the largest unit that it holds twice: 100 h is ``4d``."""
    for unit in ("d", "h", "m"):
        if value >= 2.0 * UNITS[unit]:
            return f"{int(value // UNITS[unit])}{unit}"
    return f"{int(value)}s"


def days_text(days: float) -> str:
    """Length of a time of days: ``7.0 days``; what would be ``0.0 days`` is ``40m``."""
    return f"{days:.1f} days" if days >= 0.05 else rounded_duration_text(days * 86_400.0)


def minute_text(moment: float) -> str:
    """The minute of a moment in unix seconds: ``2026-11-21 03:02 UTC``."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
