"""Erasure of content, block by block, with a receipt, until no byte of it is left in the files."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from ragmon.stores.compression import compressor, unzip
from ragmon.stores.erasure import AlertRow, ErasedBlock, ErasureRow
from ragmon.stores.identity import signed
from ragmon.stores.packing import read_amendment
from ragmon.stores.sealing import seal
from ragmon.stores.sqlite.columns import ascending
from ragmon.stores.sqlite.database import Database, decoded
from ragmon.stores.sqlite.summaries import delete_summaries

_PAGES = 500  # given back in one step: 8 MB
_TABLES = ("outbox", "dead_letters", "incident_notices", "alert_events")
_ZIPPED = ("incident_notices", "alert_events")


class SqliteBlockErasure:
    """See ``BlockErasure`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def pack(self, records: bytes, first_sequence: int) -> bytes:
        """The body of a block from one msgpack array; may be called beside the writer."""
        # A compressor of its own: one serves a single thread, and takes a third of a second here.
        return seal(compressor().compress(records), "body", first_sequence)

    def swap(self, block: ErasedBlock, row: Callable[[], ErasureRow] | None) -> bool:
        """Replace the records of a block, all or nothing; False when it changed meanwhile."""
        with self._db.zeroing(), self._db.transaction() as db:
            swapped = db.execute(
                "UPDATE blocks SET body = ? WHERE first_sequence = ? AND body = ?",
                (block.body, block.first_sequence, block.stored),
            ).rowcount
            if not swapped:
                return False
            # A filter over words tells whether a word was there.
            delete_summaries(db, block.first_sequence, block.first_sequence)
            for sequence in block.sequences:
                self._amend(db, block, sequence)
            if row is not None:
                _update(db, row())
        return True

    def delete_waiting(self, hashes: Iterable[int]) -> int:
        """Delete feedback and labels that wait for these queries; returns how many."""
        keys = [(signed(query_hash),) for query_hash in hashes]
        with self._db.zeroing(), self._db.transaction() as db:
            return db.executemany("DELETE FROM waiting WHERE query_hash = ?", keys).rowcount

    def purge(self) -> bool:
        """Take one step to overwrite what was deleted; True when no more is left to do."""
        if self._db.number("PRAGMA freelist_count"):
            self._db.shrink(_PAGES)
            return False
        return self._db.empty_log()

    def _amend(self, db: sqlite3.Connection, block: ErasedBlock, sequence: int) -> None:
        select = "SELECT body FROM amendments WHERE sequence = ?"
        for (body,) in db.execute(select, (sequence,)).fetchall():
            erased: bytes | None = None  # where it is damaged, all of it goes
            with self._db.damage.tolerated("amendment", sequence), decoded(self._db.path):
                erased = block.amend(sequence, read_amendment(body, sequence))
            if erased is None:
                db.execute("DELETE FROM amendments WHERE sequence = ?", (sequence,))
            else:
                sealed = seal(erased, "amendments", sequence)
                db.execute("UPDATE amendments SET body = ? WHERE sequence = ?", (sealed, sequence))
        db.execute("DELETE FROM awaited WHERE sequence = ?", (sequence,))


class SqliteErasureRequestLog:
    """See ``ErasureRequestLog`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, at: float, subject: str, body: bytes) -> int:
        """Keep a request; returns its number."""
        with self._db.transaction() as db:
            sql = "INSERT INTO forgotten (at, subject, body) VALUES (?, ?, ?)"
            return int(db.execute(sql, (at, subject, body)).lastrowid or 0)

    def rows(self) -> list[ErasureRow]:
        """Every request, the oldest first."""
        sql = "SELECT number, at, subject, body FROM forgotten ORDER BY number"
        return [ErasureRow(*row) for row in self._db.rows(sql)]

    def update(self, row: ErasureRow) -> None:
        """Replace a request by what it is now; nothing of what it was stays on its page."""
        with self._db.zeroing(), self._db.transaction() as db:
            _update(db, row)

    def alert_rows(self, after: tuple[int, int], limit: int) -> list[AlertRow]:
        """Transitions and notices behind a place, in a fixed order, some at a time."""
        rows: list[AlertRow] = []
        for at, table in enumerate(_TABLES):
            if at < after[0] or len(rows) >= limit or not self._has(table):
                continue
            number = after[1] if at == after[0] else -1
            sql = f"SELECT number, body FROM {table} WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608 - names of ours
            stored = self._db.rows(sql, number, limit - len(rows))
            with decoded(self._db.path):
                ascending(stored, number)
            for place, body in stored:
                with decoded(self._db.path):
                    event = unzip(body) if table in _ZIPPED else body
                rows.append(AlertRow((at, place), event, table != "alert_events"))
        return rows

    def update_alerts(self, rows: Sequence[AlertRow]) -> None:
        """Replace the bodies of transitions and notices, all or nothing."""
        with self._db.zeroing(), self._db.transaction() as db:
            for (at, number), event, _ in rows:
                table = _TABLES[at]
                body = self._db.zip(event) if table in _ZIPPED else event
                sql = f"UPDATE {table} SET body = ? WHERE number = ?"  # noqa: S608 - names of ours
                db.execute(sql, (body, number))

    def book(self) -> bytes | None:
        """The alerts as they were saved; None before the first turn of detection."""
        if not self._has("detection"):
            return None
        rows = self._db.rows("SELECT body FROM detection WHERE name = 'book'")
        with decoded(self._db.path):
            return unzip(rows[0][0]) if rows else None

    def update_book(self, body: bytes) -> None:
        """Replace the alerts as they were saved."""
        with self._db.zeroing(), self._db.transaction() as db:
            sql = "UPDATE detection SET body = ? WHERE name = 'book'"
            db.execute(sql, (self._db.zip(body),))

    def _has(self, table: str) -> bool:
        sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self._db.number(sql, table) > 0


def _update(db: sqlite3.Connection, row: ErasureRow) -> None:
    sql = "UPDATE forgotten SET subject = ?, body = ? WHERE number = ?"
    db.execute(sql, (row.subject, row.body, row.number))
