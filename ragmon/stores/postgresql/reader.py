"""Reading beside the writer, through connections of its own that are used again."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from ragmon.errors import StoreError
from ragmon.records import ONLY_SHARD, Positions
from ragmon.stores import Block, BlockTimes, Hashes, JournalEntry, StoredBlock, amendments
from ragmon.stores.compression import unzip
from ragmon.stores.damage import Damage
from ragmon.stores.facts_cache import FactsCache
from ragmon.stores.packing import read_amendment, read_bucket, read_observations
from ragmon.stores.postgresql.blocks import PostgresBlocks
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.postgresql.saved_windows import PostgresWindows
from ragmon.stores.sealing import unseal
from ragmon.stores.stored_records import StoredRecords
from ragmon.stores.summaries import BlockOutline, DueSummary
from ragmon.windows.snapshot import SavedBucket

_MOST_IDLE = 4  # connections kept for the next reader
_FIRST_OUTLINES, _MOST_OUTLINES = 4, 128  # blocks whose outlines are read together
_AT_ONCE = 16  # blocks whose observations are read together

_BLOCKS = (
    "SELECT first_sequence, records, last_timestamp, observations FROM @.blocks WHERE shard = %s"
    " AND first_sequence = ANY(%s::bigint[]) AND first_timestamp <= %s"
)
_OUTLINES = (
    "SELECT block.first_sequence, block.records, first_timestamp, last_timestamp,"
    " coalesce(facts.layout, 0), facts.body FROM @.blocks AS block LEFT JOIN @.block_facts AS facts"
    " ON facts.shard = block.shard AND facts.first_sequence = block.first_sequence"
    " AND facts.records = block.records WHERE block.shard = %s"
    " AND block.first_sequence = ANY(%s::bigint[]) AND first_timestamp <= %s"
)
_BARE_OUTLINES = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp, 0, NULL FROM @.blocks"
    " WHERE shard = %s AND first_sequence = ANY(%s::bigint[]) AND first_timestamp <= %s"
)
_KEYS = (
    "SELECT first_sequence, keys.body FROM @.block_keys AS keys JOIN @.blocks AS block"
    " USING (shard, first_sequence, records) WHERE shard = %s"
    " AND first_sequence = ANY(%s::bigint[])"
)
_BYTES = (
    "SELECT octet_length(hashes) + octet_length(observations)"
    " + coalesce(body_bytes, octet_length(body)) FROM @.blocks"
    " WHERE shard = %s AND first_sequence = %s"
)
_DUE = (
    "SELECT first_sequence, records, NOT EXISTS (SELECT 1 FROM @.block_keys AS keys WHERE"
    " keys.shard = block.shard AND keys.first_sequence = block.first_sequence"
    " AND keys.records = block.records) FROM @.blocks AS block WHERE shard = %s"
    " AND first_sequence < %s AND NOT EXISTS (SELECT 1 FROM @.block_facts AS facts WHERE"
    " facts.shard = block.shard AND facts.first_sequence = block.first_sequence"
    " AND facts.layout = %s AND facts.records = block.records)"
    " ORDER BY first_sequence DESC LIMIT %s"
)
_AMENDED = (
    "SELECT sequence, body FROM @.amendments WHERE shard = %s AND sequence >= %s AND sequence < %s"
)
_REVISED = f"{_AMENDED} AND position('revision'::bytea in body) > 0"  # the name of the field
_CHOSEN = (
    "SELECT sequence, body FROM @.amendments WHERE shard = %s AND sequence = ANY(%s::bigint[])"
)
_TIMES = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp FROM @.blocks"
    " WHERE shard = %s ORDER BY first_sequence"
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


class PostgresReader(StoredRecords):
    """See ``Reader`` for what the methods promise."""

    _table: PostgresBlocks

    def __init__(self, connections: ReaderConnections) -> None:
        self._connections = connections
        self._facts_cache = connections.facts
        self._db = connections.take()
        self.damage = self._damage = self._db.damage
        self._shard = ONLY_SHARD
        self._table = PostgresBlocks(self._db, self._shard)
        self._windows = PostgresWindows(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def moment(self) -> AbstractContextManager[None]:
        """See the store as it is now, whatever is committed meanwhile."""
        return self._db.moment()

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, the one with the newest record first.

        Until the last of them is done with, the reader sees one moment.
        """
        with self.moment():
            rest = iter(self._table.since(since))
            while firsts := [*itertools.islice(rest, _AT_ONCE)]:
                rows = {row[0]: row for row in self._table.some(_BLOCKS, firsts, until)}
                for first in firsts:
                    if (row := rows.get(first)) is not None:
                        with self._damage.tolerated("block", first), self._db.decoded():
                            yield self._block(row)

    def outlines(
        self, since: float, until: float, *, with_facts: bool = True
    ) -> Iterator[BlockOutline]:
        """Blocks with records in that time, unopened, the one with the newest record first."""
        sql = _OUTLINES if with_facts else _BARE_OUTLINES
        length = _FIRST_OUTLINES
        rest = iter(self._table.since(since))
        while firsts := [*itertools.islice(rest, length)]:
            rows: dict[int, Any] = {row[0]: row for row in self._table.some(sql, firsts, until)}
            yield from (self._outline(rows[first]) for first in firsts if first in rows)
            length = min(2 * length, _MOST_OUTLINES)

    def block(self, first_sequence: int, *, with_amendments: bool = True) -> Block | None:
        """One block; None where it is damaged or gone."""
        for row in self._table.some(_BLOCKS, [first_sequence], float("inf")):
            with self._damage.tolerated("block", first_sequence), self._db.decoded():
                return self._block(row, with_amendments=with_amendments)
        return None

    def keys(self, first_sequences: Sequence[int]) -> dict[int, bytes]:
        """The filters over words and ids of some blocks; those that have none are missing."""
        filters: dict[int, bytes] = {}
        for first, stored in self._table.some(_KEYS, first_sequences):
            with self._damage.tolerated("block_keys", first), self._db.decoded():
                filters[first] = unseal(stored, "block_keys", first)
        return filters

    def contents(self, first_sequence: int) -> tuple[bytes, dict[int, bytes]] | None:
        """The records of one block as one msgpack array, and by place those mapped again since."""
        with self._damage.tolerated("block", first_sequence), self._db.decoded():
            stored = self._table.body(first_sequence)
            if stored is not None:
                body = unzip(unseal(stored.body, "body", first_sequence))
                return body, self._revised(first_sequence, stored.records)
        return None

    def stored_bytes(self, first_sequence: int) -> int:
        """Bytes that one block takes."""
        return self._db.number(_BYTES, self._shard, first_sequence)

    def due_summaries(self, layout: int, below: int, limit: int) -> list[DueSummary]:
        """Blocks below a number without a summary of this layout, the newest first."""
        rows = self._db.rows(_DUE, self._shard, below, layout, limit)
        return [DueSummary(*row) for row in rows]

    def amendments(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Amendments of those records that have any, save those that are damaged."""
        return self._bodies(self._db.rows(_CHOSEN, self._shard, list(sequences)))

    def hashes_from(self, sequence: int) -> tuple[int, Hashes] | None:
        """First number and id hashes of the block with that record, or of the next block."""
        for first in self._table.from_sequence(sequence):
            hashes = self._table.hashes(first)
            if hashes is not None and first + len(hashes) > sequence:
                return first, hashes
        return None

    def block_times(self) -> list[BlockTimes]:
        """Place and times of every block, in order."""
        return [BlockTimes(*row) for row in self._db.rows(_TIMES, self._shard)]

    def stored_block(self, sequence: int) -> StoredBlock | None:
        """The block with that record, or the next one, as it is stored."""
        for first in self._table.from_sequence(sequence):
            hashes, observations = self._table.hashes(first), self._table.observations(first)
            if hashes is None or observations is None or first + len(hashes) <= sequence:
                continue
            with self._damage.tolerated("block", first), self._db.decoded():
                stored = self._table.body(first)
                if stored is not None:
                    body = unzip(unseal(stored.body, "body", first))
                    revised = self._revised(first, len(hashes))
                    return StoredBlock(first, hashes, observations, stored.body, body, revised)
        return None

    def saved_buckets(self, tier: int, first: int, last: int) -> Iterator[SavedBucket]:
        """The saved buckets ``first`` to ``last`` of a tier, from old to new."""
        for bucket, body in self._db.rows(_BUCKETS, tier, first, last):
            with self._damage.tolerated("windows", f"{tier}/{bucket}"), self._db.decoded():
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

    def _block(self, row: Any, *, with_amendments: bool = True) -> Block:
        first, records, last_timestamp, stored = row
        amended = self._amended(first, records) if with_amendments else {}
        return Block(first, last_timestamp, read_observations(stored, first), amended)

    def _outline(self, row: Any) -> BlockOutline:
        first, records, begin, end, layout, stored = row
        if stored is not None:
            with self._damage.tolerated("block_facts", first), self._db.decoded():
                facts = self._facts_cache.read(stored, self._shard, first)
                return BlockOutline(first, records, begin, end, layout, facts)
        return BlockOutline(first, records, begin, end)

    def _amended(self, first: int, records: int) -> dict[int, bytes]:
        """The amendments of a block's records, save those that are damaged."""
        return self._bodies(self._db.rows(_AMENDED, self._shard, first, first + records))

    def _bodies(self, rows: Sequence[tuple[int, bytes]]) -> dict[int, bytes]:
        bodies: dict[int, bytes] = {}
        for sequence, body in rows:
            with self._damage.tolerated("amendment", sequence), self._db.decoded():
                bodies[sequence] = read_amendment(body, sequence)
        return bodies

    def _revised(self, first: int, records: int) -> dict[int, bytes]:
        """The records of a block that were mapped again, by their place in it."""
        revised: dict[int, bytes] = {}
        for sequence, body in self._db.rows(_REVISED, self._shard, first, first + records):
            with self._damage.tolerated("amendment", sequence), self._db.decoded():
                record = amendments.revised(read_amendment(body, sequence))
                if record is not None:
                    revised[sequence - first] = record
        return revised
