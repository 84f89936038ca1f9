"""Queries as the pages show them, from a running engine."""

import asyncio

from ragmon.api_schema import QueryDetail, QueryList
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.monitor import LiveMonitor
from ragmon.judges.grounding.support import supports
from ragmon.nearby import NearbyQueries
from ragmon.web.pages.query_source import SupportedSentence
from ragmon.web.parameters import QuerySelection


class QueryPages:
    """Implements ``ragmon.web.pages.query_source.QueryPageSource``."""

    def __init__(self, monitor: LiveMonitor, settings: Settings, clock: Clock) -> None:
        self._monitor = monitor
        self._template = settings.links.trace
        self._clock = clock

    @property
    def trace_template(self) -> str:
        """``links.trace``."""
        return self._template

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    async def queries(self, selection: QuerySelection) -> QueryList:
        """A page of the queries that fit.

        Raises:
            ValueError: the selection names something unknown.
        """
        return await self._monitor.queries(selection)

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query; None when it is unknown or expired."""
        return await self._monitor.query(query_id)

    async def neighbours(self, query: QueryDetail) -> NearbyQueries:
        """Queries of its session, and earlier ones of its question, as far as they are near."""
        return await self._monitor.neighbours(query)

    async def supports(self, query: QueryDetail) -> tuple[SupportedSentence, ...]:
        """The sentences of its answer that a chunk supports."""
        chunks = query.record.chunks or ()
        texts = [chunk.text or "" for chunk in chunks]
        sentences = await asyncio.to_thread(supports, query.record.answer or "", texts)
        return tuple(
            SupportedSentence(
                one.start, one.end, one.chunk, one.chunk_start, one.chunk_end, one.shared
            )
            for one in sentences
        )
