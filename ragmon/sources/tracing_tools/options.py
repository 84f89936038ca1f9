"""Options of every source that asks a tracing tool."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from ragmon.http_client import HttpOptions, Url


class ToolOptions(HttpOptions):
    """Scope and rhythm of what is read."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    """Name of the source, under which it is kept how far it was read; another name begins anew."""
    url: Url
    """Base URL of the tool."""
    since: AwareDatetime | None = None
    """Time from which the history is read, such as 2026-01-01T00:00:00Z; none: as far back as
    retention.records keeps queries."""
    every_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """Seconds between two looks for something new."""
    settle_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """Age in seconds at which a stretch of time is read first. Longer than traces usually take to
    appear in the tool."""
    again_s: Annotated[float, Field(ge=0, le=86_400)] = 1_800.0
    """Age in seconds at which it is read again, for spans that came late; below otlp.late_for.
    0: never."""
    scores_again_s: tuple[Annotated[float, Field(gt=0, le=30 * 86_400)], ...] = (3_600.0, 86_400.0)
    """Ages in seconds at which its scores are read again, for those that were given or changed
    later."""
    page: Annotated[int, Field(ge=1, le=1_000)] = 200
    """Spans of one request; fewer are asked for when an answer is too large."""
    pipeline: Annotated[str, Field(max_length=256)] = ""
    """Pipeline of queries whose spans name no service; empty: the tool's own name of them."""


def begin(since: datetime | None, now: float, retention_s: float) -> float:
    """Unix seconds from which the history is read: older queries would be refused."""
    oldest = now - retention_s
    return oldest if since is None else max(oldest, since.timestamp())
