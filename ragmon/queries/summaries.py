"""Summaries of stored blocks: made in the background, so that searches leave most blocks closed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.pipeline import Pipeline
from ragmon.queries import key_filter
from ragmon.queries.blocks import QueryFilter, current, fitting_dims, takes_all
from ragmon.queries.contents import decode_contents, filter_keys, identity_keys
from ragmon.queries.criteria import Criterion, RankRange, scores_of
from ragmon.queries.words import add_keys
from ragmon.stores import Reader, amendments
from ragmon.stores.summaries import BlockOutline, SummaryRow
from ragmon.windows.observations import Observations
from ragmon.windows.series import Dims

_MOST_SHARE = 0.025
"""Part of a block's stored bytes that its filter may take; the rest of its summary takes less."""
_LEAST_BYTES = 256  # of the filter of a small block
_MOST_PIPELINES = 64  # whose ranges a block's facts hold

_UNKNOWN = float("nan")
_Floats = NDArray[np.float64]


class _Facts(Struct, array_like=True, frozen=True):
    """Everything of a block that its observations tell, with what came later in place."""

    slices: tuple[str, ...]
    dims: list[Dims]
    counts: list[int]  # of records by dims
    low: bytes  # float64, by column
    high: bytes
    scores: tuple[float, float] | None  # None: nobody judged
    ranges: dict[str, RankRange]  # by pipeline; empty: they are too many


class _ReadFacts(Struct, array_like=True, frozen=True):
    """The same as it is read: the dims, of which there may be hundreds, only where asked for."""

    slices: tuple[str, ...]
    dims: msgspec.Raw
    counts: msgspec.Raw
    low: bytes
    high: bytes
    scores: tuple[float, float] | None
    ranges: msgspec.Raw = msgspec.Raw(b"\x80")  # none: it was written before there were any


class BlockFacts(NamedTuple):
    """The same, to compute with."""

    slices: tuple[str, ...]
    raw_dims: msgspec.Raw
    raw_counts: msgspec.Raw
    low: _Floats
    high: _Floats
    scores: tuple[float, float] | None
    raw_ranges: msgspec.Raw

    @property
    def dims(self) -> list[Dims]:
        """Each combination of pipeline, version and slices that the block holds.

        Raises:
            msgspec.MsgspecError: they are damaged.
        """
        return _decode_dims(self.raw_dims)

    @property
    def counts(self) -> list[int]:
        """Records by dims.

        Raises:
            msgspec.MsgspecError: they are damaged.
        """
        return _decode_counts(self.raw_counts)

    @property
    def ranges(self) -> dict[str, RankRange]:
        """By pipeline; empty where they are not known.

        Raises:
            msgspec.MsgspecError: they are damaged.
        """
        return _decode_ranges(self.raw_ranges)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_ReadFacts).decode
_decode_dims = msgspec.msgpack.Decoder(list[Dims]).decode
_decode_counts = msgspec.msgpack.Decoder(list[int]).decode
_decode_ranges = msgspec.msgpack.Decoder(dict[str, RankRange]).decode


def read_facts(packed: bytes, columns: int) -> BlockFacts:
    """The facts of a block.

    Raises:
        ValueError: they are damaged.
        msgspec.MsgspecError: likewise.
    """
    facts = _decode(packed)
    low, high = np.frombuffer(facts.low), np.frombuffer(facts.high)
    if len(low) != columns or len(high) != columns:
        raise ValueError("the parts of a block's facts do not fit together")
    return BlockFacts(facts.slices, facts.dims, facts.counts, low, high, facts.scores, facts.ranges)


def summarize(
    reader: Reader, pipeline: Pipeline, first_sequence: int, *, with_keys: bool = True
) -> SummaryRow | None:
    """The summary of a block; None where it is damaged or gone.

    Args:
        reader: of the store.
        pipeline: whose signals are summed up.
        first_sequence: of the block.
        with_keys: also of the words and ids that its records hold.
    """
    block = reader.block(first_sequence)
    if block is None:
        return None
    observations = current(reader, pipeline, block)
    values, columns = observations.values, pipeline.catalogue
    judged = [columns.index("faithfulness", judge=judge) for judge in ("grounding", "human")]
    scores = np.array(scores_of(block, values[:, judged], [*range(len(values))]))
    known = scores[~np.isnan(scores)]
    counts = np.bincount(observations.dim_index, minlength=len(observations.dims))
    facts = _Facts(
        observations.slices,
        observations.dims,
        counts.tolist(),
        np.fmin.reduce(values, axis=0).tobytes(),
        np.fmax.reduce(values, axis=0).tobytes(),
        (float(known.min()), float(known.max())) if len(known) else None,
        _ranges(observations, scores, values[:, columns.index("latency_ms", stage="total")]),
    )
    keys = _keys(reader, first_sequence) if with_keys else None
    return SummaryRow(first_sequence, layout_of(pipeline), _encode(facts), keys)


