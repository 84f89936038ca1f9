"""Queries behind a number: by id, or the newest that failed in some way."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.api_schema import QueryDetail, StoredQuery
from ragmon.detectors.losses import hit_columns
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter, current, members_of, tagged
from ragmon.records import Amendments, Feedback, QueryRecord
from ragmon.report import metric_key
from ragmon.signals.evidence import SAMPLED_JUDGE, verdict_of
from ragmon.signals.failure_mode import FAILED, MODES
from ragmon.stores import Block, Reader, amendments

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
_KEPT_BYTES = 64 << 10  # of amendments, while it is not known whether they are shown
_ERROR_LENGTH = 200  # characters of an error where texts are left out


StoredPair = tuple[bytes, bytes | None]
"""A record, and its amendments, as the store holds them."""


class FailedWay(NamedTuple):
    """A way to fail: the first of these observations that is known has this value."""

    columns: tuple[int, ...]
    bad: float


def failures(pipeline: Pipeline) -> dict[str, FailedWay]:
    """Names that ``failing=`` may hold, and what they look at."""
    catalogue = pipeline.catalogue
    named = {
        name: FailedWay((catalogue.index(name),), 1.0)
        for name in (
            "zero_result",
            "error",
            "slow",
            "uncited",
            "low_score",
            "cited_unretrieved",
            "unfaithful",
        )
    }
    named["disliked"] = FailedWay((catalogue.index("negative_feedback"),), 1.0)
    # As detectors see it, so that an alert's queries are those that it is about.
    hits = [name for name in hit_columns(pipeline.columns) if name in pipeline.columns]
    named["miss"] = FailedWay(tuple(map(pipeline.columns.index, hits)), 0.0)
    for mode in FAILED:
        named[mode] = FailedWay((catalogue.index("failure_mode", mode=mode),), 1.0)
    return named


class _Criterion:
    """Columns that a filter looks at, so that no others are unpacked, and what fits in them."""

    def __init__(self, pipeline: Pipeline, query_filter: QueryFilter) -> None:
        named = failures(pipeline)
        self._failing = [named[name] for name in dict.fromkeys(query_filter.failing)]
        self.by_latency = query_filter.slowest
        self.by_score = query_filter.failing == ("unfaithful",) and not self.by_latency
        ranks: list[int] = []
        if self.by_score:
            index = pipeline.catalogue.index
            ranks = [index("faithfulness", judge=judge) for judge in ("grounding", "human")]
        elif self.by_latency:
            ranks = [pipeline.catalogue.index("latency_ms", stage="total")]
        looked_at = [column for failure in self._failing for column in failure.columns]
        self.columns = [*dict.fromkeys([*looked_at, *ranks])]
        self._place = {column: at for at, column in enumerate(self.columns)}
        self._ranks = ranks

    @property
    def by_time(self) -> bool:
        """True where the newest come first."""
        return not self._ranks

    def fits(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Mask of the rows that fail in one of the ways and have a rank; shape (n,)."""
        fits = np.full(len(values), not self._failing)
        for failure in self._failing:
            known = np.full(len(values), np.nan)
            for column in failure.columns:
                known = np.where(np.isnan(known), values[:, self._place[column]], known)
            fits |= known == failure.bad
        if self.by_latency:
            fits &= ~np.isnan(self.ranks(values)[:, 0])
        return fits

    def ranks(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The observations that say which comes first; shape (n, ranks)."""
        return values[:, [self._place[column] for column in self._ranks]]


class _Hit(NamedTuple):
    """A record that fits; of two, the greater one comes first in the answer."""

    rank: float
    sequence: int
    block: int  # its first sequence number
    body: bytes | None  # its amendments; empty if they are too large to keep, and read again


def newest(
    reader: Reader,
    pipeline: Pipeline,
    query_filter: QueryFilter,
    on_block: Callable[[], None] = lambda: None,
) -> list[QueryDetail]:
    """The newest queries that fit, newest first; of unfaithful ones the worst, worst first.

    One block at a time is open, and of each only what is shown stays in memory.

    Args:
        reader: of the store.
        pipeline: whose signals are shown.
        query_filter: the queries asked for.
        on_block: called before each block that is opened; it may raise to give up.
    """
    hits = sorted(_hits(reader, pipeline, query_filter, on_block), reverse=True)
    by_block: dict[int, list[int]] = {}  # places in the answer
    for place, hit in enumerate(hits):
        by_block.setdefault(hit.block, []).append(place)
    described = _Described(pipeline)
    for block, places in by_block.items():
        on_block()
        stored = reader.some_records(block, [hits[place].sequence - block for place in places])
        for place in places:
            sequence, body = hits[place].sequence, hits[place].body
            if sequence - block not in stored:
                continue  # it has expired meanwhile
            if body == b"":
                body = (reader.record(sequence) or (b"", None))[1]
            described.add(place, stored[sequence - block], body)
    return described.whole()


class _Described:
    """Queries of an answer, described a batch at a time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
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

    def whole(self) -> list[QueryDetail]:
        """All of them, in order."""
        self._describe()
        return [self._details[place] for place in sorted(self._details)]

    def _describe(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        details = describe([pair for _, pair in batch], self._pipeline) if batch else []
        for (place, pair), detail in zip(batch, details, strict=True):
            shows_texts = place < MOST_WITH_TEXTS and _size(pair) <= self._room
            self._room -= _size(pair) if shows_texts else 0
            self._details[place] = detail if shows_texts else without_texts(detail)


def _size(pair: StoredPair) -> int:
    return len(pair[0]) + len(pair[1] or b"")


def _hits(
    reader: Reader, pipeline: Pipeline, query_filter: QueryFilter, on_block: Callable[[], None]
) -> list[_Hit]:
    limit, criterion = query_filter.limit, _Criterion(pipeline, query_filter)
    best: list[_Hit] = []  # a heap with the first to go on top
    for block in reader.blocks(query_filter.since, query_filter.until):
        if criterion.by_time and len(best) == limit and block.last_timestamp < best[0].rank:
            break
        on_block()
        for at, rank in _matches(reader, pipeline, block, query_filter, criterion):
            sequence = block.first_sequence + at
            body = block.amendments.get(sequence)
            if body is not None and len(body) > _KEPT_BYTES:
                body = b""
            hit = _Hit(rank, sequence, block.first_sequence, body)
            if len(best) < limit:
                heapq.heappush(best, hit)
            else:
                heapq.heappushpop(best, hit)
    return best


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


def _matches(
    reader: Reader,
    pipeline: Pipeline,
    block: Block,
    query_filter: QueryFilter,
    criterion: _Criterion,
) -> Iterator[tuple[int, float]]:
    """Positions and ranks of the records of a block that fit."""
    members = members_of(block, query_filter)
    if members is not None and not members.any():
        return  # its signals are not unpacked, nor its amendments and records read
    observations = current(reader, pipeline, block, criterion.columns)
    values, timestamps = observations.values, observations.timestamps
    fits = (timestamps >= query_filter.since) & (timestamps < query_filter.until)
    if members is not None:
        fits &= members
    fits &= criterion.fits(values)
    places = np.flatnonzero(fits).tolist()
    if unsliced := [tag for tag in query_filter.tags if tag[0] not in observations.slices]:
        places = tagged(reader, block, places, unsliced)
    ranks = criterion.ranks(values)
    for at in places:
        if criterion.by_time:
            yield at, float(timestamps[at])
        elif criterion.by_latency:
            yield at, float(ranks[at, 0])
        else:
            yield at, 1.0 - _worst_score(block, at, *ranks[at].tolist())


def _worst_score(block: Block, at: int, judged: float, human: float) -> float:
    """Faithfulness of an answer by whoever is believed most."""
    if not np.isnan(human):
        return human
    return _sampled_score(block.amendments.get(block.first_sequence + at), otherwise=judged)


def _sampled_score(body: bytes | None, otherwise: float) -> float:
    """Score of the sampled judge for one query, if it was asked."""
    verdict = verdict_of(amendments.decode(body).known, SAMPLED_JUDGE) if body else None
    return otherwise if verdict is None or verdict.score is None else verdict.score


def check_failing(names: Sequence[str], pipeline: Pipeline) -> tuple[str, ...]:
    """The names of ``failing=``.

    Raises:
        ValueError: one of them is not known.
    """
    known = failures(pipeline)
    for name in names:
        if name not in known:
            raise ValueError(f"failing: {name!r} is not one of {', '.join(known)}")
    return tuple(names)
