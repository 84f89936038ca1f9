"""The last snapshot of the windows, and what was committed after it, through any connection."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores import JournalEntry, Restatement
from ragmon.stores.compression import unzip
from ragmon.stores.damage import Damage
from ragmon.stores.packing import read_bucket, read_restatement
from ragmon.stores.sealing import unseal
from ragmon.stores.sqlite.blocks import BlockTable, Executor
from ragmon.stores.sqlite.columns import ascending, checked
from ragmon.stores.sqlite.database import decoded
from ragmon.windows.snapshot import SavedBucket

_META = "SELECT CAST(value AS BLOB) FROM meta WHERE name = ?"
_BUCKETS = "SELECT tier, bucket FROM windows ORDER BY tier, bucket"
_BUCKET = "SELECT body FROM windows WHERE tier = ? AND bucket = ?"
_NEXT_RESTATEMENTS = "SELECT number FROM restatements WHERE number > ? ORDER BY number LIMIT 16"
_RESTATEMENT = "SELECT old, new FROM restatements WHERE number = ?"


class SavedWindows:
    """Implements ``load_windows`` and ``follow`` of state stores and readers."""

    def __init__(self, db: Executor, path: Path, damage: Damage, table: BlockTable) -> None:
        self._db = db
        self._path = path
        self._damage = damage
        self._table = table

    def position(self) -> Position:
        """The records and restatements that the snapshot has counted.

        Raises:
            StoreCorruptError: it was changed.
        """
        stored = self._meta("position")
        with decoded(self._path):
            return msgspec.json.decode(stored, type=Position) if stored else Position()

    def totals(self) -> bytes | None:
        """The cumulative sums; None where there are none, or they are damaged."""
        with self._damage.tolerated("totals", "totals"), decoded(self._path):
            stored = self._meta("totals")
            return None if stored is None else unzip(stored)
        return None

    def buckets(self) -> Iterator[SavedBucket]:
        """Every bucket, from old to new; those that are damaged are left out."""
        keys: list[tuple[int, int]] = []
        with self._damage.tolerated("index", "windows"), decoded(self._path):
            keys = checked(self._db.execute(_BUCKETS))
        for tier, bucket in keys:
            with self._damage.tolerated("windows", f"{tier}/{bucket}"), decoded(self._path):
                for row in checked(self._db.execute(_BUCKET, (tier, bucket))):
                    yield SavedBucket(tier, bucket, read_bucket(row[0], tier, bucket))

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Packed observations, then restatements, committed after these positions.

        Between two of them others may commit: what they add comes too. Damaged rows are left out.
        """
        begin = after.get(ONLY_SHARD, Position())
        sequence, number = begin.sequence, begin.restatement
        while True:
            for first in self._table.from_sequence(sequence):
                if first >= sequence:
                    sequence = first + 1
                    if (counted := self._table.counted(first)) is not None:
                        sequence, observations = counted
                        yield JournalEntry(ONLY_SHARD, Position(sequence, number), observations)
            numbers: list[int] = []
            with self._damage.tolerated("index", "restatements"), decoded(self._path):
                rows = checked(self._db.execute(_NEXT_RESTATEMENTS, (number,)))
                numbers = ascending(rows, number)
            if not numbers:
                return
            for number in numbers:
                restatement = self._restatement(number)
                if restatement is not None:
                    yield JournalEntry(ONLY_SHARD, Position(sequence, number), restatement)

    def _restatement(self, number: int) -> Restatement | None:
        with self._damage.tolerated("restatement", number), decoded(self._path):
            rows = checked(self._db.execute(_RESTATEMENT, (number,)))
            return read_restatement(rows[0][0], rows[0][1], number) if rows else None
        return None

    def _meta(self, name: str) -> bytes | None:
        with decoded(self._path):
            rows = checked(self._db.execute(_META, (name,)))
            return unseal(rows[0][0], "meta", name) if rows else None
