"""Queries behind a number: by id, or the newest that failed in some way."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.api_schema import QueryDetail, StoredQuery
from ragmon.pipeline import Pipeline
from ragmon.records import Amendments, Feedback, QueryRecord
from ragmon.report import metric_key
from ragmon.signals.evidence import SAMPLED_JUDGE, verdict_of
from ragmon.signals.failure_mode import FAILED, MODES
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations, unpack

_decode = msgspec.msgpack.Decoder(QueryRecord).decode
_decode_stored = msgspec.msgpack.Decoder(StoredQuery).decode
_encode = msgspec.msgpack.Encoder().encode

MOST_WITH_TEXTS = 100
"""Queries of one answer that come with their texts; those after them come without."""
MOST_TEXT_BYTES = 4 << 20
"""Stored bytes of the queries of one answer that come with their texts."""
_BARE_BYTES = 16 << 10  # of a query without texts; what is larger keeps its identity alone
_KEPT_BYTES = 64 << 10  # of amendments, while it is not known whether they are shown
_ERROR_LENGTH = 200  # characters of an error where texts are left out


class QueryFilter(NamedTuple):
    """Selection of queries; ``failing`` are alternatives, none means any query."""

    since: float  # unix seconds, as is the next
    until: float
    pipeline: str  # empty: any
    failing: tuple[str, ...]
    limit: int
    readable: Callable[[str], bool] | None = None  # by pipeline; None: all


def failures(pipeline: Pipeline) -> dict[str, tuple[int, float]]:
    """Names that ``failing=`` may hold, as (column, value) of the observations."""
    catalogue = pipeline.catalogue
    most = str(max(catalogue.options.ks))
    named = {
        name: (catalogue.index(name), 1.0)
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
    named["disliked"] = (catalogue.index("negative_feedback"), 1.0)
    named["miss"] = (catalogue.index("hit", k=most, evidence="label"), 0.0)
    for mode in FAILED:
        named[mode] = (catalogue.index("failure_mode", mode=mode), 1.0)
    return named


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
    room = MOST_TEXT_BYTES
    details: dict[int, QueryDetail] = {}
    for block, places in by_block.items():
        on_block()
        records = reader.records(block)
        for place in places:
            hit = hits[place]
            if hit.sequence - block >= len(records):
                continue  # it has expired meanwhile
            stored, body = records[hit.sequence - block], hit.body
            if body == b"":
                _, body = reader.record(hit.sequence) or (stored, None)
            detail = describe(stored, body, pipeline)
            size = len(stored) + len(body or b"")
            if place < MOST_WITH_TEXTS and size <= room:
                room -= size
            else:
                detail = without_texts(detail)
            details[place] = detail
    return [details[place] for place in sorted(details)]


def _hits(
    reader: Reader, pipeline: Pipeline, query_filter: QueryFilter, on_block: Callable[[], None]
) -> list[_Hit]:
    limit, by_score = query_filter.limit, query_filter.failing == ("unfaithful",)
    best: list[_Hit] = []  # a heap with the first to go on top
    for block in reader.blocks(query_filter.since, query_filter.until):
        if not by_score and len(best) == limit and block.last_timestamp < best[0].rank:
            break
        on_block()
        for at, timestamp, badness in _matches(reader, pipeline, block, query_filter):
            sequence = block.first_sequence + at
            body = block.amendments.get(sequence)
            if body is not None and len(body) > _KEPT_BYTES:
                body = b""
            rank = badness if by_score else timestamp
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


def describe(stored: bytes, body: bytes | None, pipeline: Pipeline) -> QueryDetail:
    """One query with everything known of it.

    Args:
        stored: the record as the store holds it.
        body: its amendments as the store holds them.
        pipeline: whose signals are shown.
    """
    record = _decode_stored(stored)
    known = amendments.decode(body).known if body else Amendments()
    values = pipeline.observe([record], [known]).values[0]
    modes = [pipeline.catalogue.index("failure_mode", mode=mode) for mode in MODES]
    signals = {
        metric_key(column): float(value)
        for column, value in zip(pipeline.catalogue.columns, values, strict=True)
        if not np.isnan(value) and column.metric is not None and column.name != "failure_mode"
    }
    return QueryDetail(
        record=record,
        signals=signals,
        verdicts=known.verdicts,
        draw=known.draw,
        feedback=known.feedback or record.feedback,
        labels=known.labels,
        failure_mode=MODES[int(np.argmax(values[modes]))],
    )


def _matches(
    reader: Reader, pipeline: Pipeline, block: Block, query_filter: QueryFilter
) -> Iterator[tuple[int, float, float]]:
    """Positions, timestamps and unfaithfulness of the records of a block that fit."""
    observations = current(reader, pipeline, block)
    values, timestamps = observations.values, observations.timestamps
    fits = (timestamps >= query_filter.since) & (timestamps <= query_filter.until)
    if query_filter.pipeline:
        chosen = np.array([dims[0] == query_filter.pipeline for dims in observations.dims])
        fits &= chosen[observations.dim_index]
    if (readable := query_filter.readable) is not None:
        fits &= np.array([readable(dims[0]) for dims in observations.dims])[observations.dim_index]
    if query_filter.failing:
        named = failures(pipeline)
        columns, bad = zip(*(named[name] for name in query_filter.failing), strict=True)
        fits &= (values[:, columns] == np.array(bad)).any(axis=1)
    judged, human = (
        values[:, pipeline.catalogue.index("faithfulness", judge=judge)]
        for judge in ("grounding", "human")
    )
    score = np.where(np.isnan(human), judged, human)
    for at in np.flatnonzero(fits).tolist():
        best = float(score[at])
        if np.isnan(human[at]):
            best = _sampled_score(block.amendments.get(block.first_sequence + at), best)
        yield at, float(timestamps[at]), 1.0 - best


def _sampled_score(body: bytes | None, otherwise: float) -> float:
    """Score of the sampled judge for one query, if it was asked."""
    verdict = verdict_of(amendments.decode(body).known, SAMPLED_JUDGE) if body else None
    return otherwise if verdict is None or verdict.score is None else verdict.score


def current(reader: Reader, pipeline: Pipeline, block: Block) -> Observations:
    """Observations of a block, with later feedback, labels and verdicts in place."""
    observations = unpack(block.observations, pipeline.columns)
    if not block.amendments:
        return observations
    return replace(observations, values=_amended(reader, pipeline, block, observations.values))


def _amended(
    reader: Reader, pipeline: Pipeline, block: Block, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    layout = amendments.layout_of(pipeline.columns)
    values = values.copy()
    outdated: dict[int, Amendments] = {}  # by position: written when other signals were in force
    for sequence, body in block.amendments.items():
        at, amendment = sequence - block.first_sequence, amendments.decode(body)
        if amendment.layout == layout:
            amendments.apply(amendment, values[at])
        else:
            outdated[at] = amendment.known
    records = reader.records(block.first_sequence) if outdated else []
    if records:
        opened = [_decode(records[at]) for at in outdated]
        known = list(outdated.values())
        values[list(outdated)] = pipeline.observe(opened, known).values
    return values


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
