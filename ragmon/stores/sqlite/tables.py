"""Tables of the embedded store, for copies; see ``ragmon.stores.copying``."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ragmon.records import Position
from ragmon.stores.copying import CopyMark, Row, StoredTable, StoreNumbers
from ragmon.stores.plain_text import plain
from ragmon.stores.sealing import seal
from ragmon.stores.sqlite.database import Database, decoded
from ragmon.stores.sqlite.shard import SqliteShard
from ragmon.stores.sqlite.state_store import SqliteStateStore

_MARK = "copying"
_DETECTION = "SELECT body FROM detection WHERE name = 'position'"
_META = "REPLACE INTO meta VALUES (?, ?)"
_NAMES = {"sides": "offsets"}  # of tables and columns that have other names here
_COLUMNS = {
    ("sides", "source_offset"): "position",
    ("waiting", "number"): "rowid",
    ("outbox", "incident_id"): "fingerprint",
    ("dead_letters", "incident_id"): "fingerprint",
}
_WHERE = {"detection": "name <> 'position'"}  # which the numbers hold


class SqliteTables:
    """See ``StoredTables`` for what the methods promise."""

    def __init__(self, database: Database, shard: SqliteShard, state: SqliteStateStore) -> None:
        self._db = database
        self._shard = shard
        self._state = state
        self._made = False

    def rows(self, table: StoredTable, after: Row | None, limit: int) -> list[Row]:
        """Rows behind a key, in the order of the key."""
        columns = _columns(table)
        key = ", ".join(columns[: table.key])
        conditions = [_WHERE[table.name]] if table.name in _WHERE else []
        if after is not None:
            conditions.append(f"({key}) > ({_marks(after)})")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {', '.join(columns)} FROM {self._name(table)} {where} ORDER BY {key} LIMIT ?"  # noqa: S608 - names of ours
        rows = self._db.rows(sql, *(after or ()), limit)
        return [_read(table, row) for row in rows]

    def last(self, table: StoredTable) -> Row | None:
        """The last key; None where the table is empty."""
        columns = _columns(table)[: table.key]
        order = ", ".join(f"{column} DESC" for column in columns)
        sql = f"SELECT {', '.join(columns)} FROM {self._name(table)} ORDER BY {order} LIMIT 1"  # noqa: S608
        rows = self._db.rows(sql)
        return tuple(rows[0]) if rows else None

    def extent(self, table: StoredTable) -> tuple[int, int]:
        """Number of rows, and bytes of their bodies."""
        bodies = [name for name, kind in table.columns.items() if kind is bytes]
        sizes = " + ".join(f"length({_COLUMNS.get((table.name, name), name)})" for name in bodies)
        where = f"WHERE {_WHERE[table.name]}" if table.name in _WHERE else ""
        sql = f"SELECT count(*), coalesce(sum({sizes or 0}), 0) FROM {self._name(table)} {where}"  # noqa: S608
        [(rows, size)] = self._db.rows(sql)
        return rows, size

    def write(self, table: StoredTable, rows: list[Row]) -> None:
        """Add rows, all or nothing."""
        columns = _columns(table)
        sql = (
            f"INSERT INTO {self._name(table)} ({', '.join(columns)})"  # noqa: S608 - names of ours
            f" VALUES ({_marks(columns)})"
        )
        with self._db.transaction() as db:
            db.executemany(sql, rows)

    def clear(self, table: StoredTable) -> None:
        """Delete every row."""
        with self._db.transaction() as db:
            db.execute(f"DELETE FROM {self._name(table)}")  # noqa: S608 - names of ours

    def numbers(self) -> StoreNumbers:
        """Numbers that describe it."""
        end = self._shard_end()
        return StoreNumbers(
            seed=int(self._db.meta("seed") or b"0"),
            next_sequence=end.sequence,
            last_restatement=end.restatement,
            last_quarantined=self._last_quarantined(),
            windows=self._windows(),
            totals=self._totals(),
            detection=self._detection(),
        )

    def finish(self, numbers: StoreNumbers) -> None:
        """Write what describes the store, and take the mark away, all or nothing."""
        values = {
            "seed": str(numbers.seed).encode(),
            "position": msgspec.json.encode(numbers.windows),
            "next_sequence": str(numbers.next_sequence).encode(),
        }
        with self._db.transaction() as db:
            sealed = [(name, seal(value, "meta", name)) for name, value in values.items()]
            db.executemany(_META, sealed)
            db.execute("DELETE FROM meta WHERE name = 'totals'")
            if numbers.totals is not None:
                db.execute(_META, ("totals", numbers.totals))
            db.execute("DELETE FROM detection WHERE name = 'position'")
            if numbers.detection is not None:
                body = msgspec.msgpack.encode(numbers.detection)
                db.execute("INSERT INTO detection VALUES ('position', ?)", (body,))
            db.execute("DELETE FROM sqlite_sequence WHERE name = 'quarantine'")
            row = ("quarantine", numbers.last_quarantined)
            db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", row)
            db.execute("DELETE FROM meta WHERE name = ?", (_MARK,))

    def mark(self) -> CopyMark | None:
        """The copy into this store that was not finished; None without one."""
        stored = self._db.meta(_MARK)
        with decoded(self._db.path):
            return None if stored is None else msgspec.json.decode(stored, type=CopyMark)

    def set_mark(self, mark: CopyMark) -> None:
        """Note a copy that begins."""
        with self._db.transaction() as db:
            db.execute(_META, (_MARK, seal(msgspec.json.encode(mark), "meta", _MARK)))

    def _name(self, table: StoredTable) -> str:
        """The table's name here; those of sub-stores are made when they are first asked for."""
        if not self._made:
            self._shard.spans()
            self._state.alert_log()
            self._state.baselines()
            self._state.probe_runs()
            self._made = True
        return _NAMES.get(table.name, table.name)

    def _shard_end(self) -> Position:
        """The place behind everything, of what is in the tables now."""
        end = self._db.number(
            "SELECT max(first_sequence + records) FROM blocks"  # of a few thousand rows
        )
        saved = self._windows()
        numbered = int(self._db.meta("next_sequence") or b"0")
        restated = self._db.number("SELECT max(number) FROM restatements")
        position = self._shard.position
        return Position(
            max(end, numbered, position.sequence),
            max(restated, saved.restatement, position.restatement),
        )

    def _last_quarantined(self) -> int:
        sql = "SELECT seq FROM sqlite_sequence WHERE name = 'quarantine'"
        return self._db.number(sql)

    def _windows(self) -> Position:
        stored = self._db.meta("position")
        with decoded(self._db.path):
            return msgspec.json.decode(stored, type=Position) if stored else Position()

    def _totals(self) -> bytes | None:
        rows = self._db.rows("SELECT CAST(value AS BLOB) FROM meta WHERE name = 'totals'")
        return rows[0][0] if rows else None

    def _detection(self) -> Position | None:
        rows = self._db.rows(_DETECTION)
        with decoded(self._db.path):
            return msgspec.msgpack.decode(rows[0][0], type=Position) if rows else None


def _columns(table: StoredTable) -> list[str]:
    return [_COLUMNS.get((table.name, name), name) for name in table.columns]


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _read(table: StoredTable, row: Sequence[Any]) -> Row:
    """A row of the types that every kind of store has."""
    return tuple(
        bool(value) if kind is bool else plain(value) if kind is str else value
        for value, kind in zip(row, table.columns.values(), strict=True)
    )
