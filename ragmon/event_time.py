"""The rule for times of events, the same for every source."""

import math
from typing import NamedTuple

from ragmon.durations import duration_text, rounded_duration_text
from ragmon.errors import RecordError
from ragmon.records import BEFORE_1970, UNSTAMPED

NO_TIME = -(1 << 63)
"""Stands for a time in nanoseconds that cannot be read."""


class Bounds(NamedTuple):
    """Range of accepted times, in unix seconds."""

    oldest: float
    newest: float


def event_time(timestamp: float, now: float, bounds: Bounds, *, may_be_old: bool) -> float:
    """The time that an event is stored with.

    Args:
        timestamp: unix seconds as sent; UNSTAMPED: none was, NaN: what was sent is no time.
        now: unix seconds, for an event without a time.
        bounds: an event beyond the newest is refused, and one before the oldest.
        may_be_old: keep one before the oldest. Feedback and labels count in the bucket of their
            query; their own time only tells which of two is newer.

    Raises:
        RecordError: with field, reason and remedy.
    """
    if timestamp == UNSTAMPED:
        return now
    if math.isnan(timestamp):
        raise _refusal("invalid", "is no time", "send unix time as a number that is not negative")
    if timestamp < 0.0:
        hint = "send the time of the event, or leave the field out where there is none"
        raise _refusal("too_old", "lies before 1970", hint)
    if timestamp > bounds.newest:
        ahead = rounded_duration_text(timestamp - now)
        hint = f"check the sender's clock; max_clock_skew is {_limit(bounds.newest - now)}"
        raise _refusal("future", f"lies {ahead} in the future", hint)
    if timestamp < bounds.oldest and not may_be_old:
        age = rounded_duration_text(now - timestamp)
        hint = f"retention.records keeps {_limit(now - bounds.oldest)}; raise it to back-fill"
        raise _refusal("too_old", f"is more than {age} old", hint)
    return timestamp


def from_nanoseconds(nanoseconds: int) -> float:
    """Unix seconds from a time of OTLP: zero where none was sent, NO_TIME for what is none."""
    if nanoseconds > 0:
        return nanoseconds / 1e9
    if nanoseconds == NO_TIME:
        return math.nan
    return BEFORE_1970 if nanoseconds else UNSTAMPED


def _refusal(reason: str, message: str, hint: str) -> RecordError:
    return RecordError(reason, "timestamp", message, hint=hint)


def _limit(value: float) -> str:
    """A setting again: the difference of two timestamps is off by some 1e-7 s."""
    return duration_text(round(value, 3))
