"""Questions, times and outcomes of stored queries, a block at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.detectors.losses import hit_columns
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter, current, fitting_dims
from ragmon.stores import Reader
from ragmon.topics.analysis import TypicalQuestion
from ragmon.topics.outcomes import OutcomeName

_Floats = NDArray[np.float64]
_SHOWN = 300  # characters of a typical question


class _AskedQuestion(Struct, frozen=True, gc=False):
    """The part of a record that topics are made of."""

    query: str | None = None
    query_id: str = ""
    user_id: str | None = None
    session_id: str | None = None
    embedding_sketch: bytes | None = None


_decode_all = msgspec.msgpack.Decoder(list[_AskedQuestion]).decode
_decode = msgspec.msgpack.Decoder(_AskedQuestion).decode


class BlockQuestions(NamedTuple):
    """Questions of the records of a block, and who asked them."""

    texts: list[str | None]
    askers: list[int]  # a number each; 0: not recorded
    sketches: dict[int, bytes]  # of embeddings, by position in the block


class TopicBlock(NamedTuple):
    """The queries of a block that fit."""

    sequences: list[int]
    texts: list[str | None]
    askers: list[int]
    sketches: dict[int, bytes]  # of embeddings, by position here
    timestamps: _Floats
    values: dict[OutcomeName, _Floats]  # NaN where unknown


class BlockPlan(NamedTuple):
    """The blocks that are read, from old to new, and the share of all that they are."""

    first_sequences: list[int]
    share: float


def plan(reader: Reader, since: float, until: float, most: int) -> BlockPlan:
    """Blocks of a stretch of time; evenly spaced ones where they hold more than so many queries."""
    blocks = [
        block
        for block in reader.block_times()
        if block.last_timestamp >= since and block.first_timestamp < until
    ]
    total = sum(block.records for block in blocks)
    if total <= most:
        return BlockPlan([block.first_sequence for block in blocks], 1.0)
    count = max(1, int(len(blocks) * most / total))
    chosen = [blocks[at * len(blocks) // count] for at in range(count)]
    read = sum(block.records for block in chosen)
    return BlockPlan([block.first_sequence for block in chosen], read / total)


def read_blocks(
    reader: Reader,
    pipeline: Pipeline,
    first_sequences: Sequence[int],
    asked: QueryFilter,
    on_block: Callable[[], None],
) -> Iterator[TopicBlock]:
    """The queries of some blocks that fit; repeats and what is damaged or gone are left out."""
    columns = _Columns(pipeline)
    for first in first_sequences:
        on_block()
        block, contents = reader.block(first), reader.contents(first)
        if block is None or contents is None:
            continue
        seen = current(reader, pipeline, block, columns.needed)
        questions = questions_of(contents)
        members = np.array(fitting_dims(seen.slices, seen.dims, asked), dtype=np.bool_)
        fits = members[seen.dim_index] & columns.is_first(seen.values)
        fits &= (seen.timestamps >= asked.since) & (seen.timestamps < asked.until)
        places = np.flatnonzero(fits)
        yield TopicBlock(
            [first + at for at in places.tolist()],
            [questions.texts[at] for at in places.tolist()],
            [questions.askers[at] for at in places.tolist()],
            _selected(questions.sketches, places),
            seen.timestamps[places],
            columns.outcomes(seen.values[places]),
        )


def questions_of(contents: tuple[bytes, dict[int, bytes]]) -> BlockQuestions:
    """The questions of a block, from its records and those that were written again."""
    body, revised = contents
    records = _decode_all(body)
    for at, record in revised.items():
        records[at] = _decode(record)
    return BlockQuestions(
        [record.query for record in records],
        [_asker(record) for record in records],
        {
            at: record.embedding_sketch
            for at, record in enumerate(records)
            if record.embedding_sketch is not None
        },
    )


def _selected(sketches: dict[int, bytes], places: NDArray[np.int64]) -> dict[int, bytes]:
    """Those at some places, by their position among these."""
    if not sketches:
        return {}
    return {to: sketches[at] for to, at in enumerate(places.tolist()) if at in sketches}


def _asker(record: _AskedQuestion) -> int:
    """A number for the person or session, from 1 to 2³²-1; 0: neither was recorded."""
    name = record.user_id or record.session_id
    if not name:
        return 0
    return xxhash.xxh32_intdigest(name.encode(errors="replace")) or 1


def typical_questions(reader: Reader, sequences: Sequence[int]) -> dict[int, TypicalQuestion]:
    """Questions by the sequence numbers of queries that ask them; what is gone is missing."""
    questions: dict[int, TypicalQuestion] = {}
    for sequence in sequences:
        stored = reader.record(sequence)
        if stored is None:
            continue
        record = _decode(stored[0])
        if record.query:
            questions[sequence] = TypicalQuestion(
                query_id=record.query_id, text=record.query[:_SHOWN]
            )
    return questions


class _Columns:
    """Positions of the observations that outcomes are made of."""

    def __init__(self, pipeline: Pipeline) -> None:
        index = pipeline.catalogue.index
        hits = [name for name in hit_columns(pipeline.columns) if name in pipeline.columns]
        self.needed = [
            index("zero_result"),
            index("negative_feedback"),
            index("grounding"),
            index("repeat"),
            *map(pipeline.columns.index, hits),
        ]

    @staticmethod
    def is_first(values: _Floats) -> NDArray[np.bool_]:
        """True for queries that repeat none before."""
        return np.asarray(values[:, 3] != 1.0)

    @staticmethod
    def outcomes(values: _Floats) -> dict[OutcomeName, _Floats]:
        """Outcomes of each query; the first kind of hit that is known counts."""
        hit = np.full(len(values), np.nan)
        for column in range(values.shape[1] - 1, 3, -1):
            hit = np.where(np.isnan(values[:, column]), hit, values[:, column])
        return {
            "hit_rate": hit,
            "zero_result": values[:, 0],
            "grounding": values[:, 2],
            "disliked": values[:, 1],
        }
