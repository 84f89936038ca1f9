"""Ids, integers and times as JSON writes them."""

import binascii

from ragmon.event_time import NO_TIME

Whole = int | str | float | None
INT64 = 1 << 63

_LAST_MOMENT = (1 << 64) - 1  # the largest of the wire


def unhex(text: str, length: int) -> bytes | None:
    """An id; None unless it has that many bytes and one that is not zero."""
    try:
        raw = binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == length and any(raw) else None


def whole(value: Whole) -> int:
    """A 64-bit integer however it was written; 0 for anything else."""
    try:
        number = int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if abs(number) < INT64 else 0


def moment(value: Whole) -> int:
    """A time in nanoseconds; 0 where none was sent, NO_TIME for what is none."""
    try:
        number = int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return NO_TIME
    return max(NO_TIME + 1, min(number, _LAST_MOMENT))
