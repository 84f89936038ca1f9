"""Reading beside the writers, through connections of its own that are used again."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from ragmon.errors import StoreError
from ragmon.records import Position, Positions, number_of, sequence_of, shard_of
from ragmon.stores import Block, BlockTimes, Hashes, JournalEntry, StoredBlock
from ragmon.stores.damage import Damage
from ragmon.stores.facts_cache import FactsCache
from ragmon.stores.packing import read_bucket
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.saved_windows import PostgresWindows
from ragmon.stores.postgresql.shard_reads import ShardReads
from ragmon.stores.summaries import BlockOutline, DueSummary
from ragmon.windows.snapshot import SavedBucket

_MOST_IDLE = 4  # connections kept for the next reader
_FIRST_OUTLINES, _MOST_OUTLINES = 4, 128  # blocks whose outlines are read together
_AT_ONCE = 16  # blocks whose observations are read together

_SINCE = (
    "SELECT shard, first_sequence FROM @.blocks WHERE last_timestamp >= %s"
    " ORDER BY last_timestamp DESC, shard DESC, first_sequence DESC"
)
_SHARDS = "SELECT shard, next_sequence, last_restatement FROM @.shards ORDER BY shard"
_TIMES = (
    "SELECT shard, first_sequence, records, first_timestamp, last_timestamp FROM @.blocks"
    " ORDER BY shard, first_sequence"
)
_BUCKETS = (
    "SELECT bucket, body FROM @.windows WHERE tier = %s AND bucket BETWEEN %s AND %s"
    " ORDER BY bucket"
)


class ReaderConnections:
    """Connections for readers, opened when they are needed; for any thread."""

    def __init__(self, access: DatabaseAccess, schema: str, damage: Damage) -> None:
        self._access = access
        self._schema = schema
        self._damage = damage
        self.facts = FactsCache()
        self._idle: list[PostgresDatabase] = []
        self._closed = False
        self._lock = threading.Lock()

    def take(self) -> PostgresDatabase:
        """One that nobody else uses."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return PostgresDatabase(self._access, self._schema, self._damage)

    def give_back(self, database: PostgresDatabase) -> None:
        """Keep it for the next reader, or close it."""
        with self._lock:
            if database.is_open and not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(database)
                return
        database.close()

    def close(self) -> None:
        """Close those that nobody uses; the others when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()


class PostgresReader:
    """See ``Reader`` for what the methods promise; it reads every shard."""

    def __init__(self, connections: ReaderConnections) -> None:
        self._connections = connections
        self._db = connections.take()
        self.damage = self._db.damage
        self._windows = PostgresWindows(self._db)
        self._shards: dict[int, ShardReads] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def moment(self) -> AbstractContextManager[None]:
        """See the store as it is now, whatever is committed meanwhile."""
        return self._db.moment()

    def positions(self) -> Positions:
        """The place behind everything that was committed, by shard."""
        rows = self._db.rows(_SHARDS)
        return {shard: Position(sequence, restatement) for shard, sequence, restatement in rows}

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, the one with the newest record first.

        Until the last of them is done with, the reader sees one moment.
        """
        with self.moment():
            rest = iter(self._since(since))
            while numbers := [*itertools.islice(rest, _AT_ONCE)]:
                rows: dict[int, Any] = {}
                for shard, firsts in _by_shard(numbers).items():
                    some = self._shard(shard).block_rows(firsts, until)
                    rows |= {number_of(shard, first): row for first, row in some.items()}
                for number in numbers:
                    if (row := rows.get(number)) is not None:
                        block = self._shard(shard_of(number)).block_of(row)
                        if block is not None:
                            yield _numbered(block, shard_of(number))

    def outlines(
        self, since: float, until: float, *, with_facts: bool = True
    ) -> Iterator[BlockOutline]:
        """Blocks with records in that time, unopened, the one with the newest record first."""
        length = _FIRST_OUTLINES
        rest = iter(self._since(since))
        while numbers := [*itertools.islice(rest, length)]:
            some: dict[int, BlockOutline] = {}
            for shard, firsts in _by_shard(numbers).items():
                outlines = self._shard(shard).outlines(firsts, until, with_facts=with_facts)
                for first, outline in outlines.items():
                    number = number_of(shard, first)
                    some[number] = outline._replace(first_sequence=number)
            yield from (some[number] for number in numbers if number in some)
            length = min(2 * length, _MOST_OUTLINES)

    def block(self, first_sequence: int, *, with_amendments: bool = True) -> Block | None:
        """One block; None where it is damaged or gone."""
        shard, first = shard_of(first_sequence), sequence_of(first_sequence)
        block = self._shard(shard).block(first, with_amendments=with_amendments)
        return None if block is None else _numbered(block, shard)

    def keys(self, first_sequences: Sequence[int]) -> dict[int, bytes]:
        """The filters over words and ids of some blocks; those that have none are missing."""
        return {
            number_of(shard, first): keys
            for shard, firsts in _by_shard(first_sequences).items()
            for first, keys in self._shard(shard).keys(firsts).items()
        }

    def contents(self, first_sequence: int) -> tuple[bytes, dict[int, bytes]] | None:
        """The records of one block as one msgpack array, and by place those mapped again since."""
        return self._shard_with(first_sequence).contents(sequence_of(first_sequence))

    def stored_bytes(self, first_sequence: int) -> int:
        """Bytes that one block takes."""
        return self._shard_with(first_sequence).stored_bytes(sequence_of(first_sequence))

    def due_summaries(self, layout: int, below: int, limit: int) -> list[DueSummary]:
        """Blocks of a shard below a number without a summary of this layout, the newest first."""
        shard = shard_of(below)
        due = self._shard(shard).due_summaries(layout, sequence_of(below), limit)
        return [each._replace(first_sequence=number_of(shard, each.first_sequence)) for each in due]

    def records(self, first_sequence: int) -> list[bytes]:
        """The records of one block."""
        return self._shard_with(first_sequence).records(sequence_of(first_sequence))

    def some_records(self, first_sequence: int, places: Sequence[int]) -> dict[int, bytes]:
        """Records of one block by their place in it; those that are damaged or gone are missing."""
        shard = self._shard_with(first_sequence)
        return shard.some_records(sequence_of(first_sequence), places)

    def record(self, sequence: int) -> tuple[bytes, bytes | None] | None:
        """One record with its amendments."""
        return self._shard_with(sequence).record(sequence_of(sequence))

    def amendments(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Amendments of those records that have any, save those that are damaged."""
        return {
            number_of(shard, at): body
            for shard, some in _by_shard(sequences).items()
            for at, body in self._shard(shard).amendments(some).items()
        }

    def hashes_from(self, sequence: int) -> tuple[int, Hashes] | None:
        """First number and id hashes of the block with that record, or of the next block."""
        for shard, begin in self._from(sequence):
            block = self._shard(shard).hashes_from(begin)
            if block is not None:
                return number_of(shard, block[0]), block[1]
        return None

    def block_times(self) -> list[BlockTimes]:
        """Place and times of every block, in the order of their numbers."""
        rows = self._db.rows(_TIMES)
        return [BlockTimes(number_of(shard, first), *rest) for shard, first, *rest in rows]

    def stored_block(self, sequence: int) -> StoredBlock | None:
        """The block with that record, or the next one, as it is stored."""
        for shard, begin in self._from(sequence):
            block = self._shard(shard).stored_block(begin)
            if block is not None:
                return block._replace(first_sequence=number_of(shard, block.first_sequence))
        return None

    def saved_buckets(self, tier: int, first: int, last: int) -> Iterator[SavedBucket]:
        """The saved buckets ``first`` to ``last`` of a tier, from old to new."""
        for bucket, body in self._db.rows(_BUCKETS, tier, first, last):
            with self.damage.tolerated("windows", f"{tier}/{bucket}"), self._db.decoded():
                yield SavedBucket(tier, bucket, read_bucket(body, tier, bucket))

    def load_windows(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot, as a store gives it to its writer."""
        return self._windows.load()

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Packed observations, then restatements, committed after these positions."""
        return self._windows.follow(after)

    def backup(self, target: Path) -> None:
        """Refuse: the database has backups of its own.

        Raises:
            StoreError: always.
        """
        raise StoreError(
            f"{target} was not written: the store is in PostgreSQL",
            hint="Back up its schema with the database, for example by pg_dump or WAL archiving",
        )

    def close(self) -> None:
        """Give the connection back."""
        self._connections.give_back(self._db)

    def _since(self, timestamp: float) -> list[int]:
        """First numbers of the blocks with records since then, the newest first."""
        return [number_of(shard, first) for shard, first in self._db.rows(_SINCE, timestamp)]

    def _from(self, number: int) -> Iterator[tuple[int, int]]:
        """Shards from the one of a record on, and where to begin in each."""
        shard = shard_of(number)
        yield shard, sequence_of(number)
        later = [other for other in self.positions() if other > shard]
        yield from ((other, 0) for other in later)

    def _shard_with(self, number: int) -> ShardReads:
        return self._shard(shard_of(number))

    def _shard(self, shard: int) -> ShardReads:
        reads = self._shards.get(shard)
        if reads is None:
            reads = self._shards[shard] = ShardReads(self._db, shard, self._connections.facts)
        return reads


def _by_shard(numbers: Sequence[int]) -> dict[int, list[int]]:
    """Sequence numbers within each shard, of some numbers."""
    shards: dict[int, list[int]] = {}
    for number in numbers:
        shards.setdefault(shard_of(number), []).append(sequence_of(number))
    return shards


def _numbered(block: Block, shard: int) -> Block:
    """A block of a shard, with the numbers that its records have among those of all shards."""
    if not shard:
        return block
    return block._replace(
        first_sequence=number_of(shard, block.first_sequence),
        amendments={number_of(shard, at): body for at, body in block.amendments.items()},
    )
