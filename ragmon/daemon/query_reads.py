"""Stored queries of a running engine: pages of a search, its export, and one by its id."""

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator

from msgspec.structs import replace

from ragmon import queries
from ragmon.api_schema import QueryDetail, QueryList, StoredQuery
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.ingest.lookup import number_elsewhere
from ragmon.daemon.read_deadline import read_deadline
from ragmon.nearby import NearbyQueries
from ragmon.pipeline import Pipeline
from ragmon.queries import exports
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.criteria import check_filter, order_of
from ragmon.queries.cursor import read_cursor, write_cursor
from ragmon.queries.neighbours import NeighbourSearch
from ragmon.queries.shared import MOST_READ, shared_questions
from ragmon.queries.words import WordSearch
from ragmon.shared_questions import SharedQuestions
from ragmon.web.comparison import ComparisonQuery
from ragmon.web.parameters import QuerySelection
from ragmon.windows.series import VERSION

_SHARED_S = 0.4  # that questions asked of both sides are looked for
_NEAR_S = 0.006  # that neighbours are looked for beyond the block of a query
_COUNT_S = 0.1  # that counting goes on for when a page is full


class QueryReads:
    """Searches beside the writer, each with a view of its own."""

    def __init__(self, engine: Engine, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock

    async def listed(self, selection: QuerySelection) -> QueryList:
        """A page of the queries that fit.

        Raises:
            ValueError: the selection names something unknown.
        """
        asked = self.filter_of(selection)
        page = await asyncio.to_thread(self._page, asked, whole_texts=False)
        cursor = page.after and write_cursor(order_of(asked), page.after)
        listed = QueryList(queries=page.queries, next_cursor=cursor or None)
        if asked.after:
            return listed
        count, at_least = page.matches
        return replace(listed, matches=count, matches_at_least=at_least)

    async def export(self, selection: QuerySelection, form: str) -> AsyncIterator[bytes]:
        """All queries that fit with their texts, in parts of a file that need little memory.

        Each part is a read with a time limit of its own, so that none holds the store for long.

        Raises:
            ValueError: the selection names something unknown.
        """
        asked, left = self.filter_of(selection), selection.limit
        encode = exports.encoder(form)
        while left > 0:
            part = asked._replace(limit=min(left, queries.MOST_WITH_TEXTS))
            page = await asyncio.to_thread(self._page, part, whole_texts=True)
            yield await asyncio.to_thread(encode, page.queries)
            if page.after is None:
                return
            left -= len(page.queries)
            asked = asked._replace(after=page.after)

    async def shared(self, query: ComparisonQuery) -> SharedQuestions:
        """The questions that were asked of both sides of a comparison."""
        return await asyncio.to_thread(self._shared, query)

    def _shared(self, query: ComparisonQuery) -> SharedQuestions:
        hint = "Ask for less: a later from, or an earlier to"
        check = read_deadline(self._clock, self._settings.limits.query_timeout, hint)
        until = self._clock.monotonic() + _SHARED_S
        with self._engine.store.reader() as reader:
            reference, candidate = (
                queries.QuerySearch(
                    reader,
                    self._engine.pipeline,
                    _side(query, value),
                    check,
                    lambda: self._clock.monotonic() < until,
                )
                for value in (query.reference, query.candidate)
            )
            return shared_questions(reference, candidate)

    def filter_of(self, selection: QuerySelection) -> QueryFilter:
        """The filter of a selection.

        Raises:
            ValueError: the selection names something unknown.
        """
        now = self._clock.now() + self._settings.max_clock_skew
        return filter_of(selection, self._engine.pipeline, now)

    def _page(self, asked: QueryFilter, *, whole_texts: bool) -> queries.ResultPage:
        counted_until = float("-inf") if whole_texts else self._clock.monotonic() + _COUNT_S
        hint = "Ask for less: a later since, an earlier until or one failure"
        check = read_deadline(self._clock, self._settings.limits.query_timeout, hint)
        with self._engine.store.reader() as reader:
            search = queries.QuerySearch(
                reader,
                self._engine.pipeline,
                asked,
                check,
                lambda: self._clock.monotonic() < counted_until,
            )
            return queries.page(search, whole_texts=whole_texts)

    async def one(self, query_id: str) -> QueryDetail | None:
        """One query by its id; None when it is not stored."""
        engine, shard = self._engine, self._engine.shard
        for attempt in itertools.count():  # another id may have the first hash
            find = functools.partial(shard.find, shard.hash(query_id, attempt))
            numbers = [await engine.thread.ask_async(find)]
            if engine.others is not None:
                find = functools.partial(number_elsewhere, engine, query_id, attempt)
                numbers.append(await asyncio.to_thread(find))
            stored = [number for number in numbers if number is not None]
            if not stored:
                break
            for number in stored:
                described = await asyncio.to_thread(self._described, number)
                if described is not None and described.record.query_id == query_id:
                    return described
        return None

    async def neighbours(self, record: StoredQuery) -> NearbyQueries:
        """Queries of its session, and earlier ones of its question, as far as they are near."""
        return await asyncio.to_thread(self._neighbours, record)

    def _neighbours(self, record: StoredQuery) -> NearbyQueries:
        until = self._clock.monotonic() + _NEAR_S
        with self._engine.store.reader() as reader:
            search = NeighbourSearch(record)
            return search.run(reader, lambda: self._clock.monotonic() < until)

    def _described(self, sequence: int) -> QueryDetail | None:
        with self._engine.store.reader() as reader:
            stored = reader.record(sequence)
        return None if stored is None else queries.describe([stored], self._engine.pipeline)[0]


def filter_of(selection: QuerySelection, pipeline: Pipeline, newest: float) -> QueryFilter:
    """The filter of a selection.

    Args:
        selection: of stored queries.
        pipeline: that observed them.
        newest: end of a selection that names none, unix seconds.

    Raises:
        ValueError: the selection names something unknown.
    """
    asked = QueryFilter(
        since=selection.since,
        until=newest if selection.until is None else selection.until,
        pipeline=selection.pipeline,
        failing=selection.failing,
        limit=selection.limit,
        readable=selection.readable,
        version=selection.version,
        tags=selection.tags,
        slowest=selection.order == "slowest",
        worst=selection.order == "worst",
        same=selection.same,
        mode=selection.mode,
        feedback=selection.feedback,
        least_score=selection.least_score,
        most_score=selection.most_score,
        words=WordSearch.of(selection.words) if selection.words else None,
    )
    check_filter(asked, pipeline)
    if selection.cursor:
        asked = asked._replace(after=read_cursor(order_of(asked), selection.cursor))
    return asked


def _side(query: ComparisonQuery, value: str) -> QueryFilter:
    """The newest queries of one side of a comparison."""
    asked = QueryFilter(query.start, query.end, query.pipeline, (), MOST_READ)
    if query.dimension == VERSION:
        return asked._replace(version=value)
    return asked._replace(tags=((query.dimension, value),))
