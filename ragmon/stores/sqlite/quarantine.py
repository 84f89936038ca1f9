"""Entries in quarantine, with the sizes of all in memory so that the limits cost no scan."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragmon.stores.compression import unzip
from ragmon.stores.quarantine import QuarantineBounds, QuarantinedItem, QuarantineRow
from ragmon.stores.quarantine_sizes import (
    MOST_ERROR,
    MOST_NAME,
    EntrySize,
    QuarantineChange,
    QuarantineSizes,
)
from ragmon.stores.sqlite.database import Database, decoded

_COLUMNS = "number, stage, reason, at, name, error, attempts, length(body)"


class SqliteQuarantine:
    """See ``Quarantine`` for what the methods promise."""

    def __init__(self, database: Database, bounds: QuarantineBounds) -> None:
        self._db = database
        rows = database.rows("SELECT number, stage, length(body) FROM quarantine ORDER BY number")
        self._sizes = QuarantineSizes(bounds, rows)

    @property
    def counts(self) -> Mapping[str, int]:
        """Entries that are there, by stage."""
        return self._sizes.counts

    @property
    def totals(self) -> Mapping[tuple[str, ...], int]:
        """Entries kept since the start, by stage and reason."""
        return self._sizes.totals

    def insert(
        self, connection: sqlite3.Connection, items: Sequence[QuarantinedItem]
    ) -> QuarantineChange:
        """Add items within a transaction of the caller's, who applies the change afterwards."""
        change = QuarantineChange({}, [], Counter())
        for item in items:
            body = self._db.zip(item.body)
            name, error = item.name[:MOST_NAME], item.error[:MOST_ERROR]
            same = connection.execute(
                "DELETE FROM quarantine WHERE stage = ? AND name = ? AND body = ? RETURNING number",
                (item.stage, name, body),
            ).fetchall()
            change.gone.extend(number for (number,) in same)
            row = (item.stage, item.reason, item.at, name, error, body, item.attempts)
            added = connection.execute(
                "INSERT INTO quarantine (stage, reason, at, name, error, body, attempts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            change.added[int(added.lastrowid or 0)] = EntrySize(item.stage, len(body))
            change.counted[item.stage, item.reason] += not same
        surplus = self._sizes.surplus(change)
        _delete(connection, surplus)
        change.gone.extend(surplus)
        return change

    def apply(self, change: QuarantineChange) -> None:
        """Count a change whose transaction is durable."""
        self._sizes.apply(change)

    def put(self, items: Sequence[QuarantinedItem]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        with self._db.transaction() as db:
            change = self.insert(db, items)
        self.apply(change)

    def rows(self, limit: int, stage: str = "") -> list[QuarantineRow]:
        """Entries of a stage, or of all, the newest first."""
        sql = f"SELECT {_COLUMNS} FROM quarantine"  # noqa: S608 - only our columns
        if stage:
            rows = self._db.rows(
                f"{sql} WHERE stage = ? ORDER BY number DESC LIMIT ?", stage, limit
            )
        else:
            rows = self._db.rows(f"{sql} ORDER BY number DESC LIMIT ?", limit)
        return [QuarantineRow(*row) for row in rows]

    def find(self, number: int) -> tuple[QuarantineRow, bytes] | None:
        """One entry with its body; None when there is none."""
        sql = f"SELECT {_COLUMNS}, body FROM quarantine WHERE number = ?"  # noqa: S608 - as above
        rows = self._db.rows(sql, number)
        with decoded(self._db.path):
            return (QuarantineRow(*rows[0][:-1]), unzip(rows[0][-1])) if rows else None

    def note_attempt(self, number: int, error: str | None = None) -> None:
        """Count an attempt before it is made, or write down how the last one failed."""
        with self._db.transaction() as db:
            if error is None:
                db.execute(
                    "UPDATE quarantine SET attempts = attempts + 1 WHERE number = ?", (number,)
                )
            else:
                db.execute(
                    "UPDATE quarantine SET error = ? WHERE number = ?",
                    (error[:MOST_ERROR], number),
                )

    def delete(self, numbers: Iterable[int]) -> int:
        """Forget entries; returns how many there were."""
        gone = sorted({number for number in numbers if number in self._sizes})
        if gone:
            with self._db.zeroing(), self._db.transaction() as db:  # it may be an erasure
                _delete(db, gone)
            self.apply(QuarantineChange({}, gone, Counter()))
        return len(gone)

    def expire(self, before: float) -> int:
        """Forget what is older; returns how many entries that were."""
        if not self._sizes:
            return 0
        return self.delete(
            number
            for (number,) in self._db.rows("SELECT number FROM quarantine WHERE at < ?", before)
        )


def _delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    rows = ((number,) for number in numbers)
    connection.executemany("DELETE FROM quarantine WHERE number = ?", rows)
