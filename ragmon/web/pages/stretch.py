"""The time that a page is about, as its address says it."""

from typing import NamedTuple

from starlette.requests import Request

from ragmon.asgi import Problem
from ragmon.web.parameters import duration_of, moment_of

WINDOWS = ("1h", "6h", "24h", "7d", "30d")
"""Lengths that a page offers."""
DEFAULT_WINDOW = "24h"

_SHORTEST_S, _LONGEST_S = 300.0, 90 * 86_400.0


class Stretch(NamedTuple):
    """A stretch of time."""

    window: str  # its length up to now; empty: given by its ends
    start: float  # unix seconds
    end: float


def stretch_of(request: Request, now: float) -> Stretch:
    """The time that the parameters ``window``, or ``from`` and ``to``, ask for.

    Raises:
        Problem: a parameter makes no sense.
    """
    asked = request.query_params
    if asked.get("from"):
        end = moment_of("to", asked["to"], now) if asked.get("to") else now
        start, window = moment_of("from", asked["from"], now), ""
    else:
        window = asked.get("window") or DEFAULT_WINDOW
        length = duration_of(window)
        if length is None:
            raise _bad(f"window: {window[:40]!r} is no duration such as 1h")
        start, end = now - length, now
    if not _SHORTEST_S <= end - start <= _LONGEST_S + 1.0:
        raise _bad("window, from, to: ask for at least 5 minutes and at most 90 days")
    return Stretch(window, start, end)


def _bad(detail: str) -> Problem:
    return Problem(400, detail, reason="bad_parameter")
