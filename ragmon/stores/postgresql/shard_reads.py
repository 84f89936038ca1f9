"""Reads of the blocks of one shard, by the numbers within it, through any connection."""

from collections.abc import Sequence
from typing import Any

from ragmon.stores import Block, Hashes, StoredBlock, amendments
from ragmon.stores.compression import unzip
from ragmon.stores.facts_cache import FactsCache
from ragmon.stores.packing import read_amendment, read_observations
from ragmon.stores.postgresql.blocks import PostgresBlocks
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.sealing import unseal
from ragmon.stores.stored_records import StoredRecords
from ragmon.stores.summaries import BlockOutline, DueSummary

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


class ShardReads(StoredRecords):
    """The part of a ``Reader`` that lies within one shard; see there for what methods promise."""

    _table: PostgresBlocks

    def __init__(self, database: PostgresDatabase, shard: int, facts: FactsCache) -> None:
        self._db = database
        self._shard = shard
        self._facts_cache = facts
        self._damage = database.damage
        self._table = PostgresBlocks(database, shard)

    def block_rows(self, firsts: Sequence[int], until: float) -> dict[int, Any]:
        """Rows for ``block_of``, by the first number of each block with records before a time."""
        return {row[0]: row for row in self._table.some(_BLOCKS, firsts, until)}

    def outlines(
        self, firsts: Sequence[int], until: float, *, with_facts: bool
    ) -> dict[int, BlockOutline]:
        """Blocks with records before a time, unopened, by their first number."""
        sql = _OUTLINES if with_facts else _BARE_OUTLINES
        return {row[0]: self._outline(row) for row in self._table.some(sql, firsts, until)}

    def block_of(self, row: Any, *, with_amendments: bool = True) -> Block | None:
        """A block as ``block_rows`` gave it; None where it is damaged."""
        with self._damage.tolerated("block", row[0]), self._db.decoded():
            return self._block(row, with_amendments=with_amendments)
        return None

    def block(self, first_sequence: int, *, with_amendments: bool = True) -> Block | None:
        """One block; None where it is damaged or gone."""
        for row in self._table.some(_BLOCKS, [first_sequence], float("inf")):
            return self.block_of(row, with_amendments=with_amendments)
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
