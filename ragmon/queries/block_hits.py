"""The records of one block that a search finds."""

import heapq
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter, current, members_of
from ragmon.queries.contents import ContentSearch
from ragmon.queries.criteria import Criterion
from ragmon.stores import Block, Reader
from ragmon.windows.observations import Observations

_KEPT_BYTES = 64 << 10  # of amendments, while it is not known whether they are shown
_KEPT_RECORD_BYTES = 16 << 10  # likewise of a record that was read to find it
_RANK_FIRST = itemgetter(1, 0)
_ANY = QueryFilter(0.0, 0.0, "", (), 0)


class Hit(NamedTuple):
    """A record that fits; of two, the greater one comes first in the answer."""

    rank: float
    sequence: int  # with the rank, the place in the whole list
    block: int  # its first sequence number
    body: bytes | None  # its amendments; empty if they were not kept, and are read again
    record: bytes | None = None  # where it had to be read, and is small


class BlockHits:
    """Search of single blocks."""

    def __init__(
        self, reader: Reader, pipeline: Pipeline, asked: QueryFilter, criterion: Criterion
    ) -> None:
        self._reader = reader
        self._pipeline = pipeline
        self._asked = asked
        self._criterion = criterion

    def of(self, first_sequence: int) -> Iterator[Hit]:
        """The records of a block that fit."""
        fitting = self._fitting_in(first_sequence)
        if fitting is not None:
            yield from (fitting.hit(at, rank) for at, rank in fitting.ranked)

    def best(
        self, first_sequence: int, most: int, after: tuple[float, int] | None
    ) -> tuple[int, list[Hit]]:
        """The number of records of a block that fit, and the greatest of them.

        Args:
            first_sequence: of the block.
            most: hits that are asked for.
            after: rank and number above which none is asked for; None: all are.
        """
        fitting = self._fitting_in(first_sequence)
        if fitting is None:
            return 0, []
        ranked = fitting.ranked
        if after is not None:
            rank_after, at_after = after[0], after[1] - first_sequence
            ranked = [(at, rank) for at, rank in ranked if (rank, at) < (rank_after, at_after)]
        if len(ranked) > most:
            ranked = heapq.nlargest(most, ranked, key=_RANK_FIRST)
        return len(fitting.ranked), [fitting.hit(at, rank) for at, rank in ranked]

    def _fitting_in(self, first_sequence: int) -> "_Fitting | None":
        """The records of a block that fit; None where there are none for sure."""
        contained: dict[int, bytes] | None = None
        if ContentSearch.is_needed(self._asked):
            contained = ContentSearch(self._asked).places(self._reader, first_sequence)
            if not contained:
                return None
        # Without a criterion only those of the hits that are shown matter: read when they are.
        block = self._reader.block(first_sequence, with_amendments=not self._criterion.is_any)
        if block is None:
            return None  # damaged, which is counted
        members = members_of(block, self._asked)
        if members is not None and not members.any():
            return None  # its signals are not unpacked, nor its amendments and records read
        observations = current(self._reader, self._pipeline, block, self._criterion.columns)
        places = self._fitting(observations, members, contained)
        unsliced = [tag for tag in self._asked.tags if tag[0] not in observations.slices]
        if unsliced and places:
            contained = ContentSearch(_ANY, unsliced).places(self._reader, first_sequence)
            places = [at for at in places if at in contained]
        values, timestamps = observations.values, observations.timestamps
        ranked = self._criterion.ranked(block, values, timestamps, places)
        return _Fitting(block, ranked, contained, is_any=self._criterion.is_any)

    def _fitting(
        self,
        observations: Observations,
        members: NDArray[np.bool_] | None,
        contained: dict[int, bytes] | None,
    ) -> list[int]:
        """Places of the records whose time and observations fit.

        Args:
            observations: of the block, n records.
            members: (n,), true where pipeline, version and slices fit; None: everywhere.
            contained: by place, the records with the content asked for; None: all.
        """
        timestamps = observations.timestamps
        fits = (timestamps >= self._asked.since) & (timestamps < self._asked.until)
        if members is not None:
            fits &= members
        if contained is not None:
            fits &= np.isin(np.arange(len(fits)), [*contained])
        places: list[int] = np.flatnonzero(
            fits & self._criterion.fits(observations.values)
        ).tolist()
        return places


class _Fitting(NamedTuple):
    """Records of a block that fit."""

    block: Block
    ranked: list[tuple[int, float]]  # place and rank
    contained: dict[int, bytes] | None  # records that were read to find them, by place
    is_any: bool  # nothing that is observed of them was looked at, nor their amendments read

    def hit(self, at: int, rank: float) -> Hit:
        """The one at a place."""
        block, record = self.block, None if self.contained is None else self.contained[at]
        sequence = block.first_sequence + at
        body = block.amendments.get(sequence)
        if self.is_any or (body is not None and len(body) > _KEPT_BYTES):
            body = b""
        if record is not None and len(record) > _KEPT_RECORD_BYTES:
            record = None
        return Hit(rank, sequence, block.first_sequence, body, record)
