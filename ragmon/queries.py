"""The queries behind a number: by id, or the newest that failed in some way."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragmon.pipeline import Amendments, Pipeline, effective
from ragmon.records import QueryRecord
from ragmon.signals.facts import extract
from ragmon.signals.failure_mode import MODES, diagnose
from ragmon.stores import Block, Reader
from ragmon.windows.observations import unpack

_decode = msgspec.msgpack.Decoder(QueryRecord).decode
_decode_amendments = msgspec.msgpack.Decoder(Amendments).decode


class Wanted(NamedTuple):
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
        for name in ("zero_result", "error", "slow", "uncited", "low_score", "cited_unretrieved")
    }
    named["disliked"] = (catalogue.index("negative_feedback"), 1.0)
    named["miss"] = (catalogue.index("hit", k=most, evidence="label"), 0.0)
    for mode in MODES[:3]:
        named[mode] = (catalogue.index("failure_mode", mode=mode), 1.0)
    return named


def newest(reader: Reader, pipeline: Pipeline, wanted: Wanted) -> list[dict[str, Any]]:
    """The newest queries that fit, newest first."""
    kept: list[tuple[float, int, Block, int]] = []  # a heap with the oldest on top
    for block in reader.blocks(wanted.since, wanted.until):
        if len(kept) == wanted.limit and block.last_timestamp < kept[0][0]:
            break
        for at, timestamp in _matches(reader, pipeline, block, wanted):
            entry = (timestamp, block.first_sequence + at, block, at)
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


def describe(stored: bytes, amended: bytes | None, pipeline: Pipeline) -> dict[str, Any]:
    """One query with everything known of it."""
    record = _decode(stored)
    known = _decode_amendments(amended) if amended else Amendments()
    seen = effective(record, known)
    values = pipeline.catalogue.observe([seen])[0]
    facts = extract([seen], pipeline.catalogue.options.relevant_score)
    signals = {
        name: float(value)
        for name, value in zip(pipeline.columns, values, strict=True)
        if not np.isnan(value) and not name.startswith(("failure_mode", "latency_ms"))
    }
    return {
        "record": msgspec.to_builtins(record),
        "signals": signals,
        "verdicts": [],
        "feedback": msgspec.to_builtins(known.feedback) if known.feedback else record.feedback,
        "labels": msgspec.to_builtins(known.labels),
        "failure_mode": MODES[int(diagnose(facts, pipeline.catalogue.options)[0])],
    }


def _matches(
    reader: Reader, pipeline: Pipeline, block: Block, wanted: Wanted
) -> Iterator[tuple[int, float]]:
    """Positions and timestamps of the records of a block that fit."""
    observations = unpack(block.observations, pipeline.columns)
    values = observations.values
    if block.amendments:
        values = _amended(reader, pipeline, block, values)
    fits = (observations.timestamps >= wanted.since) & (observations.timestamps <= wanted.until)
    if wanted.pipeline:
        chosen = np.array([dims[0] == wanted.pipeline for dims in observations.dims])
        fits &= chosen[observations.dim_index]
    if wanted.failing:
        named = failures(pipeline)
        columns, bad = zip(*(named[name] for name in wanted.failing), strict=True)
        fits &= (values[:, columns] == np.array(bad)).any(axis=1)
    for at in np.flatnonzero(fits).tolist():
        yield at, float(observations.timestamps[at])


def _amended(
    reader: Reader, pipeline: Pipeline, block: Block, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The observations with later feedback and labels in place."""
    records = reader.records(block.first_sequence)
    if not records:
        return values
    positions = [sequence - block.first_sequence for sequence in block.amendments]
    known = [_decode_amendments(body) for body in block.amendments.values()]
    seen = [
        effective(_decode(records[at]), each) for at, each in zip(positions, known, strict=True)
    ]
    values = values.copy()
    values[positions] = pipeline.catalogue.observe(seen)
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
