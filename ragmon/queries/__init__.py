"""Queries behind a number: by id, or the newest that failed in some way."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ragmon.api_schema import QueryDetail, StoredQuery
from ragmon.pipeline import Pipeline
from ragmon.queries import key_filter
from ragmon.queries.block_hits import BlockHits, Hit
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.criteria import Criterion
from ragmon.queries.summaries import BlockChoice, BlockFacts
from ragmon.records import Amendments, Feedback, QueryRecord
from ragmon.report import metric_key
from ragmon.signals.failure_mode import MODES
from ragmon.stores import Reader, amendments
from ragmon.stores.summaries import BlockOutline

_decode = msgspec.msgpack.Decoder(QueryRecord).decode
_decode_stored = msgspec.msgpack.Decoder(StoredQuery).decode
_encode = msgspec.msgpack.Encoder().encode

MOST_WITH_TEXTS = 100
"""Queries of one answer that come with their texts; those after them come without."""
MOST_TEXT_BYTES = 4 << 20
"""Stored bytes of the queries of one answer that come with their texts."""
_BATCH = 64  # queries that are described together: one alone costs ten times as much
_BATCH_BYTES = 1 << 20  # of stored queries, from which on they are not kept for more
_BARE_BYTES = 16 << 10  # of a query without texts; what is larger keeps its identity alone
_FIRST_FILTERS, _MOST_FILTERS = 2, 64  # blocks whose filters are read together
_ERROR_LENGTH = 200  # characters of an error where texts are left out


StoredPair = tuple[bytes, bytes | None]
"""A record, and its amendments, as the store holds them."""


class MatchCount(NamedTuple):
    """Number of queries that fit, on all pages."""

    total: int
    at_least: bool  # true: there may be more, which were not counted


class ResultPage(NamedTuple):
    """Some of the queries that fit, and how to go on."""

    queries: list[QueryDetail]
    after: tuple[float, int] | None  # rank and number of the last one; None: no more fit
    matches: MatchCount


class QuerySearch(NamedTuple):
    """A search, and what limits it."""

    reader: Reader
    pipeline: Pipeline
    asked: QueryFilter
    on_block: Callable[[], None] = lambda: None  # called before each block; it may raise to give up
    goes_on: Callable[[], bool] = lambda: False  # False: enough was counted beyond the page


def newest(
    reader: Reader,
    pipeline: Pipeline,
    query_filter: QueryFilter,
    on_block: Callable[[], None] = lambda: None,
) -> list[QueryDetail]:
    """The newest queries that fit, newest first; of unfaithful ones the worst, worst first."""
    return page(QuerySearch(reader, pipeline, query_filter, on_block)).queries


def page(search: QuerySearch, *, whole_texts: bool = False) -> ResultPage:
    """The first queries that fit, in the order asked for.

    Args:
        search: the queries asked for.
        whole_texts: end the page where texts would be left out; it holds one query at least.
    """
    limit = search.asked.limit
    with search.reader.moment():
        best, matches = hits_of(search)
    hits = sorted(best, reverse=True)
    has_more = len(hits) > limit
    del hits[limit:]
    details = described(search, hits, whole_texts=whole_texts)
    if whole_texts:
        omitted = (place for place, detail in details.items() if detail.texts_omitted)
        shown = min(omitted, default=len(hits))
        has_more = has_more or shown < len(hits)
        details = {place: detail for place, detail in details.items() if place < shown}
        del hits[shown:]
    after = (hits[-1].rank, hits[-1].sequence) if has_more and hits else None
    return ResultPage([details[place] for place in sorted(details)], after, matches)


def described(
    search: QuerySearch, hits: Sequence[Hit], *, whole_texts: bool = False
) -> dict[int, QueryDetail]:
    """Hits in full by their place; those that expired meanwhile are missing.

    One block at a time is open, and of each only what is shown stays in memory.
    """
    by_block: dict[int, list[int]] = {}  # places in the answer
    for place, hit in enumerate(hits):
        by_block.setdefault(hit.block, []).append(place)
    queries = _Described(search.pipeline, has_first=whole_texts)
    for block, places in by_block.items():
        search.on_block()
        stored = _records_of(search.reader, block, [hits[at] for at in places])
        again = search.reader.amendments(
            [hits[at].sequence for at in places if hits[at].body == b""]
        )
        for place in places:
            sequence, body = hits[place].sequence, hits[place].body
            if sequence - block not in stored:
                continue  # it has expired meanwhile
            if body == b"":
                body = again.get(sequence)
            queries.add(place, stored[sequence - block], body)
    return queries.whole()


def _records_of(reader: Reader, block: int, hits: Sequence[Hit]) -> dict[int, bytes]:
    """Records of hits of a block by their place in it; those that have expired are missing."""
    stored = {hit.sequence - block: hit.record for hit in hits if hit.record is not None}
    others = [hit.sequence - block for hit in hits if hit.record is None]
    return stored | reader.some_records(block, others) if others else stored


class _Described:
    """Queries of an answer, described a batch at a time."""

    def __init__(self, pipeline: Pipeline, *, has_first: bool) -> None:
        """Begin; with ``has_first`` the first one keeps its texts whatever their size."""
        self._pipeline = pipeline
        self._has_first = has_first
        self._room = MOST_TEXT_BYTES
        self._batch: list[tuple[int, StoredPair]] = []
        self._size = 0
        self._details: dict[int, QueryDetail] = {}

    def add(self, place: int, stored: bytes, body: bytes | None) -> None:
        """Take in the query at one place of the answer."""
        self._batch.append((place, (stored, body)))
        self._size += _size((stored, body))
        if len(self._batch) == _BATCH or self._size > _BATCH_BYTES:
            self._describe()

    def whole(self) -> dict[int, QueryDetail]:
        """All of them, by their place."""
        self._describe()
        return self._details

    def _describe(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        details = describe([pair for _, pair in batch], self._pipeline) if batch else []
        for (place, pair), detail in zip(batch, details, strict=True):
            shows_texts = place < MOST_WITH_TEXTS and _size(pair) <= self._room
            shows_texts |= self._has_first and not place
            self._room -= _size(pair) if shows_texts else 0
            self._details[place] = detail if shows_texts else without_texts(detail)


def _size(pair: StoredPair) -> int:
    return len(pair[0]) + len(pair[1] or b"")


class _Candidate(NamedTuple):
    """A block that may hold some; the greater ones are opened first."""

    bound: float  # no rank exceeds it
    outline: BlockOutline
    facts: BlockFacts | None


class _Best:
    """The greatest hits, one more than are asked for, and the number of all."""

    def __init__(self, asked: QueryFilter) -> None:
        self.hits: list[Hit] = []  # a heap with the first to go on top
        self.count = 0
        self._most = asked.limit + 1
        self._after = asked.after

    def beats(self, candidate: _Candidate) -> bool:
        """True where no hit of that block would be among them."""
        if len(self.hits) < self._most:
            return False
        outline = candidate.outline
        greatest = candidate.bound, outline.first_sequence + outline.records - 1
        return greatest < (self.hits[0].rank, self.hits[0].sequence)

    def beats_rank(self, bound: float) -> bool:
        """True where no hit of that rank, in any block, would be among them."""
        return len(self.hits) == self._most and bound < self.hits[0].rank

    def take_from(self, hits: BlockHits, first_sequence: int) -> None:
        """Take in those of a block."""
        count, greatest = hits.best(first_sequence, self._most, self._after)
        self.count += count
        for hit in greatest:
            if len(self.hits) < self._most:
                heapq.heappush(self.hits, hit)
            else:
                heapq.heappushpop(self.hits, hit)


def hits_of(search: QuerySearch) -> tuple[list[Hit], MatchCount]:
    """The hits of a page in no order, one more if there are more; and how many fit."""
    asked, criterion = search.asked, Criterion(search.pipeline, search.asked)
    choice = BlockChoice(search.pipeline, asked, criterion)
    best, is_whole = _Best(asked), asked.after is None
    for candidate in _candidates(search, choice, criterion):
        if best.beats(candidate):
            if not is_whole or not search.goes_on():
                is_whole = False
                if best.beats_rank(candidate.bound):
                    break
                continue
            count = choice.count(candidate.facts, candidate.outline)
            if count is not None:
                best.count += count
                continue
        search.on_block()
        hits = BlockHits(search.reader, search.pipeline, asked, criterion)
        best.take_from(hits, candidate.outline.first_sequence)
    return best.hits, MatchCount(total=best.count, at_least=not is_whole)


def _hits_in(search: QuerySearch, criterion: Criterion, candidate: _Candidate) -> Iterator[Hit]:
    """The hits of one block, which is opened for them."""
    block = candidate.outline.first_sequence
    return BlockHits(search.reader, search.pipeline, search.asked, criterion).of(block)


def hits_by_block(search: QuerySearch) -> Iterator[list[Hit]]:
    """All that fit, block by block, the block with the newest record first."""
    criterion = Criterion(search.pipeline, search.asked)
    choice = BlockChoice(search.pipeline, search.asked, criterion)
    for candidate in _candidates(search, choice, criterion):
        search.on_block()
        yield [*_hits_in(search, criterion, candidate)]


def _candidates(
    search: QuerySearch, choice: BlockChoice, criterion: Criterion
) -> Iterator[_Candidate]:
    """Blocks that may hold some, from the one that may hold the first of all."""
    asked = search.asked
    until = asked.until
    if asked.after is not None and criterion.order == "newest":
        until = min(until, math.nextafter(asked.after[0], math.inf))
    passed = _passed(search, choice, until)
    if criterion.order == "newest":  # as they come: most of them are never looked at
        return passed
    return iter(
        sorted(passed, key=lambda each: (each.bound, each.outline.first_sequence), reverse=True)
    )


def _passed(search: QuerySearch, choice: BlockChoice, until: float) -> Iterator[_Candidate]:
    """The blocks whose facts and filters tell of no reason to leave them closed."""
    length, by_facts = _FIRST_FILTERS, _passed_by_facts(search, choice, until)
    while some := [*itertools.islice(by_facts, length)]:
        needed = [choice.needed_keys(candidate.facts) for candidate in some]
        firsts = [
            one.outline.first_sequence for one, keys in zip(some, needed, strict=True) if keys
        ]
        filters = search.reader.keys(firsts) if firsts else {}
        for candidate, keys in zip(some, needed, strict=True):
            packed = filters.get(candidate.outline.first_sequence)
            if packed is None or all(key_filter.may_hold(packed, key) for key in keys):
                yield candidate
        length = min(2 * length, _MOST_FILTERS)


def _passed_by_facts(
    search: QuerySearch, choice: BlockChoice, until: float
) -> Iterator[_Candidate]:
    outlines = search.reader.outlines(search.asked.since, until, with_facts=choice.looks_at_facts)
    for outline in outlines:
        search.on_block()
        facts = choice.facts(outline)
        bound = choice.bound(facts, outline)
        if bound is not None:
            yield _Candidate(bound, outline._replace(facts=None), facts)


def without_texts(detail: QueryDetail) -> QueryDetail:
    """A query without question, answer, chunk texts and comments; small, whatever it held."""
    record, feedback = detail.record, detail.feedback
    chunks = record.chunks and [replace(chunk, text=None) for chunk in record.chunks]
    bare = replace(
        detail,
        record=replace(
            record,
            query=None,
            answer=None,
            retrieval_query=None,
            chunks=chunks,
            error=record.error and record.error[:_ERROR_LENGTH],
        ),
        verdicts=tuple(replace(verdict, doubts=(), rationale="") for verdict in detail.verdicts),
        feedback=replace(feedback, comment=None) if isinstance(feedback, Feedback) else feedback,
        texts_omitted=True,
    )
    if len(_encode(bare)) <= _BARE_BYTES:
        return bare
    identity = StoredQuery(
        query_id=record.query_id,
        timestamp=record.timestamp,
        pipeline=record.pipeline,
        version=record.version,
        error=bare.record.error,
    )
    return replace(bare, record=identity, verdicts=(), labels=())


def describe(stored: Sequence[StoredPair], pipeline: Pipeline) -> list[QueryDetail]:
    """Queries with everything known of them.

    Args:
        stored: records with their amendments, as the store holds them.
        pipeline: whose signals are shown.
    """
    records = [_decode_stored(record) for record, _ in stored]
    known = [amendments.decode(body).known if body else Amendments() for _, body in stored]
    modes = [pipeline.catalogue.index("failure_mode", mode=mode) for mode in MODES]
    shown = [
        (at, metric_key(column))
        for at, column in enumerate(pipeline.catalogue.columns)
        if column.metric is not None and column.name != "failure_mode"
    ]
    matrix = pipeline.observe(records, known).values
    return [
        QueryDetail(
            record=record,
            signals={name: row[at] for at, name in shown if row[at] == row[at]},  # not NaN
            verdicts=later.verdicts,
            draw=later.draw,
            feedback=later.feedback or record.feedback,
            labels=later.labels,
            failure_mode=MODES[max(range(len(modes)), key=lambda at: row[modes[at]])],
        )
        for record, later, row in zip(records, known, matrix.tolist(), strict=True)
    ]