def _ranges(
    observations: Observations, scores: _Floats, latencies: _Floats
) -> dict[str, RankRange]:
    """Extremes by pipeline; empty when they are too many.

    Args:
        observations: n of a block.
        scores: (n,), NaN for unknown.
        latencies: likewise.
    """
    names = [dims[0] for dims in observations.dims]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if not numbers or len(numbers) > _MOST_PIPELINES:
        return {}
    pipelines = np.array([numbers[name] for name in names])[observations.dim_index]
    order = np.argsort(pipelines, kind="stable")
    starts = np.searchsorted(pipelines[order], np.arange(len(numbers)))
    scores, latencies = scores[order], latencies[order]
    extremes = (
        np.fmin.reduceat(scores, starts),
        np.fmax.reduceat(scores, starts),
        np.fmax.reduceat(latencies, starts),
    )
    return {
        name: RankRange(*row)
        for name, row in zip(numbers, np.column_stack(extremes).tolist(), strict=True)
    }


def layout_of(pipeline: Pipeline) -> int:
    """Tells whether facts are of the signals in force, and of the slices."""
    return amendments.layout_of((*pipeline.columns, "", *pipeline.slices))


def _keys(reader: Reader, first_sequence: int) -> bytes | None:
    """Filter over words and ids of a block; its size is a small part of the block's."""
    read = reader.contents(first_sequence)
    if read is None:
        return None
    body, revised = read
    keys: set[str] = set()
    every = decode_contents(body)
    for record in revised.values():
        every += decode_contents(b"\x91" + record)  # a list of one
    for contents in every:
        keys.update(identity_keys(contents))
        for text in (contents.query, contents.answer):
            if text:
                add_keys(text, keys)
    most = max(_LEAST_BYTES, int(_MOST_SHARE * reader.stored_bytes(first_sequence)))
    return key_filter.build(keys, most)


class BlockChoice:
    """Choice of the blocks that are opened, by their summaries."""

    def __init__(self, pipeline: Pipeline, query_filter: QueryFilter, criterion: Criterion) -> None:
        self._layout = layout_of(pipeline)
        self._columns = len(pipeline.columns)
        self._latency = pipeline.catalogue.index("latency_ms", stage="total")
        self._filter = query_filter
        self._criterion = criterion
        self._digests: dict[tuple[str, ...], list[int]] = {}  # by slices

    def facts(self, outline: BlockOutline) -> BlockFacts | None:
        """The facts of a block, unless they are missing or of other signals."""
        if outline.facts is None or outline.layout != self._layout:
            return None
        return read_facts(outline.facts, self._columns)

    @property
    def looks_at_facts(self) -> bool:
        """False where only what a block's filter holds decides."""
        asked = self._filter
        is_told = asked.same or asked.words
        return not (is_told and self._criterion.is_any and takes_all(asked))

    def bound(self, facts: BlockFacts | None, outline: BlockOutline) -> float | None:
        """A rank that no record of a block exceeds; None where no record fits.

        Args:
            facts: of the block, if they are known.
            outline: of the block.
        """
        criterion = self._criterion
        if facts is None:
            return outline.last_timestamp if criterion.order == "newest" else math.inf
        extremes = self._range(facts)
        if not criterion.may_fit(facts.low, facts.high, extremes):
            return None
        if not takes_all(self._filter) and not any(
            fitting_dims(facts.slices, facts.dims, self._filter)
        ):
            return None
        return criterion.best_rank(outline.last_timestamp, extremes)

    def needed_keys(self, facts: BlockFacts | None) -> Sequence[int]:
        """Digests of the keys that a block's filter holds if one of its records fits.

        Args:
            facts: of the block; where they are not known, any tag may be a slice.
        """
        slices = tuple(name for name, _ in self._filter.tags) if facts is None else facts.slices
        if slices not in self._digests:
            needed = filter_keys(self._filter, slices)
            self._digests[slices] = [key_filter.digest_of(key) for key in needed]
        return self._digests[slices]

    def _range(self, facts: BlockFacts) -> RankRange:
        """Extremes of the records whose pipeline fits, as closely as they are known."""
        low, high = facts.scores or (_UNKNOWN, _UNKNOWN)
        whole = RankRange(low, high, float(facts.high[self._latency]))
        pipeline, readable = self._filter.pipeline, self._filter.readable
        if not self._criterion.is_ranged or not (pipeline or readable) or not facts.ranges:
            return whole
        fitting = [
            known
            for name, known in facts.ranges.items()
            if (not pipeline or name == pipeline) and (readable is None or readable(name))
        ]
        if not fitting:
            return RankRange(_UNKNOWN, _UNKNOWN, _UNKNOWN)
        lows, highs, latencies = zip(*fitting, strict=True)
        return RankRange(
            float(np.fmin.reduce(lows)),
            float(np.fmax.reduce(highs)),
            float(np.fmax.reduce(latencies)),
        )

    def count(self, facts: BlockFacts | None, outline: BlockOutline) -> int | None:
        """Number of the records of a block that fit; None where it has to be opened."""
        asked = self._filter
        within = asked.since <= outline.first_timestamp and outline.last_timestamp < asked.until
        if facts is None or not within or not self._criterion.is_any:
            return None
        if asked.same or asked.words or any(name not in facts.slices for name, _ in asked.tags):
            return None
        fits = fitting_dims(facts.slices, facts.dims, asked)
        return sum(count for count, fit in zip(facts.counts, fits, strict=True) if fit)
