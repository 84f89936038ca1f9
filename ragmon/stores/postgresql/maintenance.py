"""Keeping the database small: days that are over, blocks beyond the limits, quiet hours joined.

A block goes with the day on which it arrived, whose partition is dropped as a whole: to delete its
rows writes as much to the write-ahead log as they did. Only what was already old when it arrived,
and what is too much, is deleted by itself. Every call is one short step.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ragmon.errors import StoreBusyError
from ragmon.records import ONLY_SHARD, Position
from ragmon.stores import joining
from ragmon.stores.joining import StoredRow, opened_bytes
from ragmon.stores.packing import BlockSpan, block_row
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
from ragmon.stores.postgresql.positions import DETECTION, WINDOWS, read_positions
from ragmon.stores.postgresql.schema import DAY_S, ensure_days
from ragmon.stores.postgresql.summaries import TABLES, delete_summaries

_EXPIRE_BLOCKS = 4

_DAYS = (
    "SELECT substr(c.relname, 8)::int FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
    " WHERE i.inhparent = %s::regclass AND c.relname ~ '^blocks_[0-9]+$'"
    " AND substr(c.relname, 8)::int < floor(extract(epoch FROM now()) / 86400)::int ORDER BY 1"
)
_IS_OVER = (
    "SELECT coalesce(max(last_timestamp) < %s, true) AND coalesce((SELECT first_sequence"
    " + records FROM @.blocks WHERE shard = %s AND day = %s ORDER BY first_sequence DESC LIMIT 1)"
    " <= %s, true) FROM @.blocks WHERE day = %s"
)
_ENDS_OF_OTHERS = (
    "SELECT shard, max(first_sequence + records) FROM @.blocks WHERE day = %s AND shard <> %s"
    " GROUP BY shard"
)
_RECORDS = "SELECT sum(records) FROM @.blocks WHERE day = %s"
_AMENDMENTS_OF_DAY = (
    "DELETE FROM @.amendments AS one USING @.blocks AS block WHERE block.day = %s"
    " AND one.shard = block.shard AND one.sequence >= block.first_sequence"
    " AND one.sequence < block.first_sequence + block.records"
)
_SUMMARIES_OF_DAY = (
    "DELETE FROM @.{} AS one USING @.blocks AS block WHERE block.day = %s"
    " AND one.shard = block.shard AND one.first_sequence = block.first_sequence"
)
_LATE = (
    "SELECT first_sequence, records, size FROM @.blocks WHERE shard = %s AND last_timestamp < %s"
    " AND first_sequence + records <= %s AND (day * 86400.0 > %s OR last_timestamp < %s)"
    " ORDER BY last_timestamp LIMIT %s"
)
_DELETE = "DELETE FROM @.blocks WHERE shard = %s AND first_sequence BETWEEN %s AND %s"
_AMENDMENTS = "DELETE FROM @.amendments WHERE shard = %s AND sequence >= %s AND sequence < %s"
_OLDEST = "SELECT min(first_sequence) FROM @.blocks WHERE shard = %s"
_SIZES = (
    "SELECT (SELECT coalesce(sum(size), 0) FROM @.blocks WHERE shard = %s),"
    " (SELECT coalesce(sum(size), 0) FROM @.bodies_moved WHERE shard = %s)"
)
_SIZE_OF_WORKERS = "SELECT sum(size) FROM @.blocks WHERE shard <> %s"
_SHARDS = "SELECT count(*) FROM @.shards"
_OTHERS = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n"
    " ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname !~ '^blocks'"
)
_SMALL = (
    "SELECT first_sequence, records, substr(body, 1, %s), day FROM @.blocks WHERE shard = %s"
    " AND first_sequence >= %s AND first_sequence < %s AND records < %s AND object IS NULL"
    " ORDER BY first_sequence LIMIT %s"
)
_STRETCH = (
    "SELECT first_sequence, records, first_timestamp, last_timestamp, hashes, observations, body,"
    " size, object FROM @.blocks WHERE shard = %s AND first_sequence BETWEEN %s AND %s"
    " ORDER BY first_sequence"
)
_MOVED = "SELECT size FROM @.bodies_moved WHERE shard = %s"
_UNMOVED = "SELECT sum(octet_length(body)) FROM @.blocks WHERE shard = %s AND object IS NULL"
_INSERT = "INSERT INTO @.blocks VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"


class BlockMaintenance:
    """Upkeep of the blocks of a shard."""

    def __init__(
        self, database: PostgresDatabase, shard: int, counted: Callable[[], Position]
    ) -> None:
        """Measure what is there.

        Args:
            database: of the writer.
            shard: its number.
            counted: the position up to which records have been counted, and may go.
        """
        self._db = database
        self._shard = shard
        self._counted = counted
        ensure_days(database)
        self._moved_bytes = self._live_bytes = self._other_bytes = self._workers_bytes = 0
        self._measure()

    @property
    def size_bytes(self) -> int:
        """Bytes of the blocks that live, and of all other tables.

        Those of the only shard, or the evaluator's, include the blocks of all workers as they were
        when it last looked for what has to go. Files do not become smaller when rows are deleted;
        their space is used again.
        """
        return self._live_bytes + self._workers_bytes + self._other_bytes

    def added(self, size_bytes: int) -> None:
        """Count a block that was committed."""
        self._live_bytes += size_bytes

    def oldest(self) -> int | None:
        """The first sequence number that is left; None without any."""
        oldest: int | None = self._db.rows(_OLDEST, self._shard)[0][0]
        return oldest

    def expire(self, before: float, max_bytes: int | None) -> int:
        """Delete a day that is over, or a few blocks; returns how many records.

        Args:
            before: unix seconds; blocks without a newer record are too old.
            max_bytes: the limit of the size, if there is one.
        """
        ensure_days(self._db)
        self._note_moved()
        below = self._counted().sequence
        if dropped := self._drop_day(before, below):
            return dropped
        blocks = self._late(before, below)
        if not blocks:
            self._measure()
            if max_bytes is not None and self._is_too_large(max_bytes):
                blocks = self._late(float("inf"), below)
        for first, records, size in blocks:
            with self._db.transaction() as cursor:
                self._delete(cursor, first, first)
                self._db.execute(cursor, _AMENDMENTS, self._shard, first, first + records)
            self._live_bytes -= size
        return sum(records for _, records, _ in blocks)

    def _measure(self) -> None:
        """Look at what there is: other processes drop days and erase too."""
        [(live, moved)] = self._db.rows(_SIZES, self._shard, self._shard)
        self._live_bytes, self._moved_bytes = int(live), int(moved)
        self._other_bytes = self._db.number(_OTHERS, self._db.schema)
        if self._shard == ONLY_SHARD:
            self._workers_bytes = self._db.number(_SIZE_OF_WORKERS, self._shard)

    def _room(self, max_bytes: int) -> float:
        """Bytes that the blocks of this shard may have: shards have equal parts of them."""
        return (max_bytes - self._other_bytes) / max(1, self._db.number(_SHARDS))

    def compact(self, start: int, below: int) -> tuple[int, int]:
        """Join one stretch of neighbouring small blocks of one day.

        Args:
            start: sequence number to look from.
            below: blocks from here on are left alone.

        Returns:
            How many blocks were joined, and where to look next; that is ``below`` at the end.
        """
        below = min(below, self._counted().sequence)
        sizes, days = self._small_blocks(start, below)
        stretch = joining.neighbours(sizes)
        if len(stretch):
            same = days[: len(stretch)] == days[0]
            stretch = stretch[: len(stretch) if same.all() else int(np.argmin(same))]
        if len(stretch) > 1:
            first, last = int(stretch[0, 0]), int(stretch[-1, 0])
            with self._db.damage.tolerated("block", f"{first} to {last}"):
                self._join(first, last, int(days[0]))
        at_the_end = len(stretch) == len(sizes) < joining.MOST_BLOCKS
        return len(stretch), below if at_the_end else int(stretch[-1, 0]) + 1

    def _note_moved(self) -> None:
        """Count what was moved to the object store, or came back from it."""
        moved = self._db.number(_MOVED, self._shard)
        self._live_bytes -= moved - self._moved_bytes
        self._moved_bytes = moved

    def _is_too_large(self, max_bytes: int) -> bool:
        """True where old blocks have to go; bodies that wait for an object store do not count.

        Those that were moved would be the first to go, and make no room.
        """
        room = self._room(max_bytes)
        if self._live_bytes <= room or self._db.access.bodies is None:
            return self._live_bytes > room
        return self._live_bytes - self._db.number(_UNMOVED, self._shard) > room

    def _late(self, before: float, below: int) -> list[tuple[int, int, int]]:
        """The oldest blocks that were too old before their day began, or outlive it by a day."""
        limits = (before, below, before, before - DAY_S, _EXPIRE_BLOCKS)
        return self._db.rows(_LATE, self._shard, *limits)

    def _others_counted(self, day: int) -> bool:
        """True when windows and detectors have counted what other shards have of a day."""
        rows = self._db.rows(_ENDS_OF_OTHERS, day, self._shard)
        if not rows:
            return True
        windows = read_positions(self._db, WINDOWS)
        judged = read_positions(self._db, DETECTION)
        return all(
            end <= min(each.get(shard, Position()).sequence for each in (windows, judged))
            for shard, end in rows
        )

    def _drop_day(self, before: float, below: int) -> int:
        """Drop the oldest day that is over; a reader in its way is not waited for."""
        for (day,) in self._db.rows(_DAYS, f"{self._db.quoted}.blocks"):
            limits = (before, self._shard, day, below, day)
            if not self._db.rows(_IS_OVER, *limits)[0][0] or not self._others_counted(day):
                continue
            records = self._db.number(_RECORDS, day)
            try:
                with self._db.transaction() as cursor:
                    self._db.execute(cursor, "SET LOCAL lock_timeout = '200ms'")
                    self._db.execute(cursor, _AMENDMENTS_OF_DAY, day)
                    for table in TABLES:
                        self._db.execute(cursor, _SUMMARIES_OF_DAY.format(table), day)
                    self._db.execute(cursor, f"DROP TABLE @.blocks_{int(day)}")
            except StoreBusyError:
                return 0  # the next step tries again
            self._measure()
            return records
        return 0

    def _small_blocks(self, start: int, below: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows (first, records, opened bytes) of what could be joined, and their days."""
        limits = (joining.RECORDS // 2, joining.MOST_BLOCKS)
        stored = self._db.rows(_SMALL, joining.HEAD_BYTES, self._shard, start, below, *limits)
        rows = [(*row[:2], opened_bytes(bytes(row[2])), row[3]) for row in stored]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return table[:, :3], table[:, 3]

    def _join(self, first: int, last: int, day: int) -> None:
        rows = self._db.rows(_STRETCH, self._shard, first, last)
        if any(row[8] is not None for row in rows):
            return  # one was moved to the object store meanwhile
        with self._db.decoded():
            block = joining.joined([StoredRow(BlockSpan(*row[:4]), *row[4:7]) for row in rows])
        observations, body = self._db.zip(block.observations), self._db.zip(block.body)
        size = len(observations) + len(body) + len(block.hashes)
        row = block_row(block.span, block.hashes, observations, body)
        with self._db.transaction() as cursor:
            self._delete(cursor, first, last)
            self._db.execute(cursor, _INSERT, self._shard, *row, size, day)
        self._live_bytes += size - sum(row[7] for row in rows)

    def _delete(self, cursor: Cursor, first: int, last: int) -> None:
        self._db.execute(cursor, _DELETE, self._shard, first, last)
        delete_summaries(self._db, cursor, self._shard, first, last)
