"""Records of a stored block: what was observed of them, and which a filter lets through."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.pipeline import Pipeline
from ragmon.queries.words import WordSearch
from ragmon.records import QueryRecord
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations, unpack
from ragmon.windows.series import Dims

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
    worst: bool = False  # likewise those judged least faithful
    same: tuple[tuple[str, str], ...] = ()  # field and value; an empty value: not recorded
    mode: str = ""  # failure mode; empty: any
    feedback: str = ""  # of ``criteria.FEEDBACK``; empty: any
    least_score: float | None = None  # faithfulness by whoever is believed most
    most_score: float | None = None
    words: WordSearch | None = None  # in question or answer
    after: tuple[float, int] | None = None  # rank and number of the last one that was listed


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
    changes: list[tuple[int, amendments.Moved]] = []
    for sequence, body in block.amendments.items():
        at, moved = sequence - block.first_sequence, amendments.decode_moved(body)
        if moved.layout == layout:
            changes.append((at, moved))
        else:
            outdated[at] = body
    amendments.apply_all(changes, values, places)
    records = reader.some_records(block.first_sequence, list(outdated)) if outdated else {}
    if records:
        opened = [_decode(record) for record in records.values()]
        known = [amendments.decode(outdated[at]).known for at in records]
        values[list(records)] = pipeline.observe(opened, known).values[:, columns]


def members_of(block: Block, query_filter: QueryFilter) -> NDArray[np.bool_] | None:
    """Mask of a block's records whose pipeline, version and slices fit; None: all do."""
    if takes_all(query_filter):
        return None
    counted = unpack(block.observations, ())
    members = fitting_dims(counted.slices, counted.dims, query_filter)
    return np.array(members, dtype=np.bool_)[counted.dim_index]


def takes_all(query_filter: QueryFilter) -> bool:
    """True where pipeline, version and tags do not matter."""
    return (
        not query_filter.pipeline
        and query_filter.version is None
        and query_filter.readable is None
        and not query_filter.tags
    )


def fitting_dims(
    slices: Sequence[str], every: Sequence[Dims], query_filter: QueryFilter
) -> list[bool]:
    """True for each of some dims whose pipeline, version and slices fit."""
    pipeline, version, readable = query_filter.pipeline, query_filter.version, query_filter.readable
    place = {name: at for at, name in enumerate(slices, 2)}
    sliced = [(place[name], value) for name, value in query_filter.tags if name in place]
    return [
        (not pipeline or dims[0] == pipeline)
        and (version is None or dims[1] == version)
        and all(dims[at] == value for at, value in sliced)
        and (readable is None or readable(dims[0]))
        for dims in every
    ]
