"""Records of a stored block: what was observed of them, and which a filter lets through."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.pipeline import Pipeline
from ragmon.records import QueryRecord
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations, unpack

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class QueryFilter(NamedTuple):
    """Selection of queries; ``failing`` are alternatives, none means any query."""

    since: float  # unix seconds, as is the next
    until: float  # exclusive
    pipeline: str  # empty: any
    failing: tuple[str, ...]
    limit: int
    readable: Callable[[str], bool] | None = None  # by pipeline; None: all
    version: str | None = None  # None: any
    tags: tuple[tuple[str, str], ...] = ()  # all of which fit; an empty value: without the tag
    slowest: bool = False  # first, instead of the newest


def current(
    reader: Reader, pipeline: Pipeline, block: Block, columns: Sequence[int] | None = None
) -> Observations:
    """Observations of a block, with later feedback, labels and verdicts in place.

    Args:
        reader: of the store.
        pipeline: whose signals they are.
        block: of the store.
        columns: distinct positions of the signals that are unpacked, in this order; None: all.
    """
    columns = range(len(pipeline.columns)) if columns is None else columns
    observations = unpack(block.observations, [pipeline.columns[at] for at in columns])
    if not block.amendments:
        return observations
    values = observations.values.copy()
    _amend(reader, pipeline, block, values, columns)
    return replace(observations, values=values)


def _amend(
    reader: Reader,
    pipeline: Pipeline,
    block: Block,
    values: NDArray[np.float64],
    columns: Sequence[int],
) -> None:
    layout = amendments.layout_of(pipeline.columns)
    places = np.full(len(pipeline.columns), -1)
    places[columns] = np.arange(len(columns))
    outdated: dict[int, bytes] = {}  # by position: written when other signals were in force
    for sequence, body in block.amendments.items():
        at, moved = sequence - block.first_sequence, amendments.decode_moved(body)
        if moved.layout == layout:
            amendments.apply(moved, values[at], places)
        else:
            outdated[at] = body
    records = reader.some_records(block.first_sequence, list(outdated)) if outdated else {}
    if records:
        opened = [_decode(record) for record in records.values()]
        known = [amendments.decode(outdated[at]).known for at in records]
        values[list(records)] = pipeline.observe(opened, known).values[:, columns]


def members_of(block: Block, query_filter: QueryFilter) -> NDArray[np.bool_] | None:
    """Mask of a block's records whose pipeline, version and slices fit; None: all do."""
    pipeline, version, readable = query_filter.pipeline, query_filter.version, query_filter.readable
    if not pipeline and version is None and readable is None and not query_filter.tags:
        return None
    counted = unpack(block.observations, ())
    place = {name: at for at, name in enumerate(counted.slices, 2)}
    sliced = [(place[name], value) for name, value in query_filter.tags if name in place]
    members = [
        (not pipeline or dims[0] == pipeline)
        and (version is None or dims[1] == version)
        and all(dims[at] == value for at, value in sliced)
        and (readable is None or readable(dims[0]))
        for dims in counted.dims
    ]
    return np.array(members, dtype=np.bool_)[counted.dim_index]


class _Tagged(Struct, frozen=True):
    tags: dict[str, str] | None = None


_decode_tags = msgspec.msgpack.Decoder(_Tagged).decode


def tagged(
    reader: Reader, block: Block, places: Sequence[int], tags: Sequence[tuple[str, str]]
) -> list[int]:
    """The places of records with these tags, which were no slices when they were counted."""
    stored = reader.some_records(block.first_sequence, places) if places else {}
    fits = []
    for at, body in stored.items():
        recorded = _decode_tags(body).tags or {}
        if all(recorded.get(name, "") == value for name, value in tags):
            fits.append(at)
    return fits
