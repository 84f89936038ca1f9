"""Topics of stored queries, over HTTP."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem, unavailable
from ragmon.topics.analysis import TopicList
from ragmon.web.api import Page, json_answer
from ragmon.web.parameters import moment_of
from ragmon.web.permits import Readable, pipeline_of
from ragmon.web.topic_endpoints import TOPICS

SHORTEST_S, LONGEST_S = 300.0, 90 * 86_400.0
"""Lengths of time that may be asked for."""
_WAIT_S = 30.0  # for an analysis, before the answer is that it is under way


class TopicQuery(NamedTuple):
    """The queries whose topics are asked for."""

    pipeline: str  # empty: all
    since: float  # unix seconds
    until: float | None  # None: now
    readable: Readable | None  # None: every pipeline


class TopicSource(Protocol):
    """Source of topics."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def topics(self, query: TopicQuery, wait_s: float) -> TopicList | None:
        """The topics; None while they are still being found after so many seconds.

        Raises:
            RagmonError: they cannot be found.
        """
        ...


class TopicSection:
    """Endpoint of topics."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(TOPICS, self.topics),)

    async def topics(self, request: Request) -> Response:
        """Every topic."""
        asked, now = request.query_params, self._source.now()
        pipeline, readable = pipeline_of(request)
        since = moment_of("since", asked.get("since") or "7d", now)
        until = moment_of("until", asked["until"], now) if asked.get("until") else None
        if not SHORTEST_S <= (until or now) - since <= LONGEST_S + 1.0:
            detail = "since, until: ask for at least 5 minutes and at most 90 days"
            raise Problem(400, detail, reason="bad_parameter")
        query = TopicQuery(pipeline, since, until, readable)
        topics = await self._source.topics(query, _WAIT_S)
        if topics is None:
            detail = "the topics of that time are still being found; ask again in a moment"
            raise unavailable(detail, "topics_under_way")
        return json_answer(topics)
