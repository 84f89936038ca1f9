"""Protocol of what the pages of queries are made of, and its answers."""

from typing import NamedTuple, Protocol

from ragmon.api_schema import QueryDetail, QueryList
from ragmon.nearby import NearbyQueries
from ragmon.web.parameters import QuerySelection


class SupportedSentence(NamedTuple):
    """A sentence of an answer, and the passage that it rests on."""

    start: int  # characters of the answer
    end: int
    chunk: int  # its position
    chunk_start: int  # characters of its text
    chunk_end: int
    shared: tuple[str, ...]  # words, rarest first


class QueryPageSource(Protocol):
    """Source of queries."""

    @property
    def trace_template(self) -> str:
        """``links.trace``: the URL of a trace, or empty."""
        ...

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def queries(self, selection: QuerySelection) -> QueryList:
        """A page of the queries that fit.

        Raises:
            ValueError: the selection names something unknown.
        """
        ...

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query; None when it is unknown or expired."""
        ...

    async def neighbours(self, query: QueryDetail) -> NearbyQueries:
        """Queries of its session, and earlier ones of its question, as far as they are near."""
        ...

    async def supports(self, query: QueryDetail) -> tuple[SupportedSentence, ...]:
        """The sentences of its answer that a chunk supports."""
        ...
