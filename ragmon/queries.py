"""The queries behind a number: by id, or the newest that failed in some way."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.pipeline import Pipeline
from ragmon.records import Amendments, QueryRecord
from ragmon.report import metric_key
from ragmon.signals.evidence import SAMPLED_JUDGE, verdict_of
from ragmon.signals.failure_mode import FAILED, MODES
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations, unpack

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class QueryFilter(NamedTuple):
    """Which queries; ``failing`` are alternatives, none means any query."""

    since: float
    until: float
    pipeline: str
    failing: tuple[str, ...]
    limit: int


def failures(pipeline: Pipeline) -> dict[str, tuple[int, float]]:
    """What ``failing=`` may name, as (column, value) of the observations."""
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


def newest(reader: Reader, pipeline: Pipeline, wanted: QueryFilter) -> list[dict[str, Any]]:
    """The newest queries that fit, newest first; of unfaithful ones the worst, worst first."""
    by_score = wanted.failing == ("unfaithful",)
    kept: list[tuple[float, int, Block, int]] = []  # a heap with the least wanted on top
    for block in reader.blocks(wanted.since, wanted.until):
        if not by_score and len(kept) == wanted.limit and block.last_timestamp < kept[0][0]:
            break
        for at, timestamp, badness in _matches(reader, pipeline, block, wanted):
            rank = badness if by_score else timestamp
            entry = (rank, block.first_sequence + at, block, at)
            if len(kept) < wanted.limit:
                heapq.heappush(kept, entry)
            else:
                heapq.heappushpop(kept, entry)
    opened: dict[int, list[bytes]] = {}
    found = []
    for _, sequence, block, at in sorted(kept, key=lambda entry: entry[:2], reverse=True):
        if block.first_sequence not in opened:
            opened[block.first_sequence] = reader.records(block.first_sequence)
        if at < len(opened[block.first_sequence]):  # it may have expired meanwhile
            stored = opened[block.first_sequence][at]
            found.append(describe(stored, block.amendments.get(sequence), pipeline))
    return found


def describe(stored: bytes, body: bytes | None, pipeline: Pipeline) -> dict[str, Any]:
    """One query with everything known of it."""
    record = _decode(stored)
    known = amendments.decode(body).known if body else Amendments()
    values = pipeline.observe([record], [known]).values[0]
    modes = [pipeline.catalogue.index("failure_mode", mode=mode) for mode in MODES]
    signals = {
        metric_key(column): float(value)
        for column, value in zip(pipeline.catalogue.columns, values, strict=True)
        if not np.isnan(value) and column.metric is not None and column.name != "failure_mode"
    }
    return {
        "record": msgspec.to_builtins(record) | {"pipeline": record.pipeline},  # the default, too
        "signals": signals,
        "verdicts": msgspec.to_builtins(known.verdicts),
        "draw": msgspec.to_builtins(known.draw),
        "feedback": msgspec.to_builtins(known.feedback) if known.feedback else record.feedback,
        "labels": msgspec.to_builtins(known.labels),
        "failure_mode": MODES[int(np.argmax(values[modes]))],
    }


def _matches(
    reader: Reader, pipeline: Pipeline, block: Block, wanted: QueryFilter
) -> Iterator[tuple[int, float, float]]:
    """Positions, timestamps and unfaithfulness of the records of a block that fit."""
    observations = current(reader, pipeline, block)
    values = observations.values
    fits = (observations.timestamps >= wanted.since) & (observations.timestamps <= wanted.until)
    if wanted.pipeline:
        chosen = np.array([dims[0] == wanted.pipeline for dims in observations.dims])
        fits &= chosen[observations.dim_index]
    if wanted.failing:
        named = failures(pipeline)
        columns, bad = zip(*(named[name] for name in wanted.failing), strict=True)
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
        yield at, float(observations.timestamps[at]), 1.0 - best


def _sampled_score(body: bytes | None, otherwise: float) -> float:
    """What the sampled judge says of one query, if it was asked."""
    verdict = verdict_of(amendments.decode(body).known, SAMPLED_JUDGE) if body else None
    return otherwise if verdict is None or verdict.score is None else verdict.score


def current(reader: Reader, pipeline: Pipeline, block: Block) -> Observations:
    """What the records of a block say, with later feedback, labels and verdicts in place."""
    found = unpack(block.observations, pipeline.columns)
    if not block.amendments:
        return found
    return replace(found, values=_amended(reader, pipeline, block, found.values))


def _amended(
    reader: Reader, pipeline: Pipeline, block: Block, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    layout = amendments.layout_of(pipeline.columns)
    found = {
        sequence - block.first_sequence: amendments.decode(body)
        for sequence, body in block.amendments.items()
    }
    values = values.copy()
    outdated: dict[int, Amendments] = {}
    for at, each in found.items():
        if each.layout == layout:
            amendments.apply(each, values[at])
        else:
            outdated[at] = each.known  # written when other signals were in force
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
