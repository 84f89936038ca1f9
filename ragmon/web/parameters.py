"""Values of the query string, read within their limits."""

import contextlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct
from starlette.requests import Request

from ragmon.asgi import Problem
from ragmon.durations import UNITS
from ragmon.web.endpoint import MOST_LISTED
from ragmon.web.permits import Readable, pipeline_of
from ragmon.web.query_endpoints import FIELDS, ORDERS, TAGS

_YEAR_10000 = 253_402_300_800  # unix seconds
_MOST_WORDS = 500  # characters of the words that are looked for
_SHOWN = 100  # characters of what was sent that an answer repeats


class QuerySelection(Struct, frozen=True, kw_only=True):
    """The stored queries that somebody asks for; None stands for any."""

    pipeline: str = ""  # empty: any
    version: str | None = None  # empty: those that name none
    tags: tuple[tuple[str, str], ...] = ()  # key and value; an empty value: those without
    failing: tuple[str, ...] = ()  # alternatives; none: failed or not
    since: float = 0.0  # unix seconds
    until: float | None = None  # unix seconds, exclusive
    order: str = ORDERS[0]
    same: tuple[tuple[str, str], ...] = ()  # field of a record and value; empty: not recorded
    mode: str = ""  # failure mode; empty: any
    feedback: str = ""  # empty: any
    least_score: float | None = None
    most_score: float | None = None
    words: str = ""
    cursor: str = ""
    limit: int = 50
    readable: Readable | None = None


def selection_of(
    request: Request, now: float, limit: int = 50, most: int = MOST_LISTED
) -> QuerySelection:
    """The queries that a request asks for.

    Args:
        request: with the parameters of ``query_endpoints``.
        now: unix seconds.
        limit: queries, if it names no limit.
        most: that it may name.

    Raises:
        Problem: a parameter cannot be read, or it may not read the pipeline.
    """
    return selection_from(request.query_params, pipeline_of(request), now, limit, most)


def selection_from(
    asked: Mapping[str, str],
    permitted: tuple[str, Readable | None],
    now: float,
    limit: int = 50,
    most: int = MOST_LISTED,
) -> QuerySelection:
    """The queries that parameters ask for.

    Args:
        asked: the parameters of ``query_endpoints``.
        permitted: the pipeline, and those that may be read.
        now: unix seconds.
        limit: queries, if they name no limit.
        most: that they may name.

    Raises:
        Problem: a parameter cannot be read.
    """
    order = asked.get("order", ORDERS[0])
    if order not in ORDERS:
        detail = f"order: {order[:40]!r} is not one of {', '.join(ORDERS)}"
        raise Problem(400, detail, reason="bad_parameter")
    pipeline, readable = permitted
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
        order=order,
        same=tuple((field, asked[name]) for name, field in FIELDS.items() if name in asked),
        mode=asked.get("failure_mode", ""),
        feedback=asked.get("feedback", ""),
        least_score=share_of("min_score", asked.get("min_score", "")),
        most_score=share_of("max_score", asked.get("max_score", "")),
        words=_words_of(asked.get("words", "")),
        cursor=asked.get("cursor", ""),
        limit=limit_of(asked.get("limit", str(limit)), most),
        readable=readable,
    )


def limit_of(text: str, most: int = MOST_LISTED) -> int:
    """Number of entries that a parameter asks for.

    Raises:
        Problem: not a number in range.
    """
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        detail = f"limit: {text[:_SHOWN]!r} is not a number from 1 to {most}"
        raise Problem(400, detail, reason="bad_parameter")
    return int(text)


def share_of(name: str, text: str) -> float | None:
    """A number from 0 to 1; None where the parameter is empty.

    Raises:
        Problem: not such a number.
    """
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if 0.0 <= (share := float(text)) <= 1.0:
            return share
    detail = f"{name}: {text[:_SHOWN]!r} is not a number from 0 to 1"
    raise Problem(400, detail, reason="bad_parameter")


def _words_of(text: str) -> str:
    if len(text) > _MOST_WORDS:
        detail = f"words: {len(text)} characters, {_MOST_WORDS} are allowed; name fewer words"
        raise Problem(400, detail, reason="bad_parameter")
    return text.strip()


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
