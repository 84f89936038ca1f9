"""Spans of traces: written before they are acknowledged, and kept until no more are awaited.

Of a trace that was mapped its queries are noted, so that it can be mapped again; of one whose spans
are gone remains that it was, for a day.
"""

from collections.abc import Iterable, Sequence

from ragmon.errors import StoreCorruptError
from ragmon.stores.compression import unzip
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
from ragmon.stores.protocols import MappedSpans, MarkedTrace, SpanRow, UnreadableSpans

_APPEND = (
    "INSERT INTO @.spans (shard, trace_id, spans, has_entry, body) VALUES (%s, %s, %s, %s, %s)"
)
_BODIES = "SELECT body FROM @.spans WHERE shard = %s AND trace_id = %s ORDER BY number"
_PENDING = """
SELECT s.trace_id, sum(s.spans)::bigint, bool_or(s.has_entry) FROM @.spans s
LEFT JOIN @.mapped_traces m ON m.shard = s.shard AND m.trace_id = s.trace_id
WHERE s.shard = %s GROUP BY s.trace_id, m.trace_id, m.parts, m.closed
HAVING m.trace_id IS NULL OR (count(*) > m.parts AND NOT m.closed) ORDER BY max(s.number)"""
_TRACES = "SELECT DISTINCT trace_id FROM @.spans WHERE shard = %s"
_MAPPED = (
    "SELECT trace_id, parts, spans, has_entry, queries, closed FROM @.mapped_traces"
    " WHERE shard = %s AND trace_id = ANY(%s::bytea[])"
)
_KEEP = """
INSERT INTO @.mapped_traces SELECT %s, %s, %s, false, %s, %s, %s, %s,
coalesce((SELECT sum(octet_length(body)) FROM @.spans WHERE shard = %s AND trace_id = %s), 0)
ON CONFLICT (shard, trace_id) DO UPDATE SET at = excluded.at, closed = false,
parts = excluded.parts, spans = excluded.spans, has_entry = excluded.has_entry,
queries = excluded.queries, size = excluded.size"""
_CLOSE = """
INSERT INTO @.mapped_traces SELECT %s, trace_id, %s, true, 0, 0, false, ''::bytea, 0
FROM unnest(%s::bytea[]) AS one (trace_id) ON CONFLICT (shard, trace_id) DO UPDATE
SET at = excluded.at, closed = true, parts = 0, spans = 0, has_entry = false, queries = ''::bytea,
size = 0"""
_OLDEST = (
    "SELECT trace_id, at, size FROM @.mapped_traces WHERE shard = %s AND NOT closed ORDER BY at"
    " LIMIT %s"
)
_FORGET = """
DELETE FROM @.mapped_traces WHERE shard = %s AND trace_id IN (
SELECT trace_id FROM @.mapped_traces WHERE shard = %s AND closed ORDER BY at DESC OFFSET %s)"""
_FORGET_OLD = "DELETE FROM @.mapped_traces WHERE shard = %s AND closed AND at < %s"
_DELETE = "DELETE FROM @.spans WHERE shard = %s AND trace_id = ANY(%s::bytea[])"
_UNMARK = "DELETE FROM @.mapping WHERE shard = %s AND trace = ANY(%s::bytea[])"
_UNMAP = "DELETE FROM @.mapped_traces WHERE shard = %s AND trace_id = ANY(%s::bytea[])"
_SIZE_OF = (
    "SELECT coalesce(sum(size), 0)::bigint FROM @.mapped_traces"
    " WHERE shard = %s AND trace_id = ANY(%s::bytea[])"
)
_SIZE = "SELECT sum(size) FROM @.mapped_traces WHERE shard = %s AND NOT closed"
_CLOSED = "SELECT count(*) FROM @.mapped_traces WHERE shard = %s AND closed"
_ROWS = "SELECT number, body FROM @.spans WHERE shard = %s AND trace_id = %s ORDER BY number"
_MARK = (
    "INSERT INTO @.mapping SELECT %s, trace, %s, 0 FROM unnest(%s::bytea[]) AS one (trace)"
    " ON CONFLICT (shard, trace) DO UPDATE SET since = excluded.since, deaths = 0"
)
_MARKED = "SELECT trace, deaths FROM @.mapping WHERE shard = %s ORDER BY since"
_RISK = "UPDATE @.mapping SET deaths = deaths + 1 WHERE shard = %s AND trace = %s"
_REMEMBERED_S = 86_400.0
_MOST_REMEMBERED = 1_000_000


