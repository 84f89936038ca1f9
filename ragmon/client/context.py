"""The query under way, wherever in a request or call the code that knows something of it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragmon.client.clock import ProcessClock
from ragmon.client.timing import TimedQuery

_CURRENT: ContextVar[TimedQuery | None] = ContextVar("current query", default=None)


def current_query() -> TimedQuery:
    """The query of the request or call that runs this code; elsewhere one that is logged nowhere.

    Tasks of ``asyncio``, and the thread pools of ASGI frameworks, have that of what started them.
    """
    return _CURRENT.get() or TimedQuery(_unlogged, "", ProcessClock(), {})


@contextmanager
def as_current(query: TimedQuery) -> Iterator[None]:
    """Make it the query under way inside a ``with`` block."""
    token = _CURRENT.set(query)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _unlogged(**fields: object) -> str:
    return str(fields["query_id"])
