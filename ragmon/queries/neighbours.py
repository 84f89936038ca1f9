"""Queries next to one: of the same session, and earlier ones that asked the same."""

import heapq
import itertools
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from ragmon.api_schema import StoredQuery
from ragmon.nearby import NearbyQueries, NearbyQuery
from ragmon.queries import key_filter
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.contents import filter_keys
from ragmon.queries.shared import normal_question
from ragmon.queries.words import keys_of
from ragmon.stores import Reader
from ragmon.stores.summaries import BlockOutline

MOST_OF_SESSION, MOST_SAME = 6, 3
"""Queries that are shown of each kind."""
AROUND_S = 3_600.0
"""Time before and after a query in which its session is looked for."""
BEFORE_S = 6 * 3_600.0
"""Time before it in which the same question is looked for."""

_SHOWN = 300  # characters of a text
_LONGEST = 2_000  # characters of a question that tell it from others
_MOST_KEYS = 12  # words of the question, the longest, that a block's filter is asked for


class _Near(Struct, frozen=True, gc=False):
    """Part of a record that is read."""

    query_id: str = ""
    timestamp: float = 0.0
    pipeline: str = "default"  # as in ``QueryRecord``, which leaves it out
    session_id: str | None = None
    query: str | None = None
    answer: str | None = None
    error: str | None = None


_decode = msgspec.msgpack.Decoder(_Near).decode
_decode_all = msgspec.msgpack.Decoder(list[_Near]).decode


class NeighbourSearch:
    """Search around one query, in its own block first and then ever farther from it."""

    def __init__(self, record: StoredQuery) -> None:
        self._record = record
        self._question = normal_question(record.query or "")
        self._session: list[_Near] = []
        self._same: list[_Near] = []
        session = (("session_id", record.session_id or ""),)
        asked = QueryFilter(0.0, 0.0, "", (), 0, same=session)
        self._session_keys = [key_filter.digest_of(key) for key in filter_keys(asked, ())]
        words = heapq.nlargest(_MOST_KEYS, keys_of((record.query or "")[:_LONGEST]), key=len)
        self._question_keys = [key_filter.digest_of(word) for word in words]

    def run(self, reader: Reader, goes_on: Callable[[], bool]) -> NearbyQueries:
        """The neighbours.

        Args:
            reader: of the store.
            goes_on: False: enough; the block of the query itself is looked through all the same.
        """
        if not self._record.session_id and not self._question:
            return NearbyQueries()
        with reader.moment():
            for count, outline in enumerate(self._outlines(reader)):
                if count and (self._has_enough() or not goes_on()):
                    break
                if self._may_hold(reader, outline):
                    self._look_through(reader, outline.first_sequence)
        return self._nearest()

    def _outlines(self, reader: Reader) -> Iterator[BlockOutline]:
        """Blocks around the query, those before it and those after it in turns."""
        at = self._record.timestamp
        until = at + 1e-6
        before = reader.outlines(at - BEFORE_S, until, with_facts=False)
        own = next(before, None)
        if own is None:
            return
        yield own
        later = reader.outlines(until, at + AROUND_S, with_facts=False)
        after = [outline for outline in later if outline.first_sequence != own.first_sequence]
        for pair in itertools.zip_longest(reversed(after), before):
            yield from filter(None, pair)

    def _may_hold(self, reader: Reader, outline: BlockOutline) -> bool:
        packed = reader.keys([outline.first_sequence]).get(outline.first_sequence)
        if packed is None:
            return True
        return any(
            bool(keys) and all(key_filter.may_hold(packed, key) for key in keys)
            for keys in (self._session_keys, self._question_keys)
        )

    def _look_through(self, reader: Reader, first_sequence: int) -> None:
        read = reader.contents(first_sequence)
        if read is None:
            return
        body, revised = read
        every = _decode_all(body)
        for place, stored in revised.items():
            every[place] = _decode(stored)
        own = self._record
        for near in every:
            if near.pipeline != own.pipeline or near.query_id == own.query_id:
                continue
            apart = near.timestamp - own.timestamp
            if own.session_id and near.session_id == own.session_id and abs(apart) <= AROUND_S:
                self._session.append(near)
            elif (
                near.query
                and -BEFORE_S <= apart <= 0.0
                and normal_question(near.query) == self._question
            ):
                self._same.append(near)

    def _has_enough(self) -> bool:
        has_session = not self._record.session_id or len(self._session) >= MOST_OF_SESSION
        return has_session and (not self._question or len(self._same) >= MOST_SAME)

    def _nearest(self) -> NearbyQueries:
        at = self._record.timestamp
        nearest = heapq.nsmallest(
            MOST_OF_SESSION, self._session, key=lambda near: abs(near.timestamp - at)
        )
        newest = heapq.nlargest(MOST_SAME, self._same, key=lambda near: near.timestamp)
        in_order = sorted(nearest, key=lambda near: near.timestamp)
        return NearbyQueries(tuple(map(_neighbour, in_order)), tuple(map(_neighbour, newest)))


def _neighbour(near: _Near) -> NearbyQuery:
    return NearbyQuery(
        near.query_id,
        near.timestamp,
        (near.query or "")[:_SHOWN],
        (near.answer or "")[:_SHOWN],
        near.error is not None,
    )
