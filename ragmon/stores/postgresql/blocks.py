"""Reads of one shard's blocks, each of which goes on after a block that is damaged."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ragmon.stores import Hashes
from ragmon.stores.packing import BlockSpan, read_hashes, read_observations, read_records
from ragmon.stores.postgresql.bodies.reading import StoredBody, read_body
from ragmon.stores.postgresql.database import PostgresDatabase

_BLOCK = "block"
_HOLDING = (
    "SELECT first_sequence, records FROM @.blocks WHERE shard = %s AND first_sequence <= %s"
    " ORDER BY first_sequence DESC LIMIT 1"
)
_NEXT = (
    "SELECT first_sequence FROM @.blocks WHERE shard = %s AND first_sequence >= %s"
    " ORDER BY first_sequence LIMIT 256"
)
_HASHES = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp, hashes FROM @.blocks"
    " WHERE shard = %s AND first_sequence = %s"
)
_COUNTED = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp, hashes, observations"
    " FROM @.blocks WHERE shard = %s AND first_sequence >= %s ORDER BY first_sequence LIMIT 32"
)
_OBSERVATIONS = "SELECT observations FROM @.blocks WHERE shard = %s AND first_sequence = %s"


class CountedBlock(NamedTuple):
    """Packed observations of a block, and the number behind it."""

    first: int
    end: int
    observations: bytes | None  # None: they are damaged


class PostgresBlocks:
    """The blocks of a shard through one connection."""

    def __init__(self, database: PostgresDatabase, shard: int, *, is_quick: bool = False) -> None:
        """Make it.

        Args:
            database: to ask.
            shard: of the blocks.
            is_quick: for the writer's thread, which may not wait for an object store.
        """
        self._is_quick = is_quick
        self._db = database
        self._shard = shard
        self._damage = database.damage

    def from_sequence(self, sequence: int) -> Iterator[int]:
        """First sequence numbers of the blocks, in order: from the one that holds a record on.

        Blocks that are added meanwhile come too.
        """
        place = self.locate(sequence)
        begin = sequence if place is None else place[0]
        while rows := self._db.rows(_NEXT, self._shard, begin):
            for (first,) in rows:
                yield first
            begin = rows[-1][0] + 1

    def hashes(self, first: int) -> Hashes | None:
        """The hashes of one block; None where it is damaged or gone."""
        for *span, stored in self._db.rows(_HASHES, self._shard, first):
            with self._damage.tolerated(_BLOCK, first), self._db.decoded():
                return read_hashes(stored, BlockSpan(*span))
        return None

    def observations(self, first: int) -> bytes | None:
        """The packed observations of one block; None where it is damaged or gone."""
        for (stored,) in self._db.rows(_OBSERVATIONS, self._shard, first):
            with self._damage.tolerated(_BLOCK, first), self._db.decoded():
                return read_observations(stored, first)
        return None

    def counted(self, sequence: int) -> list[CountedBlock]:
        """The next blocks that begin there or later, in order; none at the end."""
        rows = self._db.rows(_COUNTED, self._shard, sequence)
        return [self._counted(BlockSpan(*row[:4]), row[4], row[5]) for row in rows]

    def locate(self, sequence: int) -> tuple[int, int] | None:
        """The block that holds a record: its first sequence number and how many it holds."""
        for first, records in self._db.rows(_HOLDING, self._shard, sequence):
            if sequence < first + records:
                return first, records
        return None

    def holds(self, sequence: int) -> bool:
        """True for a record that was not deleted."""
        return self.locate(sequence) is not None

    def holding(self, sequence: int) -> tuple[int, list[msgspec.Raw]] | None:
        """The block that holds a record, and its records; None where it is damaged or gone.

        The records are views of the whole block: what is kept of them must be copied.

        Raises:
            StoreBodiesError: they are in the object store, which does not give them now.
        """
        place = self.locate(sequence)
        if place is None:
            return None
        first, count = place
        with self._damage.tolerated(_BLOCK, first), self._db.decoded():
            stored = self.body(first)
            return None if stored is None else (first, read_records(stored.body, first, count))
        return None

    def body(self, first: int) -> StoredBody | None:
        """The sealed records of one block, wherever they are; None where it is gone.

        Raises:
            StoreBodiesError: they are in the object store, which does not give them now.
            StoreCorruptError: they are missing there, or damaged.
        """
        return read_body(self._db, self._shard, first, is_quick=self._is_quick)

    def some(self, sql: str, firsts: Sequence[int], *values: float) -> list[Any]:
        """Rows of a query over blocks with these first sequence numbers."""
        return self._db.rows(sql, self._shard, list(firsts), *values)

    def _counted(self, span: BlockSpan, hashes: bytes, stored: bytes) -> CountedBlock:
        observations = None
        with self._damage.tolerated(_BLOCK, span.first), self._db.decoded():
            observations = read_observations(stored, span.first)
        end = span.first + 1
        with suppress(TypeError, ValueError):  # else the number of records is not believed
            end = span.first + len(read_hashes(hashes, span))
        return CountedBlock(span.first, end, observations)
