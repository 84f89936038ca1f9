"""Saved baselines, each version beside the last."""

import msgspec

from ragmon.stores.compression import unzip
from ragmon.stores.postgresql.database import PostgresDatabase
from ragmon.stores.protocols import BaselineRow

_SELECT = (
    "SELECT name, version, kind, created_at, created_by, provenance, samples, promoted, body"
    " FROM @.baselines "
)
_NEWEST = "SELECT coalesce(max(version), 0) FROM @.baselines WHERE name = %s"
_INSERT = "INSERT INTO @.baselines VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_PROMOTE = (
    "UPDATE @.baselines SET promoted = (name = %s AND version = %s)"
    " WHERE name = %s OR (kind = 'traffic' AND kind = %s)"
)
_DELETE = "DELETE FROM @.baselines WHERE name = %s AND (version = %s OR %s::int IS NULL)"
_FIELDS = BaselineRow.__struct_fields__  # in the order of the columns


class PostgresBaselines:
    """See ``Baselines`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._db = database

    def add(self, row: BaselineRow, body: bytes) -> BaselineRow:
        """Keep another version, which is numbered here and not promoted."""
        packed = self._db.zip(body)
        with self._db.transaction() as cursor:
            [(newest,)] = self._db.execute(cursor, _NEWEST, row.name).fetchall()
            row = msgspec.structs.replace(row, version=newest + 1, promoted=False)
            self._db.execute(cursor, _INSERT, *msgspec.structs.astuple(row), packed)
        return row

    def rows(self) -> list[BaselineRow]:
        """Every version of every baseline, the newest first."""
        rows = self._db.rows(_SELECT + "ORDER BY created_at DESC, name, version DESC")
        return [_row(values) for values in rows]

    def find(self, name: str, version: int | None = None) -> tuple[BaselineRow, bytes] | None:
        """One version; None: the promoted one, else the newest."""
        where = "WHERE name = %s AND (version = %s OR %s::int IS NULL)"
        return self._first(f"{where} ORDER BY promoted DESC, version DESC", name, version, version)

    def promoted(self, kind: str) -> tuple[BaselineRow, bytes] | None:
        """The promoted baseline of a kind, of whatever name."""
        return self._first("WHERE kind = %s AND promoted ORDER BY created_at DESC", kind)

    def promote(self, row: BaselineRow) -> None:
        """Use this version from now on: of traffic the only one, of a golden set one a name."""
        with self._db.transaction() as cursor:
            self._db.execute(cursor, _PROMOTE, row.name, row.version, row.name, row.kind)

    def delete(self, name: str, version: int | None = None) -> int:
        """Forget one version, or all; returns how many there were."""
        with self._db.transaction() as cursor:
            return self._db.execute(cursor, _DELETE, name, version, version).rowcount

    def _first(self, where: str, *values: str | int | None) -> tuple[BaselineRow, bytes] | None:
        rows = self._db.rows(f"{_SELECT} {where} LIMIT 1", *values)
        if not rows:
            return None
        with self._db.decoded():
            return _row(rows[0]), unzip(rows[0][-1])


def _row(values: tuple[object, ...]) -> BaselineRow:
    named = dict(zip(_FIELDS, values[: len(_FIELDS)], strict=True))
    return msgspec.convert(named, BaselineRow, strict=False)
