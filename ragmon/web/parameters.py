"""Values of the query string, read within their limits."""

import contextlib
import re
from datetime import UTC, datetime

from msgspec import Struct
from starlette.requests import Request

from ragmon.asgi import Problem
from ragmon.durations import UNITS
from ragmon.web.endpoint import MOST_LISTED
from ragmon.web.permits import Readable, pipeline_of
from ragmon.web.query_endpoints import ORDERS, TAGS

_YEAR_10000 = 253_402_300_800  # unix seconds
_SHOWN = 100  # characters of what was sent that an answer repeats


class QuerySelection(Struct, frozen=True, kw_only=True):
    """The stored queries that somebody asks for; None stands for any."""

    pipeline: str = ""  # empty: any
    version: str | None = None  # empty: those that name none
    tags: tuple[tuple[str, str], ...] = ()  # key and value; an empty value: those without
    failing: tuple[str, ...] = ()  # alternatives; none: failed or not
    since: float = 0.0  # unix seconds
    until: float | None = None  # unix seconds, exclusive
    slowest: bool = False  # first, instead of the newest
    limit: int = 50
    readable: Readable | None = None


def selection_of(request: Request, now: float) -> QuerySelection:
    """The queries that a request asks for.

    Raises:
        Problem: a parameter cannot be read, or it may not read the pipeline.
    """
    asked = request.query_params
    order = asked.get("order", ORDERS[0])
    if order not in ORDERS:
        detail = f"order: {order[:40]!r} is not one of {', '.join(ORDERS)}"
        raise Problem(400, detail, reason="bad_parameter")
    pipeline, readable = pipeline_of(request)
    until = asked.get("until", "")
    return QuerySelection(
        pipeline=pipeline,
        version=asked.get("version"),
        tags=tuple(
            (name.removeprefix(TAGS), value)
            for name, value in asked.items()
            if name.startswith(TAGS)
        ),
        failing=tuple(name for name in asked.get("failing", "").split(",") if name),
        since=moment_of("since", asked.get("since", ""), now),
        until=moment_of("until", until, now) if until else None,
        slowest=order == "slowest",
        limit=limit_of(asked.get("limit", "50")),
        readable=readable,
    )


def limit_of(text: str) -> int:
    """Number of entries that a parameter asks for.

    Raises:
        Problem: not a number in range.
    """
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_LISTED:
        detail = f"limit: {text[:_SHOWN]!r} is not a number from 1 to {MOST_LISTED}"
        raise Problem(400, detail, reason="bad_parameter")
    return int(text)


def duration_of(text: str) -> float | None:
    """Seconds of a duration such as ``30s``, ``5m`` or ``7d``; None when it is none."""
    match = re.fullmatch("([0-9]{1,9})([smhd])", text)
    return int(match[1]) * UNITS[match[2]] if match else None


def moment_of(name: str, text: str, now: float) -> float:
    """Unix seconds of a parameter: a number, RFC 3339 or an age (``1h``); empty is the beginning.

    Raises:
        Problem: none of these.
    """
    if not text:
        return 0.0
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(text)) < _YEAR_10000:
            return seconds
    if (age := duration_of(text)) is not None:
        return max(0.0, now - age)
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        detail = (
            f"{name}: {text[:_SHOWN]!r} is neither unix seconds, RFC 3339 nor a duration like 1h"
        )
        raise Problem(400, detail, reason="bad_parameter") from None
