"""Axes: a stretch of numbers or of time, its ticks, and where they lie in a drawing."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from ragmon.charts.units import Unit, value_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE),
    *(30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY, 364 * _DAY),
)
_MONDAY = 4 * _DAY  # 5 January 1970: weeks begin with a tick


class Axis(Struct, frozen=True):
    """From ``first`` to ``last``, with ticks and their texts; ``name`` stands beside it.

    With ``has_clock`` the ticks are unix seconds and tell the time of day.
    """

    first: float
    last: float
    ticks: tuple[tuple[float, str], ...]
    name: str = ""
    has_clock: bool = False

    def share(self, value: float) -> float:
        """The place of a value, 0 at the first end and 1 at the last."""
        return (value - self.first) / ((self.last - self.first) or 1.0)


def numbers(first: float, last: float, unit: Unit, *, most: int = 5, name: str = "") -> Axis:
    """An axis whose ends are round numbers at or beyond ``first`` and ``last``.

    Args:
        first: least value shown.
        last: greatest value shown.
        unit: of the ticks.
        most: about how many ticks.
        name: of the axis.
    """
    if not last > first:
        last = first + (abs(first) or 1.0)
    step = _round_step((last - first) / most)
    low, high = math.floor(first / step + 1e-9), math.ceil(last / step - 1e-9)
    values = [at * step for at in range(low, high + 1)]
    return Axis(values[0], values[-1], tuple((x, value_text(x, unit)) for x in values), name)


def ratios(values: Iterable[float]) -> Axis:
    """An axis for shares: from 0 to 1, or to a round share above the highest when all are low."""
    highest = max(values, default=1.0)
    return numbers(0.0, 1.0 if highest > 0.5 else max(highest, 0.01), "ratio", most=4)


def fixed(ticks: Sequence[float], name: str = "") -> Axis:
    """An axis with these ticks alone, of which the first and last are its ends."""
    return Axis(ticks[0], ticks[-1], tuple((tick, f"{tick:g}") for tick in ticks), name)


def times(first: float, last: float, *, most: int = 6) -> Axis:
    """An axis of time in UTC, with ticks at round times.

    Args:
        first: unix seconds of its left end.
        last: unix seconds of its right end.
        most: greatest number of ticks.
    """
    span = max(last - first, 1.0)
    step = next((step for step in _STEPS_S if span / step <= most), _STEPS_S[-1])
    origin = _MONDAY if step >= 7 * _DAY else 0
    at = origin + math.ceil((first - origin) / step) * step
    ticks: list[tuple[float, str]] = []
    while at <= first + span and len(ticks) < 4 * most:
        ticks.append((float(at), _time_text(at, step, is_first=not ticks)))
        at += step
    return Axis(first, first + span, tuple(ticks), has_clock=step < _DAY)


def _time_text(at: float, step: float, *, is_first: bool) -> str:
    """The clock, or the day where one begins; the first tick always says its day."""
    moment = datetime.fromtimestamp(at, UTC)
    day = f"{moment:%b} {moment.day}"
    if step >= _DAY or at % _DAY == 0:
        return day
    clock = f"{moment:%H:%M:%S}" if step < _MINUTE else f"{moment:%H:%M}"
    return f"{day} {clock}" if is_first else clock


def _round_step(rough: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, at least as large."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
