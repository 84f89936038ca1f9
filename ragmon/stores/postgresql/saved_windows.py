"""The last snapshot of the windows, and what was committed after it, through any connection."""

from collections.abc import Iterator

from ragmon.records import Position, Positions
from ragmon.stores import JournalEntry, Restatement
from ragmon.stores.compression import unzip
from ragmon.stores.packing import read_bucket, read_restatement
from ragmon.stores.postgresql.blocks import PostgresBlocks
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.positions import WINDOWS, read_positions
from ragmon.stores.sealing import unseal
from ragmon.windows.snapshot import SavedBucket

_TOTALS = "SELECT value FROM @.meta WHERE name = 'totals'"
_BUCKETS = "SELECT tier, bucket FROM @.windows ORDER BY tier, bucket"
_BUCKET = "SELECT body FROM @.windows WHERE tier = %s AND bucket = %s"
_SHARDS = "SELECT shard FROM @.shards ORDER BY shard"
_RESTATEMENTS = (
    "SELECT number, old, new FROM @.restatements WHERE shard = %s AND number > %s"
    " ORDER BY number LIMIT 16"
)


class PostgresWindows:
    """Implements ``load_windows`` and ``follow`` of the state store and of readers."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database
        self._damage = database.damage

    def load(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot: positions, totals, and the buckets from old to new.

        Buckets that are damaged are left out, and damaged totals are None.
        """
        return read_positions(self._db, WINDOWS), self._totals(), self._buckets()

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Packed observations, then restatements, committed after these positions.

        Between two of them others may commit: what they add comes too. Damaged rows are left out.
        """
        for (shard,) in self._db.rows(_SHARDS):
            yield from self.follow_shard(shard, after.get(shard, Position()))

    def follow_shard(self, shard: int, begin: Position) -> Iterator[JournalEntry]:
        """``follow`` of one shard."""
        table = PostgresBlocks(self._db, shard)
        sequence, number = begin.sequence, begin.restatement
        while True:
            while blocks := table.counted(sequence):
                for block in blocks:
                    sequence = block.end
                    if block.observations is not None:
                        position = Position(sequence, number)
                        yield JournalEntry(shard, position, block.observations)
            rows = self._db.rows(_RESTATEMENTS, shard, number)
            if not rows:
                return
            for number, old, new in rows:
                restatement = self._restatement(number, old, new)
                if restatement is not None:
                    yield JournalEntry(shard, Position(sequence, number), restatement)

    def _restatement(self, number: int, old: bytes, new: bytes) -> Restatement | None:
        with self._damage.tolerated("restatement", number), self._db.decoded():
            return read_restatement(old, new, number)
        return None

    def _totals(self) -> bytes | None:
        for (stored,) in self._db.rows(_TOTALS):
            with self._damage.tolerated("totals", "totals"), self._db.decoded():
                return unzip(unseal(stored, "meta", "totals"))
        return None

    def _buckets(self) -> Iterator[SavedBucket]:
        for tier, bucket in self._db.rows(_BUCKETS):
            for (body,) in self._db.rows(_BUCKET, tier, bucket):
                with self._damage.tolerated("windows", f"{tier}/{bucket}"), self._db.decoded():
                    yield SavedBucket(tier, bucket, read_bucket(body, tier, bucket))
