"""Erasure of content, block by block, with a receipt.

PostgreSQL overwrites nothing: what was deleted stays in its files until vacuum frees its space and
others use it, and in the write-ahead log until that is recycled. ``purge`` vacuums.
"""

from collections.abc import Callable, Iterable, Sequence

from ragmon.stores.compression import compressor, unzip
from ragmon.stores.erasure import AlertRow, ErasedBlock, ErasureRow
from ragmon.stores.identity import signed
from ragmon.stores.packing import read_amendment
from ragmon.stores.plain_text import plain
from ragmon.stores.postgresql.bodies.erased import ErasedObjects
from ragmon.stores.postgresql.bodies.places import HEAD_BYTES
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
from ragmon.stores.postgresql.summaries import delete_summaries
from ragmon.stores.sealing import seal

# A body may be moved to the object store between its reading and this: its head tells it.
_SWAP = (
    "UPDATE @.blocks SET body = %(body)b, object = NULL, body_offset = NULL, body_bytes = NULL,"
    " size = size + octet_length(%(body)b::bytea) - octet_length(body)"
    " WHERE shard = %(shard)s AND first_sequence = %(first)s AND body = CASE WHEN object IS NULL"
    " THEN %(stored)b::bytea ELSE substr(%(stored)b::bytea, 1, %(head)s) END"
)
_MOVED = (
    "SELECT object, octet_length(body) FROM @.blocks WHERE shard = %s"
    " AND first_sequence = %s AND object IS NOT NULL FOR UPDATE"
)
_WAITING = "DELETE FROM @.waiting WHERE shard = %s AND query_hash = ANY(%s::bigint[])"
_AMENDMENT = "SELECT body FROM @.amendments WHERE shard = %s AND sequence = %s"
_DELETE_AMENDMENT = "DELETE FROM @.amendments WHERE shard = %s AND sequence = %s"
_AMEND = "UPDATE @.amendments SET body = %s WHERE shard = %s AND sequence = %s"
_ABANDON = "DELETE FROM @.awaited WHERE shard = %s AND sequence = %s"
_ADD = "INSERT INTO @.forgotten (at, subject, body) VALUES (%s, %s, %s) RETURNING number"
_ROWS = "SELECT number, at, subject, body FROM @.forgotten ORDER BY number"
_UPDATE = "UPDATE @.forgotten SET subject = %s, body = %s WHERE number = %s"
_BOOK = "SELECT body FROM @.detection WHERE name = 'book'"
_UPDATE_BOOK = "UPDATE @.detection SET body = %s WHERE name = 'book'"
_TABLES = ("outbox", "dead_letters", "incident_notices", "alert_events")
_ZIPPED = ("incident_notices", "alert_events")
_VACUUMED = (*_TABLES, "amendments", "waiting", "quarantine", "spans", "forgotten", "detection")


