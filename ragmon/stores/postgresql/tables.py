"""Tables in PostgreSQL, for copies; see ``ragmon.stores.copying``."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ragmon.records import ONLY_SHARD
from ragmon.stores.copying import CopyMark, Kind, Row, StoredTable, StoreNumbers
from ragmon.stores.postgresql.bodies.reading import read_body
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
from ragmon.stores.postgresql.positions import DETECTION, WINDOWS, read_positions, save_positions
from ragmon.stores.postgresql.schema import DAY_S, add_day
from ragmon.stores.sealing import HEAD_BYTES

_MARK = "copying"
_OLDEST_DAYS = 400  # more partitions than that are for no records; older ones join the oldest
_OF_SHARD = (
    "blocks",
    "runs",
    "amendments",
    "restatements",
    "waiting",
    "sides",
    "awaited",
    "quarantine",
    "spans",
    "mapping",
    "mapped_traces",
)
_NUMBERED = ("waiting", "spans", "alert_events", "incident_notices", "outbox", "dead_letters",
             "forgotten")  # fmt: skip
_TYPES: Mapping[Kind, str] = MappingProxyType(
    {int: "int8", float: "float8", str: "text", bytes: "bytea", bool: "bool"}
)
_SMALL = {  # columns of 32 bits
    ("blocks", "records"), ("spans", "spans"), ("quarantine", "attempts"), ("mapping", "deaths"),
    ("mapped_traces", "parts"), ("mapped_traces", "spans"), ("windows", "tier"),
    ("minutes", "tier"), ("outbox", "attempts"), ("dead_letters", "attempts"),
    ("baselines", "version"),
}  # fmt: skip
_META = "SELECT value FROM @.meta WHERE name = %s"
_PUT_META = (
    "INSERT INTO @.meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_DELETE_META = "DELETE FROM @.meta WHERE name = %s"
_SHARD = "SELECT next_sequence, last_restatement, quarantined FROM @.shards WHERE shard = %s"
_PUT_SHARD = (
    "UPDATE @.shards SET next_sequence = %s, last_restatement = %s, quarantined = %s"
    " WHERE shard = %s"
)
_FORGET = "DELETE FROM @.positions WHERE name = %s"
_RENUMBER = (
    "SELECT setval(pg_get_serial_sequence(%s, 'number'),"
    " (SELECT coalesce(max(number), 0) + 1 FROM @.{}), false)"
)
_TODAY = "SELECT floor(extract(epoch FROM now()) / 86400)::int"


class PostgresTables:
    """See ``StoredTables`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, epoch: int) -> None:
        """Make it.

        Args:
            database: of the writer of the only shard.
            epoch: of the lease.
        """
        self._db = database
        self._epoch = epoch
        self._days: set[int] = set()  # whose partitions are there

    def rows(self, table: StoredTable, after: Row | None, limit: int) -> list[Row]:
        """Rows behind a key, in the order of the key."""
        names = [*table.columns]
        key = ", ".join(names[: table.key])
        conditions, values = _of_shard(table)
        if after is not None:
            conditions.append(f"({key}) > ({', '.join(['%s'] * table.key)})")
            values.extend(after)
        sql = f"SELECT {', '.join(names)} FROM @.{table.name}{_where(conditions)}"  # noqa: S608 - names of ours
        rows = self._db.rows(f"{sql} ORDER BY {key} LIMIT %s", *values, limit)
        return [self._whole(row) for row in rows] if table.name == "blocks" else rows

    def last(self, table: StoredTable) -> Row | None:
        """The last key; None where the table is empty."""
        names = [*table.columns][: table.key]
        order = ", ".join(f"{name} DESC" for name in names)
        conditions, values = _of_shard(table)
        sql = f"SELECT {', '.join(names)} FROM @.{table.name}{_where(conditions)}"  # noqa: S608
        rows = self._db.rows(f"{sql} ORDER BY {order} LIMIT 1", *values)
        return rows[0] if rows else None

    def extent(self, table: StoredTable) -> tuple[int, int]:
        """Number of rows, and bytes of their bodies."""
        sizes = [f"octet_length({name})" for name, kind in table.columns.items() if kind is bytes]
        if table.name == "blocks":
            sizes.append("coalesce(body_bytes - octet_length(body), 0)")  # of what was moved
        conditions, values = _of_shard(table)
        total = f"coalesce(sum({' + '.join(sizes) or 0}), 0)::int8"
        sql = f"SELECT count(*), {total} FROM @.{table.name}{_where(conditions)}"  # noqa: S608
        [(rows, size)] = self._db.rows(sql, *values)
        return rows, size

    def write(self, table: StoredTable, rows: list[Row]) -> None:
        """Add rows, all or nothing."""
        names, types = self._layout(table)
        if table.name == "blocks":
            rows = [self._block(row) for row in rows]
        elif table.name in _OF_SHARD:
            rows = [(ONLY_SHARD, *row) for row in rows]
        sql = f"COPY @.{table.name} ({', '.join(names)}) FROM STDIN (FORMAT BINARY)"
        with self._db.transaction() as cursor:
            self._db.copy(cursor, sql, types, rows)

    def clear(self, table: StoredTable) -> None:
        """Delete every row."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, f"DELETE FROM @.{table.name}")  # noqa: S608 - names of ours

    def numbers(self) -> StoreNumbers:
        """Numbers that describe it."""
        [(sequence, restatement, quarantined)] = self._db.rows(_SHARD, ONLY_SHARD)
        has_detection = self._db.number("SELECT count(*) FROM @.positions WHERE name = 'detection'")
        detection = read_positions(self._db, DETECTION)[ONLY_SHARD] if has_detection else None
        return StoreNumbers(
            seed=int(self._db.rows(_META, "seed")[0][0]),
            next_sequence=sequence,
            last_restatement=restatement,
            last_quarantined=quarantined,
            windows=read_positions(self._db, WINDOWS)[ONLY_SHARD],
            totals=self._meta("totals"),
            detection=detection,
        )

    def finish(self, numbers: StoreNumbers) -> None:
        """Write what describes the store, and take the mark away, all or nothing."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _PUT_META, "seed", str(numbers.seed).encode())
            self._db.execute(cursor, _DELETE_META, "totals")
            if numbers.totals is not None:
                self._db.execute(cursor, _PUT_META, "totals", numbers.totals)
            places = (numbers.next_sequence, numbers.last_restatement, numbers.last_quarantined)
            self._db.execute(cursor, _PUT_SHARD, *places, ONLY_SHARD)
            for name, position in ((WINDOWS, numbers.windows), (DETECTION, numbers.detection)):
                self._db.execute(cursor, _FORGET, name)
                if position is not None:
                    at = {ONLY_SHARD: position}
                    save_positions(self._db, cursor, name, at, self._epoch)
            self._renumber(cursor)
            self._db.execute(cursor, _DELETE_META, _MARK)

    def mark(self) -> CopyMark | None:
        """The copy into this store that was not finished; None without one."""
        stored = self._meta(_MARK)
        with self._db.decoded():
            return None if stored is None else msgspec.json.decode(stored, type=CopyMark)

    def set_mark(self, mark: CopyMark) -> None:
        """Note a copy that begins."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _PUT_META, _MARK, msgspec.json.encode(mark))

    def _whole(self, row: Row) -> Row:
        """A row of a block with its body, wherever that is."""
        stored = read_body(self._db, ONLY_SHARD, row[0])
        return row if stored is None else (*row[:-1], stored.body)

    def _layout(self, table: StoredTable) -> tuple[list[str], list[str]]:
        """Names and types of the columns that are written."""
        names = [*table.columns]
        types = [
            "int4" if (table.name, name) in _SMALL else _TYPES[kind]
            for name, kind in table.columns.items()
        ]
        if table.name == "blocks":
            names, types = [*names, "size", "day"], [*types, "int4", "int4"]
        if table.name in _OF_SHARD:
            names, types = ["shard", *names], ["int4", *types]
        return names, types

    def _block(self, row: Row) -> Row:
        """A row of a block with its shard, size and day: that of its newest record."""
        first, records, begin, end, hashes, observations, body = row
        size = len(observations) + len(body) - 2 * HEAD_BYTES + 8 * records
        today = self._db.number(_TODAY)
        day = min(today, max(today - _OLDEST_DAYS, int(end // DAY_S)))
        if day not in self._days:
            add_day(self._db, day)
            self._days.add(day)
        return (
            ONLY_SHARD, first, records, begin, end, hashes, observations, body, size, day,
        )  # fmt: skip

    def _renumber(self, cursor: Cursor) -> None:
        """Have numbers that the server gives go on behind those that were copied."""
        for name in _NUMBERED:
            place = f"{self._db.quoted}.{name}"
            self._db.execute(cursor, _RENUMBER.format(name), place)

    def _meta(self, name: str) -> bytes | None:
        rows = self._db.rows(_META, name)
        return rows[0][0] if rows else None


def _of_shard(table: StoredTable) -> tuple[list[str], list[Any]]:
    return (["shard = %s"], [ONLY_SHARD]) if table.name in _OF_SHARD else ([], [])


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
