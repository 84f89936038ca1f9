"""Reading beside the writer: SQLite's write-ahead log gives every reader its own snapshot."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from ragmon.errors import StoreError
from ragmon.records import ONLY_SHARD, Positions
from ragmon.stores import Block, BlockTimes, Hashes, JournalEntry, StoredBlock, amendments
from ragmon.stores.compression import UNREADABLE, unzip
from ragmon.stores.damage import Damage
from ragmon.stores.facts_cache import FactsCache
from ragmon.stores.packing import read_amendment, read_bucket, read_observations
from ragmon.stores.sealing import is_sealed, unseal
from ragmon.stores.sqlite.blocks import BlockTable
from ragmon.stores.sqlite.columns import checked, checked_row
from ragmon.stores.sqlite.database import decoded, translated
from ragmon.stores.sqlite.saved_windows import SavedWindows
from ragmon.stores.stored_records import StoredRecords
from ragmon.stores.summaries import BlockOutline, DueSummary
from ragmon.windows.snapshot import SavedBucket

_BLOCK = (
    "SELECT records, first_timestamp, last_timestamp, observations FROM blocks"
    " WHERE first_sequence = ? AND (first_timestamp <= ? OR typeof(first_timestamp) <> 'real')"
)
_TIMES = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp FROM blocks"
    " ORDER BY first_sequence"
)
_TIMES_OF = (
    "SELECT records, first_timestamp, last_timestamp FROM blocks WHERE first_sequence = ?"
    " AND (first_timestamp <= ? OR typeof(first_timestamp) <> 'real')"
)
_OUTLINES_OF = (
    "SELECT blocks.first_sequence, blocks.records, first_timestamp, last_timestamp,"
    " coalesce(facts.layout, 0) AS layout, facts.body AS facts FROM blocks LEFT JOIN block_facts"
    " AS facts ON facts.first_sequence = blocks.first_sequence AND facts.records = blocks.records"
    " AND facts.size = length(blocks.body) WHERE blocks.first_sequence IN ({})"
    " AND (first_timestamp <= ? OR typeof(first_timestamp) <> 'real')"
)
_BARE_OUTLINES_OF = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp, 0 AS layout, NULL AS facts"
    " FROM blocks WHERE first_sequence IN ({})"
    " AND (first_timestamp <= ? OR typeof(first_timestamp) <> 'real')"
)
_PAGES_AT_ONCE = 256  # of a copy, between two reports of its progress
_FIRST_OUTLINES, _MOST_OUTLINES = 4, 128  # blocks whose outlines are read together
_FACTS = (
    "SELECT facts.layout, facts.body FROM block_facts AS facts JOIN blocks USING (first_sequence)"
    " WHERE first_sequence = ? AND facts.records = blocks.records"
    " AND facts.size = length(blocks.body)"
)
_KEYS = (
    "SELECT first_sequence, keys.body FROM block_keys AS keys JOIN blocks USING (first_sequence)"
    " WHERE first_sequence IN ({}) AND keys.records = blocks.records"
    " AND keys.size = length(blocks.body)"
)
_DUE = (
    "SELECT first_sequence, records, NOT EXISTS (SELECT 1 FROM block_keys AS keys WHERE"
    " keys.first_sequence = blocks.first_sequence AND keys.records = blocks.records AND"
    " keys.size = length(blocks.body)) FROM blocks WHERE first_sequence < ? AND NOT EXISTS"
    " (SELECT 1 FROM block_facts AS facts WHERE facts.first_sequence = blocks.first_sequence"
    " AND facts.layout = ? AND facts.records = blocks.records AND"
    " facts.size = length(blocks.body)) ORDER BY first_sequence DESC LIMIT ?"
)
_BODY = "SELECT body FROM blocks WHERE first_sequence = ?"
_AMENDED = "SELECT sequence, body FROM amendments WHERE sequence >= ? AND sequence < ?"
_REVISED = f"{_AMENDED} AND instr(body, x'7265766973696f6e')"  # the name of the field
_BUCKETS = "SELECT bucket FROM windows WHERE tier = ? AND bucket BETWEEN ? AND ? ORDER BY bucket"
_BUCKET = "SELECT body FROM windows WHERE tier = ? AND bucket = ?"


class SqliteReader(StoredRecords):
    """A read-only connection."""

    _table: BlockTable

    def __init__(
        self, path: Path, damage: Damage | None = None, facts: FactsCache | None = None
    ) -> None:
        self._path = path
        self.damage = damage or Damage()
        self._facts_cache = facts or FactsCache()
        with translated(path):
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
        self._table = BlockTable(self._db, path, self.damage)
        self._windows = SavedWindows(self._db, path, self.damage, self._table)
        self._summarized = False

    @property
    def connection(self) -> sqlite3.Connection:
        """For checks that go beyond reading."""
        return self._db

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, the one with the newest record first.

        Until the last of them is done with, the reader sees one moment.
        """
        with translated(self._path), self.moment():
            for first in self._table.since(since):
                with self.damage.tolerated("block", first), decoded(self._path):
                    row = checked_row(self._db.execute(_BLOCK, (first, until)))
                    if row is not None:  # or all of it is newer, and was not read
                        observations = read_observations(row[3], first)
                        yield Block(first, row[2], observations, self._amended(first, row[0]))

    def outlines(
        self, since: float, until: float, *, with_facts: bool = True
    ) -> Iterator[BlockOutline]:
        """Blocks with records in that time, unopened, the one with the newest record first."""
        summarized, length = self._has_summaries(), _FIRST_OUTLINES
        rest = self._table.since(since)
        while numbers := [*itertools.islice(rest, length)]:
            outlines = self._many_outlines(numbers, until, summarized and with_facts)
            if outlines is None:  # something is damaged, and costs only itself
                outlines = [
                    one for first in numbers for one in self._outline(first, until, with_facts)
                ]
            yield from outlines
            length = min(2 * length, _MOST_OUTLINES)

    def _many_outlines(
        self, numbers: Sequence[int], until: float, with_facts: bool
    ) -> list[BlockOutline] | None:
        """Some blocks in their order, for a third of what one after the other costs; None: cannot.

        Args:
            numbers: first sequence numbers.
            until: unix seconds.
            with_facts: those of them that are known.
        """
        sql = (_OUTLINES_OF if with_facts else _BARE_OUTLINES_OF).format(
            ",".join("?" * len(numbers))
        )
        try:
            rows = checked(self._db.execute(sql, (*numbers, until)))
            known = {
                row[0]: BlockOutline._make((*row[:5], row[5] and self._read_facts(row[5], row[0])))
                for row in rows
            }
        except (*UNREADABLE, sqlite3.Error):
            return None
        return [known[first] for first in numbers if first in known]

    def _outline(self, first: int, until: float, with_facts: bool) -> Iterator[BlockOutline]:
        with self.damage.tolerated("block", first), decoded(self._path):
            row = checked_row(self._db.execute(_TIMES_OF, (first, until)))
            if row is not None:
                facts = self._facts(first) if with_facts and self._has_summaries() else ()
                yield BlockOutline(first, *row, *facts)

    def _facts(self, first: int) -> tuple[int, bytes | None]:
        with self.damage.tolerated("block_facts", first), decoded(self._path):
            row = checked_row(self._db.execute(_FACTS, (first,)))
            if row is not None:
                return row[0], self._read_facts(row[1], first)
        return 0, None

    def _read_facts(self, stored: bytes, first: int) -> bytes:
        return self._facts_cache.read(stored, ONLY_SHARD, first)

    def block(self, first_sequence: int, *, with_amendments: bool = True) -> Block | None:
        """One block; None where it is damaged or gone."""
        with self.damage.tolerated("block", first_sequence), decoded(self._path):
            row = checked_row(self._db.execute(_BLOCK, (first_sequence, float("inf"))))
            if row is not None:
                observations = read_observations(row[3], first_sequence)
                amended = self._amended(first_sequence, row[0]) if with_amendments else {}
                return Block(first_sequence, row[2], observations, amended)
        return None

    def keys(self, first_sequences: Sequence[int]) -> dict[int, bytes]:
        """The filters over words and ids of some blocks; those that have none are missing."""
        if not self._has_summaries():
            return {}
        try:
            return self._many_keys(first_sequences)
        except (*UNREADABLE, sqlite3.Error):  # something is damaged, and costs only itself
            filters: dict[int, bytes] = {}
            for first in first_sequences:
                with self.damage.tolerated("block_keys", first), decoded(self._path):
                    filters |= self._many_keys([first])
            return filters

    def _many_keys(self, first_sequences: Sequence[int]) -> dict[int, bytes]:
        sql = _KEYS.format(",".join("?" * len(first_sequences)))
        filters = {}
        for first, stored in checked(self._db.execute(sql, tuple(first_sequences))):
            if not is_sealed(stored):  # all are, since there are any
                raise ValueError(f"the filter of block {first} has no checksum")
            filters[first] = unseal(stored, "block_keys", first)
        return filters

    def contents(self, first_sequence: int) -> tuple[bytes, dict[int, bytes]] | None:
        """The records of one block as one msgpack array, and by place those mapped again since."""
        with self.damage.tolerated("block", first_sequence), decoded(self._path):
            row = self._db.execute(
                "SELECT records, body FROM blocks WHERE first_sequence = ?", (first_sequence,)
            ).fetchone()
            if row is not None:
                body = unzip(unseal(row[1], "body", first_sequence))
                return body, self._revised(first_sequence, row[0])
        return None

    def stored_bytes(self, first_sequence: int) -> int:
        """Bytes that one block takes."""
        with decoded(self._path):
            row = self._db.execute(
                "SELECT length(hashes) + length(observations) + length(body) FROM blocks"
                " WHERE first_sequence = ?",
                (first_sequence,),
            ).fetchone()
            return 0 if row is None else int(row[0])

    def due_summaries(self, layout: int, below: int, limit: int) -> list[DueSummary]:
        """Blocks below a number without a summary of this layout, the newest first."""
        with decoded(self._path):
            rows = self._db.execute(_DUE, (below, layout, limit)).fetchall()
            return [DueSummary(first, records, bool(keys)) for first, records, keys in rows]

    def _has_summaries(self) -> bool:
        """False in a store that a release before wrote, and no daemon has opened since."""
        if not self._summarized:
            with decoded(self._path):
                sql = "SELECT count(*) FROM sqlite_master WHERE name = 'block_keys'"
                self._summarized = bool(self._db.execute(sql).fetchone()[0])
        return self._summarized

    def _amended(self, first: int, records: int) -> dict[int, bytes]:
        """The amendments of a block's records, save those that are damaged."""
        bodies: dict[int, bytes] = {}
        with self.damage.tolerated("index", "amendments"), decoded(self._path):
            for sequence, body in self._db.execute(_AMENDED, (first, first + records)):
                try:
                    bodies[sequence] = read_amendment(body, sequence)
                except UNREADABLE:
                    # Only where it failed: to enter both for each row takes longer than to read it.
                    with self.damage.tolerated("amendment", sequence), decoded(self._path):
                        bodies[sequence] = read_amendment(body, sequence)
        return bodies

    def _revised(self, first: int, records: int) -> dict[int, bytes]:
        """The records of a block that were mapped again, by their place in it."""
        revised: dict[int, bytes] = {}
        with self.damage.tolerated("index", "amendments"), decoded(self._path):
            rows = checked(self._db.execute(_REVISED, (first, first + records)))
            for sequence, body in rows:
                with self.damage.tolerated("amendment", sequence), decoded(self._path):
                    record = amendments.revised(read_amendment(body, sequence))
                    if record is not None:
                        revised[sequence - first] = record
        return revised

    def amendments(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Amendments of those records that have any, save those that are damaged."""
        bodies: dict[int, bytes] = {}
        for sequence in sequences:
            bodies |= self._amended(sequence, 1)
        return bodies

    def hashes_from(self, sequence: int) -> tuple[int, Hashes] | None:
        """First number and id hashes of the block with that record, or of the next block."""
        for first in self._table.from_sequence(sequence):
            hashes = self._table.hashes(first)
            if hashes is not None and first + len(hashes) > sequence:
                return first, hashes
        return None

    def block_times(self) -> list[BlockTimes]:
        """Place and times of every block, in order."""
        with decoded(self._path):
            return [BlockTimes(*row) for row in checked(self._db.execute(_TIMES))]

    def stored_block(self, sequence: int) -> StoredBlock | None:
        """The block with that record, or the next one, as it is stored."""
        for first in self._table.from_sequence(sequence):
            hashes, observations = self._table.hashes(first), self._table.observations(first)
            with self.damage.tolerated("block", first), decoded(self._path):
                row = self._db.execute(_BODY, (first,)).fetchone()
                if row is None or hashes is None or observations is None:
                    continue
                if first + len(hashes) > sequence:
                    body = unzip(unseal(row[0], "body", first))
                    revised = self._revised(first, len(hashes))
                    return StoredBlock(first, hashes, observations, row[0], body, revised)
        return None

    def saved_buckets(self, tier: int, first: int, last: int) -> Iterator[SavedBucket]:
        """The saved buckets ``first`` to ``last`` of a tier, from old to new."""
        keys: list[tuple[int]] = []
        with self.damage.tolerated("index", "windows"), decoded(self._path):
            keys = checked(self._db.execute(_BUCKETS, (tier, first, last)))
        for (bucket,) in keys:
            with self.damage.tolerated("windows", f"{tier}/{bucket}"), decoded(self._path):
                row = self._db.execute(_BUCKET, (tier, bucket)).fetchone()
                if row is not None:
                    yield SavedBucket(tier, bucket, read_bucket(row[0], tier, bucket))

    def load_windows(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot, as a store gives it to its writer.

        Raises:
            StoreCorruptError: its position was changed.
        """
        positions = {ONLY_SHARD: self._windows.position()}
        return positions, self._windows.totals(), self._windows.buckets()

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Packed observations, then restatements, committed after these positions."""
        return self._windows.follow(after)

    @contextmanager
    def moment(self) -> Iterator[None]:
        """See the store as it is now, whatever is committed meanwhile."""
        with translated(self._path):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    def backup(
        self, target: Path, progress: Callable[[int, int], None] = lambda *_bytes: None
    ) -> None:
        """Copy everything committed into a new file, while the writer goes on.

        Args:
            target: file to write.
            progress: called with the bytes that are copied, and with all.

        Raises:
            StoreError: the target exists, or cannot be written.
        """
        if target.exists():
            raise StoreError(f"{target} exists", hint="Name a new file")
        partial = target.with_name(target.name + ".partial")
        with translated(target):
            copy = sqlite3.connect(partial)
            page_bytes = self._db.execute("PRAGMA page_size").fetchone()[0]

            def report(_status: int, left: int, total: int) -> None:
                progress((total - left) * page_bytes, total * page_bytes)

            try:
                # One view for all steps: otherwise each commit between two begins the copy anew.
                with self.moment():
                    self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
                    self._db.backup(copy, pages=_PAGES_AT_ONCE, progress=report)
                copy.execute("PRAGMA journal_mode = DELETE")
            finally:
                copy.close()
        partial.rename(target)

    def close(self) -> None:
        """Release the connection."""
        self._db.close()