class PostgresBlockErasure:
    """See ``BlockErasure`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, shard: int) -> None:
        self._db = database
        self._shard = shard
        self._due: list[str] = []  # tables to vacuum
        self._objects = ErasedObjects(database, shard)
        self._is_vacuumed = False  # and waits for objects to go

    def pack(self, records: bytes, first_sequence: int) -> bytes:
        """The body of a block from one msgpack array; may be called beside the writer."""
        # A compressor of its own: one serves a single thread, and takes a third of a second here.
        return seal(compressor().compress(records), "body", first_sequence)

    def swap(self, block: ErasedBlock, row: Callable[[], ErasureRow] | None) -> bool:
        """Replace the records of a block, all or nothing; False when it changed meanwhile."""
        first = block.first_sequence
        values = {
            "body": block.body,
            "shard": self._shard,
            "first": first,
            "stored": block.stored,
            "head": HEAD_BYTES,
        }
        with self._db.transaction() as cursor:
            moved = self._db.execute(cursor, _MOVED, self._shard, first).fetchall()
            if not self._db.execute_named(cursor, _SWAP, values).rowcount:
                return False
            for number, head in moved:  # its object has the content, until it is rewritten
                self._objects.mark(cursor, number, len(block.body) - head)
            # A filter over words tells whether a word was there.
            delete_summaries(self._db, cursor, self._shard, first, first)
            for sequence in block.sequences:
                self._amend(cursor, block, sequence)
            if row is not None:
                _update(self._db, cursor, row())
        return True

    def delete_waiting(self, hashes: Iterable[int]) -> int:
        """Delete feedback and labels that wait for these queries; returns how many."""
        keys = [signed(query_hash) for query_hash in hashes]
        with self._db.transaction() as cursor:
            return self._db.execute(cursor, _WAITING, self._shard, keys).rowcount

    def purge(self) -> bool:
        """Vacuum one table after another; True when no more is left to do.

        That is when no object has what was erased: the mover rewrites and deletes them.
        """
        if self._is_vacuumed:
            self._is_vacuumed = not self._objects.are_gone()
            return not self._is_vacuumed
        if not self._due:
            self._objects.begin()
            days = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            days += " WHERE i.inhparent = %s::regclass"
            names = [name for (name,) in self._db.rows(days, f"{self._db.quoted}.blocks")]
            self._due = [*_VACUUMED, *names]
        self._db.rows(f"VACUUM @.{self._due.pop()}")
        self._is_vacuumed = not self._due and not self._objects.are_gone()
        return not self._due and not self._is_vacuumed

    def _amend(self, cursor: Cursor, block: ErasedBlock, sequence: int) -> None:
        place = (self._shard, sequence)
        for (body,) in self._db.execute(cursor, _AMENDMENT, *place).fetchall():
            erased: bytes | None = None  # where it is damaged, all of it goes
            with self._db.damage.tolerated("amendment", sequence), self._db.decoded():
                erased = block.amend(sequence, read_amendment(body, sequence))
            if erased is None:
                self._db.execute(cursor, _DELETE_AMENDMENT, *place)
            else:
                sealed = seal(erased, "amendments", sequence)
                self._db.execute(cursor, _AMEND, sealed, *place)
        self._db.execute(cursor, _ABANDON, *place)


class PostgresErasureRequestLog:
    """See ``ErasureRequestLog`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def add(self, at: float, subject: str, body: bytes) -> int:
        """Keep a request; returns its number."""
        with self._db.transaction() as cursor:
            return int(self._db.execute(cursor, _ADD, at, plain(subject), body).fetchall()[0][0])

    def rows(self) -> list[ErasureRow]:
        """Every request, the oldest first."""
        return [ErasureRow(*row) for row in self._db.rows(_ROWS)]

    def update(self, row: ErasureRow) -> None:
        """Replace a request by what it is now."""
        with self._db.transaction() as cursor:
            _update(self._db, cursor, row)

    def alert_rows(self, after: tuple[int, int], limit: int) -> list[AlertRow]:
        """Transitions and notices behind a place, in a fixed order, some at a time."""
        rows: list[AlertRow] = []
        for at, table in enumerate(_TABLES):
            if at < after[0] or len(rows) >= limit:
                continue
            number = after[1] if at == after[0] else -1
            sql = f"SELECT number, body FROM @.{table} WHERE number > %s ORDER BY number LIMIT %s"  # noqa: S608 - names of ours
            for place, body in self._db.rows(sql, number, limit - len(rows)):
                with self._db.decoded():
                    event = unzip(body) if table in _ZIPPED else body
                rows.append(AlertRow((at, place), event, table != "alert_events"))
        return rows

    def update_alerts(self, rows: Sequence[AlertRow]) -> None:
        """Replace the bodies of transitions and notices, all or nothing."""
        with self._db.transaction() as cursor:
            for (at, number), event, _ in rows:
                table = _TABLES[at]
                body = self._db.zip(event) if table in _ZIPPED else event
                sql = f"UPDATE @.{table} SET body = %s WHERE number = %s"  # noqa: S608 - names of ours
                self._db.execute(cursor, sql, body, number)

    def book(self) -> bytes | None:
        """The alerts as they were saved; None before the first turn of detection."""
        rows = self._db.rows(_BOOK)
        with self._db.decoded():
            return unzip(rows[0][0]) if rows else None

    def update_book(self, body: bytes) -> None:
        """Replace the alerts as they were saved."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _UPDATE_BOOK, self._db.zip(body))


def _update(database: PostgresDatabase, cursor: Cursor, row: ErasureRow) -> None:
    database.execute(cursor, _UPDATE, plain(row.subject), row.body, row.number)
