"""Spans of traces: written before they are acknowledged, and kept until no more are awaited.

Of a trace that was mapped its queries are noted, so that it can be mapped again; of one whose spans
are gone remains that it was, for a day.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from ragmon.errors import StoreCorruptError
from ragmon.stores.compression import unzip
from ragmon.stores.protocols import MappedSpans, MarkedTrace, SpanRow, UnreadableSpans
from ragmon.stores.sqlite.columns import checked
from ragmon.stores.sqlite.database import Database, decoded

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS spans (
    number INTEGER PRIMARY KEY, trace_id BLOB, spans INTEGER, has_entry INTEGER, body BLOB)""",
    "CREATE INDEX IF NOT EXISTS spans_of_trace ON spans (trace_id, spans, has_entry)",
    "DROP INDEX IF EXISTS spans_by_trace",  # of an older release
    """CREATE TABLE IF NOT EXISTS mapped_traces (
    trace_id BLOB PRIMARY KEY, at REAL, closed INTEGER, parts INTEGER, spans INTEGER,
    has_entry INTEGER, queries BLOB, size INTEGER) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS mapped_by_age ON mapped_traces (closed, at)",
)
_PENDING = """
SELECT s.trace_id, sum(s.spans), max(s.has_entry) FROM spans s
LEFT JOIN mapped_traces m ON m.trace_id = s.trace_id
GROUP BY s.trace_id HAVING m.trace_id IS NULL OR (count(*) > m.parts AND NOT m.closed)
ORDER BY max(s.number)"""
_MAPPED = (
    "SELECT trace_id, parts, spans, has_entry, queries, closed FROM mapped_traces"
    " WHERE trace_id = ?"
)
_KEEP = """
REPLACE INTO mapped_traces SELECT ?, ?, 0, ?, ?, ?, ?,
coalesce((SELECT sum(length(body)) FROM spans WHERE trace_id = ?), 0)"""
_CLOSE = "REPLACE INTO mapped_traces VALUES (?, ?, 1, 0, 0, 0, x'', 0)"
_FORGET = """
DELETE FROM mapped_traces WHERE trace_id IN (
    SELECT trace_id FROM mapped_traces WHERE closed = 1 ORDER BY at DESC LIMIT -1 OFFSET ?)"""
_REMEMBERED_S = 86_400.0
_MOST_REMEMBERED = 1_000_000


class SqliteSpans:
    """See ``Spans`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            for statement in _SCHEMA:
                db.execute(statement)
        self._size = database.number("SELECT sum(size) FROM mapped_traces WHERE NOT closed")
        closed = "SELECT count(*) FROM mapped_traces WHERE closed = 1"
        self._closed = database.number(closed)  # about: a few traces are closed otherwise

    def append(self, rows: Iterable[SpanRow]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        with self._db.transaction() as db:
            self.insert(db, rows)

    def insert(self, db: sqlite3.Connection, rows: Iterable[SpanRow]) -> None:
        """Write them in the transaction that is open."""
        packed = ((*row[:3], self._db.zip(row[3])) for row in rows)
        db.executemany(
            "INSERT INTO spans (trace_id, spans, has_entry, body) VALUES (?, ?, ?, ?)", packed
        )

    def bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        """For each trace what was appended, in that order."""
        sql = "SELECT body FROM spans WHERE trace_id = ? ORDER BY number"
        with decoded(self._db.path):
            return [[unzip(body) for (body,) in self._db.rows(sql, each)] for each in trace_ids]

    def pending(self) -> list[tuple[bytes, int, bool]]:
        """Every trace that has spans to be mapped, oldest first."""
        return self._db.rows(_PENDING)

    def traces(self) -> list[bytes]:
        """Every trace that has spans here, of those that were mapped too."""
        return [trace_id for (trace_id,) in self._db.rows("SELECT DISTINCT trace_id FROM spans")]

    def mapped(self, trace_ids: Iterable[bytes]) -> dict[bytes, MappedSpans]:
        """Those of the traces that were mapped before, by their id."""
        rows = [row for trace_id in trace_ids for row in self._db.rows(_MAPPED, trace_id)]
        return {
            trace_id: MappedSpans(trace_id, parts, spans, bool(has_entry), queries, bool(closed))
            for trace_id, parts, spans, has_entry, queries, closed in rows
        }

    def keep(self, traces: Iterable[MappedSpans], now: float) -> None:
        """Note what was mapped, and take the marks away; the spans of closed traces go."""
        mapped = list(traces)
        ids = [(each.trace_id,) for each in mapped]
        closed = [(each.trace_id,) for each in mapped if each.is_closed]
        open_rows = [
            (row.trace_id, now, *row[1:5], row.trace_id) for row in mapped if not row.is_closed
        ]
        with decoded(self._db.path), self._db.transaction() as db:
            before = self._size_of(db, ids)
            db.executemany("DELETE FROM spans WHERE trace_id = ?", closed)
            db.executemany(_CLOSE, ((*each, now) for each in closed))
            db.executemany(_KEEP, open_rows)
            db.executemany("DELETE FROM mapping WHERE trace = ?", ids)
            size = self._size_of(db, ids)
        self._size += size - before

    def close(self, before: float, most_bytes: int, most: int) -> int:
        """Let go of the spans of some traces mapped longest ago; returns how many traces."""
        sql = "SELECT trace_id, at, size FROM mapped_traces WHERE closed = 0 ORDER BY at LIMIT ?"
        size, gone = self._size, []
        for trace_id, at, size_bytes in self._db.rows(sql, most):
            if at >= before and size <= most_bytes:
                break
            size -= size_bytes
            gone.append((trace_id,))
        with self._db.transaction() as db:
            db.executemany("DELETE FROM spans WHERE trace_id = ?", gone)
            db.executemany(_CLOSE, ((*each, before) for each in gone))
            sql = "DELETE FROM mapped_traces WHERE closed = 1 AND at < ?"
            closed = self._closed + len(gone)
            closed -= db.execute(sql, (before - _REMEMBERED_S,)).rowcount
            if closed > _MOST_REMEMBERED:
                closed -= db.execute(_FORGET, (_MOST_REMEMBERED // 2,)).rowcount
        self._size, self._closed = size, closed
        return len(gone)

    def delete(self, trace_ids: Iterable[bytes]) -> None:
        """Forget these traces, and their marks."""
        ids = [(each,) for each in trace_ids]
        with decoded(self._db.path), self._db.transaction() as db:
            size = self._size_of(db, ids)
            db.executemany("DELETE FROM spans WHERE trace_id = ?", ids)
            db.executemany("DELETE FROM mapping WHERE trace = ?", ids)
            db.executemany("DELETE FROM mapped_traces WHERE trace_id = ?", ids)
        self._size -= size

    @staticmethod
    def _size_of(db: sqlite3.Connection, ids: Iterable[tuple[bytes]]) -> int:
        """Bytes of the spans of mapped traces, as they were noted."""
        sql = "SELECT size FROM mapped_traces WHERE trace_id = ?"
        return sum(size for trace_id in ids for (size,) in checked(db.execute(sql, trace_id)))

    def salvage(self, trace_id: bytes) -> tuple[list[bytes], list[UnreadableSpans]]:
        """Bodies that can still be read, and the rows that cannot."""
        bodies: list[bytes] = []
        damaged: list[UnreadableSpans] = []
        sql = "SELECT number FROM spans WHERE trace_id = ? ORDER BY number"
        for (number,) in self._db.rows(sql, trace_id):
            packed = b""
            try:
                packed = self._db.rows("SELECT body FROM spans WHERE number = ?", number)[0][0]
                with decoded(self._db.path):
                    bodies.append(unzip(packed))
            except StoreCorruptError as error:
                damaged.append(
                    UnreadableSpans(packed if isinstance(packed, bytes) else b"", str(error))
                )
        return bodies, damaged

    def mark(self, trace_ids: Iterable[bytes], now: float) -> None:
        """Note that these traces are about to be mapped; it outlives the process, not the power."""
        with self._db.unsynced_transaction() as db:
            db.executemany(
                "REPLACE INTO mapping VALUES (?, ?, 0)", ((each, now) for each in trace_ids)
            )

    def marked(self) -> list[MarkedTrace]:
        """Traces whose mapping was begun and not ended."""
        rows = self._db.rows("SELECT trace, deaths FROM mapping ORDER BY since")
        return [MarkedTrace(*row) for row in rows]

    def note_risk(self, trace_id: bytes) -> None:
        """Count a death of the process for a marked trace, in advance."""
        with self._db.unsynced_transaction() as db:
            db.execute("UPDATE mapping SET deaths = deaths + 1 WHERE trace = ?", (trace_id,))
