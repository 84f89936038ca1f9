"""Interpretation of the server's responses. No I/O."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ragmon.client.receipts import ServerReceipt


_RETRY = frozenset({0, 408, 425, 429})
_REFUSED = frozenset({400, 422})
_MAX_RETRY_AFTER_S = 300.0  # A longer one, as from a misconfigured proxy, is cut.


class ServerResponse(NamedTuple):
    """A response; status 0 when none came."""

    status: int = 0
    body: bytes = b""
    retry_after: str | None = None
    error: str = ""  # why there is no status


class SendOutcome(Enum):
    """Next step for the batch."""

    DELIVERED = auto()  # the server has it, except for the records it rejected
    REFUSED = auto()  # no record of it is usable; sending it again changes nothing
    SPLIT = auto()  # too large: send it in halves
    RETRY = auto()  # send it again after a pause
    BLOCKED = auto()  # send it again, but only an operator can change the answer


class Reading(NamedTuple):
    """An interpreted response."""

    outcome: SendOutcome
    reason: str = ""
    retry_after_s: float | None = None
    receipt: ServerReceipt | None = None


def read(answer: ServerResponse, now: float) -> Reading:
    """Interpret a response.

    Args:
        answer: of the server, or of a proxy before it.
        now: unix seconds, for a ``Retry-After`` that is a date.
    """
    status = answer.status
    reason = f"status {status}" if status else answer.error
    from ragmon.client.receipts import receipt_in  # noqa: PLC0415 - msgspec is half of the import

    receipt = receipt_in(answer.body)
    if 200 <= status < 300:
        if receipt is None:  # A login page, for example: the response is not from ragmon.
            return Reading(outcome=SendOutcome.BLOCKED, reason=f"{reason} that is no receipt")
        return Reading(outcome=SendOutcome.DELIVERED, receipt=receipt)
    if status in _REFUSED:
        return Reading(outcome=SendOutcome.REFUSED, reason=reason, receipt=receipt)
    if status == 413:
        return Reading(outcome=SendOutcome.SPLIT, reason=reason)
    if status in _RETRY or status >= 500:
        wait = retry_after_s(answer.retry_after, now)
        return Reading(outcome=SendOutcome.RETRY, reason=reason, retry_after_s=wait)
    return Reading(outcome=SendOutcome.BLOCKED, reason=reason)


def retry_after_s(value: str | None, now: float) -> float | None:
    """Seconds to wait, from a ``Retry-After`` header in either form; at most five minutes.

    Args:
        value: the header; ``None`` when there is none.
        now: unix seconds.

    Returns:
        ``None`` when it is absent or unreadable.

    Source: RFC 9110, section 10.2.3.
    """
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), _MAX_RETRY_AFTER_S)
    # A date is rare, and its parser half of what importing the client would cost.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        seconds = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_S)
