"""Saved baselines, each version beside the last."""

import msgspec

from ragmon.stores.compression import unzip
from ragmon.stores.protocols import BaselineRow
from ragmon.stores.sqlite.database import Database, decoded

_SCHEMA = """CREATE TABLE IF NOT EXISTS baselines (
    name TEXT, version INTEGER, kind TEXT, created_at REAL, created_by TEXT, provenance TEXT,
    samples REAL, promoted INTEGER, body BLOB, PRIMARY KEY (name, version))"""
_SELECT = (
    "SELECT name, version, kind, created_at, created_by, provenance, samples, promoted, body"
    " FROM baselines "
)
_FIELDS = BaselineRow.__struct_fields__  # in the order of the columns


class SqliteBaselines:
    """See ``Baselines`` for what the methods promise."""

    def __init__(self, database: Database) -> None:
        self._db = database
        with database.transaction() as db:
            db.execute(_SCHEMA)

    def add(self, row: BaselineRow, body: bytes) -> BaselineRow:
        """Keep another version, which is numbered here and not promoted."""
        packed = self._db.zip(body)
        with self._db.transaction() as db:
            newest = db.execute(
                "SELECT max(version) FROM baselines WHERE name = ?", (row.name,)
            ).fetchone()
            row = msgspec.structs.replace(row, version=(newest[0] or 0) + 1, promoted=False)
            values = (*msgspec.structs.astuple(row), packed)
            db.execute("INSERT INTO baselines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return row

    def rows(self) -> list[BaselineRow]:
        """Every version of every baseline, the newest first."""
        order = "ORDER BY created_at DESC, name, version DESC"
        rows = self._db.rows(_SELECT + order)
        with decoded(self._db.path):
            return [_row(values) for values in rows]

    def find(self, name: str, version: int | None = None) -> tuple[BaselineRow, bytes] | None:
        """One version; None: the promoted one, else the newest."""
        return self._first(
            "WHERE name = ? AND (version = ? OR ? IS NULL) ORDER BY promoted DESC, version DESC",
            name,
            version,
            version,
        )

    def promoted(self, kind: str) -> tuple[BaselineRow, bytes] | None:
        """The promoted baseline of a kind, of whatever name."""
        return self._first("WHERE kind = ? AND promoted ORDER BY created_at DESC", kind)

    def promote(self, row: BaselineRow) -> None:
        """Use this version from now on: of traffic the only one, of a golden set one a name."""
        with self._db.transaction() as db:
            db.execute(
                "UPDATE baselines SET promoted = (name = ? AND version = ?)"
                " WHERE name = ? OR (kind = 'traffic' AND kind = ?)",
                (row.name, row.version, row.name, row.kind),
            )

    def delete(self, name: str, version: int | None = None) -> int:
        """Forget one version, or all; returns how many there were."""
        with self._db.transaction() as db:
            return db.execute(
                "DELETE FROM baselines WHERE name = ? AND (version = ? OR ? IS NULL)",
                (name, version, version),
            ).rowcount

    def _first(self, where: str, *values: str | int | None) -> tuple[BaselineRow, bytes] | None:
        rows = self._db.rows(f"{_SELECT} {where} LIMIT 1", *values)
        if not rows:
            return None
        with decoded(self._db.path):
            return _row(rows[0]), unzip(rows[0][-1])


def _row(values: tuple[object, ...]) -> BaselineRow:
    named = dict(zip(_FIELDS, values[: len(_FIELDS)], strict=True))
    return msgspec.convert(named, BaselineRow, strict=False)
