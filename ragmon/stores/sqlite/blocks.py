"""Executor of the table of blocks, which reads on where others are damaged."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from ragmon.stores import Hashes
from ragmon.stores.damage import Damage
from ragmon.stores.packing import BlockSpan, read_hashes, read_observations, read_records
from ragmon.stores.sqlite.columns import ascending, checked, checked_row
from ragmon.stores.sqlite.database import decoded

_BLOCK = "block"
_HOLDING = (
    "SELECT first_sequence, records FROM blocks WHERE first_sequence <= ?"
    " ORDER BY first_sequence DESC LIMIT 1"
)
_NEXT = (
    "SELECT first_sequence FROM blocks NOT INDEXED WHERE first_sequence >= ?"
    " ORDER BY first_sequence LIMIT 256"
)
_HASHES = (
    "SELECT records, first_timestamp, last_timestamp, hashes FROM blocks WHERE first_sequence = ?"
)
_COUNTED = (
    "SELECT records, first_timestamp, last_timestamp, hashes, observations FROM blocks"
    " WHERE first_sequence = ?"
)
_BY_TIME = "SELECT first_sequence FROM blocks INDEXED BY blocks_by_time WHERE last_timestamp "


class Executor(Protocol):
    """A connection, or a cursor."""

    def execute(self, sql: str, values: tuple[object, ...] = ..., /) -> sqlite3.Cursor:
        """Run one statement."""
        ...


class BlockTable:
    """Reads of one connection that go on after a row, or an index, that is damaged."""

    def __init__(self, db: Executor, path: Path, damage: Damage) -> None:
        self._db = db
        self._path = path
        self._damage = damage

    def from_sequence(self, sequence: int) -> Iterator[int]:
        """First sequence numbers of the blocks, in order: from the one that holds a record on.

        Blocks that are added meanwhile come too.
        """
        place = self.locate(sequence)
        begin = sequence if place is None else place[0]
        with self._damage.tolerated("index", "blocks"), decoded(self._path):
            while keys := ascending(self._db.execute(_NEXT, (begin,)).fetchall(), begin - 1):
                for first in keys:
                    yield first
                    begin = first + 1
            return
        # The table cannot be walked through: its index by time names its rows as well.
        with self._damage.tolerated("index", "blocks_by_time"), decoded(self._path):
            keys = self._db.execute(_BY_TIME + "> -1e300").fetchall()
            yield from sorted(first for (first,) in keys if first >= begin)

    def since(self, timestamp: float) -> Iterator[int]:
        """First sequence numbers of the blocks with records since then, the newest first."""
        seen: set[int] = set()
        with self._damage.tolerated("index", "blocks_by_time"), decoded(self._path):
            for (first,) in self._db.execute(
                _BY_TIME + ">= ? ORDER BY last_timestamp DESC", (timestamp,)
            ):
                seen.add(first)
                yield first
            return
        with self._damage.tolerated("index", "blocks"), decoded(self._path):
            rows = checked(
                self._db.execute("SELECT last_timestamp, first_sequence FROM blocks NOT INDEXED")
            )
            newest = sorted((row for row in rows if row[0] >= timestamp), reverse=True)
            yield from (first for _, first in newest if first not in seen)

    def hashes(self, first: int) -> Hashes | None:
        """The hashes of one block; None where it is damaged or gone."""
        with self._damage.tolerated(_BLOCK, first), decoded(self._path):
            row = checked_row(self._db.execute(_HASHES, (first,)))
            return None if row is None else read_hashes(row[3], BlockSpan(first, *row[:3]))
        return None

    def observations(self, first: int) -> bytes | None:
        """The packed observations of one block; None where it is damaged or gone."""
        with self._damage.tolerated(_BLOCK, first), decoded(self._path):
            row = self._db.execute(
                "SELECT observations FROM blocks WHERE first_sequence = ?", (first,)
            ).fetchone()
            return None if row is None else read_observations(row[0], first)
        return None

    def counted(self, first: int) -> tuple[int, bytes] | None:
        """The number behind a block and its packed observations; None where they are damaged."""
        with self._damage.tolerated(_BLOCK, first), decoded(self._path):
            row = self._db.execute(_COUNTED, (first,)).fetchone()
            if row is None:
                return None
            *span, hashes, stored = row
            observations = read_observations(stored, first)
            with suppress(TypeError, ValueError):  # else the number of records is not believed
                return first + len(read_hashes(hashes, BlockSpan(first, *span))), observations
            return first + 1, observations
        return None

    def locate(self, sequence: int) -> tuple[int, int] | None:
        """The block that holds a record: its first sequence number and how many it holds."""
        with self._damage.tolerated("index", "blocks"), decoded(self._path):
            row = checked_row(self._db.execute(_HOLDING, (sequence,)))
            return row if row is not None and 0 <= sequence - row[0] < row[1] else None
        return None

    def holds(self, sequence: int) -> bool:
        """True for a record that was not deleted; also where that cannot be read.

        A query that is sent again must not count twice because its block is damaged.
        """
        with self._damage.tolerated("index", "blocks"), decoded(self._path):
            row = checked_row(self._db.execute(_HOLDING, (sequence,)))
            return row is not None and bool(sequence < row[0] + row[1])
        return True

    def holding(self, sequence: int) -> tuple[int, list[msgspec.Raw]] | None:
        """The block that holds a record, and its records; None where it is damaged or gone.

        The records are views of the whole block: what is kept of them must be copied.
        """
        place = self.locate(sequence)
        if place is None:
            return None
        first, count = place
        with self._damage.tolerated(_BLOCK, first), decoded(self._path):
            row = self._db.execute(
                "SELECT body FROM blocks WHERE first_sequence = ?", (first,)
            ).fetchone()
            if row is not None:
                return first, read_records(row[0], first, count)
        return None
