"""Spans of traces that are not complete: written before they are acknowledged, gone afterwards."""

from collections.abc import Iterable, Sequence

from ragmon.errors import StoreCorruptError
from ragmon.stores.protocols import MarkedTrace, SpanRow, UnreadableSpans
from ragmon.stores.sqlite.database import Database, decoded, unzip

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS spans (
    number INTEGER PRIMARY KEY, trace_id BLOB, spans INTEGER, has_entry INTEGER, body BLOB)""",
    "CREATE INDEX IF NOT EXISTS spans_by_trace ON spans (trace_id)",
)


class SqliteSpans:
    """See ``Spans`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            for statement in _SCHEMA:
                db.execute(statement)

    def append(self, rows: Iterable[SpanRow]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        packed = [(*row[:3], self._db.zip(row[3])) for row in rows]
        with self._db.transaction() as db:
            db.executemany(
                "INSERT INTO spans (trace_id, spans, has_entry, body) VALUES (?, ?, ?, ?)", packed
            )

    def bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        """For each trace what was appended, in that order."""
        sql = "SELECT body FROM spans WHERE trace_id = ? ORDER BY number"
        with decoded(self._db.path):
            return [[unzip(body) for (body,) in self._db.rows(sql, each)] for each in trace_ids]

    def pending(self) -> list[tuple[bytes, int, bool]]:
        """Every trace with its number of spans and whether it has an entry, oldest first."""
        return self._db.rows(
            "SELECT trace_id, sum(spans), max(has_entry) FROM spans"
            " GROUP BY trace_id ORDER BY max(number)"
        )

    def delete(self, trace_ids: Iterable[bytes]) -> None:
        """Forget these traces, and their marks."""
        ids = [(each,) for each in trace_ids]
        with self._db.transaction() as db:
            db.executemany("DELETE FROM spans WHERE trace_id = ?", ids)
            db.executemany("DELETE FROM mapping WHERE trace = ?", ids)

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