class PostgresSpans:
    """See ``Spans`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, shard: int) -> None:
        self._db = database
        self._shard = shard
        self._size = database.number(_SIZE, shard)
        self._closed = database.number(_CLOSED, shard)  # about: a few are closed otherwise

    def append(self, rows: Iterable[SpanRow]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        packed = [
            (self._shard, row.trace_id, row.spans, bool(row.has_entry), self._db.zip(row.body))
            for row in rows
        ]
        with self._db.transaction() as cursor:
            self._db.many(cursor, _APPEND, packed)

    def bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        """For each trace what was appended, in that order."""
        with self._db.decoded():
            return [
                [unzip(body) for (body,) in self._db.rows(_BODIES, self._shard, trace_id)]
                for trace_id in trace_ids
            ]

    def pending(self) -> list[tuple[bytes, int, bool]]:
        """Every trace that has spans to be mapped, oldest first."""
        return self._db.rows(_PENDING, self._shard)

    def traces(self) -> list[bytes]:
        """Every trace that has spans here, of those that were mapped too."""
        return [trace_id for (trace_id,) in self._db.rows(_TRACES, self._shard)]

    def mapped(self, trace_ids: Iterable[bytes]) -> dict[bytes, MappedSpans]:
        """Those of the traces that were mapped before, by their id."""
        rows = self._db.rows(_MAPPED, self._shard, list(trace_ids))
        return {row[0]: MappedSpans(*row) for row in rows}

    def keep(self, traces: Iterable[MappedSpans], now: float) -> None:
        """Note what was mapped, and take the marks away; the spans of closed traces go."""
        mapped = list(traces)
        ids = [row.trace_id for row in mapped]
        closed = [row.trace_id for row in mapped if row.is_closed]
        rows = [
            (self._shard, row.trace_id, now, *row[1:5], self._shard, row.trace_id)
            for row in mapped
            if not row.is_closed
        ]
        with self._db.transaction() as cursor:
            before = self._size_of(cursor, ids)
            self._close(cursor, closed, now)
            self._db.many(cursor, _KEEP, rows)
            self._db.execute(cursor, _UNMARK, self._shard, ids)
            size = self._size_of(cursor, ids)
        self._size += size - before

    def close(self, before: float, most_bytes: int, most: int) -> int:
        """Let go of the spans of some traces mapped longest ago; returns how many traces."""
        size, gone = self._size, []
        for trace_id, at, size_bytes in self._db.rows(_OLDEST, self._shard, most):
            if at >= before and size <= most_bytes:
                break
            size -= size_bytes
            gone.append(trace_id)
        with self._db.transaction() as cursor:
            self._close(cursor, gone, before)
            closed = self._closed + len(gone)
            limit = before - _REMEMBERED_S
            closed -= self._db.execute(cursor, _FORGET_OLD, self._shard, limit).rowcount
            if closed > _MOST_REMEMBERED:
                values = (self._shard, self._shard, _MOST_REMEMBERED // 2)
                closed -= self._db.execute(cursor, _FORGET, *values).rowcount
        self._size, self._closed = size, closed
        return len(gone)

    def delete(self, trace_ids: Iterable[bytes]) -> None:
        """Forget these traces, and their marks."""
        ids = list(trace_ids)
        with self._db.transaction() as cursor:
            size = self._size_of(cursor, ids)
            for sql in (_DELETE, _UNMARK, _UNMAP):
                self._db.execute(cursor, sql, self._shard, ids)
        self._size -= size

    def salvage(self, trace_id: bytes) -> tuple[list[bytes], list[UnreadableSpans]]:
        """Bodies that can still be read, and the rows that cannot."""
        bodies: list[bytes] = []
        damaged: list[UnreadableSpans] = []
        for _, packed in self._db.rows(_ROWS, self._shard, trace_id):
            try:
                with self._db.decoded():
                    bodies.append(unzip(packed))
            except StoreCorruptError as error:
                damaged.append(UnreadableSpans(packed, str(error)))
        return bodies, damaged

    def mark(self, trace_ids: Iterable[bytes], now: float) -> None:
        """Note that these traces are about to be mapped; it outlives the process, not the power."""
        with self._db.unsynced_transaction() as cursor:
            self._db.execute(cursor, _MARK, self._shard, now, [*dict.fromkeys(trace_ids)])

    def marked(self) -> list[MarkedTrace]:
        """Traces whose mapping was begun and not ended."""
        return [MarkedTrace(*row) for row in self._db.rows(_MARKED, self._shard)]

    def note_risk(self, trace_id: bytes) -> None:
        """Count a death of the process for a marked trace, in advance."""
        with self._db.unsynced_transaction() as cursor:
            self._db.execute(cursor, _RISK, self._shard, trace_id)

    def _close(self, cursor: Cursor, trace_ids: Sequence[bytes], at: float) -> None:
        ids = [*dict.fromkeys(trace_ids)]
        if ids:
            self._db.execute(cursor, _DELETE, self._shard, ids)
            self._db.execute(cursor, _CLOSE, self._shard, at, ids)

    def _size_of(self, cursor: Cursor, ids: Sequence[bytes]) -> int:
        """Bytes of the spans of mapped traces, as they were noted."""
        [(size,)] = self._db.execute(cursor, _SIZE_OF, self._shard, list(ids)).fetchall()
        return int(size)
