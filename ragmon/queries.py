"""Queries behind a number: by id, or the newest that failed in some way."""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.api_schema import QueryDetail, StoredQuery
from ragmon.pipeline import Pipeline
from ragmon.records import Amendments, QueryRecord
from ragmon.report import metric_key
from ragmon.signals.evidence import SAMPLED_JUDGE, verdict_of
from ragmon.signals.failure_mode import FAILED, MODES
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations, unpack

_decode = msgspec.msgpack.Decoder(QueryRecord).decode
_decode_stored = msgspec.msgpack.Decoder(StoredQuery).decode


class QueryFilter(NamedTuple):
    """Selection of queries; ``failing`` are alternatives, none means any query."""

    since: float  # unix seconds, as is the next
    until: float
    pipeline: str  # empty: any
    failing: tuple[str, ...]
    limit: int


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


def newest(reader: Reader, pipeline: Pipeline, query_filter: QueryFilter) -> list[QueryDetail]:
    """The newest queries that fit, newest first; of unfaithful ones the worst, worst first."""
    limit, by_score = query_filter.limit, query_filter.failing == ("unfaithful",)
    best: list[tuple[float, int, Block, int]] = []  # a heap with the first to go on top
    for block in reader.blocks(query_filter.since, query_filter.until):
        if not by_score and len(best) == limit and block.last_timestamp < best[0][0]:
            break
        for at, timestamp, badness in _matches(reader, pipeline, block, query_filter):
            rank = badness if by_score else timestamp
            entry = (rank, block.first_sequence + at, block, at)
            if len(best) < limit:
                heapq.heappush(best, entry)
            else:
                heapq.heappushpop(best, entry)
    records: dict[int, list[bytes]] = {}  # by block
    details = []
    for _, sequence, block, at in sorted(best, key=lambda entry: entry[:2], reverse=True):
        if block.first_sequence not in records:
            records[block.first_sequence] = reader.records(block.first_sequence)
        if at < len(records[block.first_sequence]):  # it may have expired meanwhile
            stored = records[block.first_sequence][at]
            details.append(describe(stored, block.amendments.get(sequence), pipeline))
    return details


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
