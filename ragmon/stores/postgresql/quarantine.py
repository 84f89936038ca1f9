"""Entries in quarantine; written by the commit of what was read beside them, or by themselves."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragmon.stores.compression import unzip
from ragmon.stores.plain_text import plain
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase
from ragmon.stores.quarantine import QuarantineBounds, QuarantinedItem, QuarantineRow
from ragmon.stores.quarantine_sizes import (
    MOST_ERROR,
    MOST_NAME,
    EntrySize,
    QuarantineChange,
    QuarantineSizes,
)

_COLUMNS = "number, stage, reason, at, name, error, attempts, length(body)"
_SIZES = "SELECT number, stage, length(body) FROM @.quarantine WHERE shard = %s ORDER BY number"
_LAST = (
    "SELECT greatest((SELECT quarantined FROM @.shards WHERE shard = %s),"
    " (SELECT max(number) FROM @.quarantine WHERE shard = %s))"
)
_SAME = (
    "DELETE FROM @.quarantine WHERE shard = %s AND stage = %s AND name = %s AND body = %s"
    " RETURNING number"
)
_INSERT = "INSERT INTO @.quarantine VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_NUMBERED = "UPDATE @.shards SET quarantined = %s WHERE shard = %s"
_ROWS = (
    f"SELECT {_COLUMNS} FROM @.quarantine WHERE shard = %s AND (stage = %s OR %s = '')"  # noqa: S608 - only our columns
    " ORDER BY number DESC LIMIT %s"
)
_FIND = f"SELECT {_COLUMNS}, body FROM @.quarantine WHERE shard = %s AND number = %s"  # noqa: S608
_ATTEMPT = "UPDATE @.quarantine SET attempts = attempts + 1 WHERE shard = %s AND number = %s"
_FAILED = "UPDATE @.quarantine SET error = %s WHERE shard = %s AND number = %s"
_DELETE = "DELETE FROM @.quarantine WHERE shard = %s AND number = ANY(%s::bigint[])"
_OLD = "SELECT number FROM @.quarantine WHERE shard = %s AND at < %s"


class PostgresQuarantine:
    """See ``Quarantine`` for what the methods promise."""

    def __init__(self, database: PostgresDatabase, shard: int, bounds: QuarantineBounds) -> None:
        self._db = database
        self._shard = shard
        self._sizes = QuarantineSizes(bounds, database.rows(_SIZES, shard))
        self._last = database.number(_LAST, shard, shard)

    @property
    def counts(self) -> Mapping[str, int]:
        """Entries that are there, by stage."""
        return self._sizes.counts

    @property
    def totals(self) -> Mapping[tuple[str, ...], int]:
        """Entries kept since the start, by stage and reason."""
        return self._sizes.totals

    def insert(self, cursor: Cursor, items: Sequence[QuarantinedItem]) -> QuarantineChange:
        """Add items within a transaction of the caller's, who applies the change afterwards."""
        change = QuarantineChange({}, [], Counter())
        last = self._last
        for item in items:
            body = self._db.zip(item.body)
            name, error = plain(item.name[:MOST_NAME]), plain(item.error[:MOST_ERROR])
            key = (self._shard, item.stage, name, body)
            same = [row[0] for row in self._db.execute(cursor, _SAME, *key).fetchall()]
            last += 1
            row = (item.stage, item.reason, item.at, name, error, body, item.attempts)
            self._db.execute(cursor, _INSERT, self._shard, last, *row)
            change.gone.extend(same)
            change.added[last] = EntrySize(item.stage, len(body))
            change.counted[item.stage, item.reason] += not same
        surplus = self._sizes.surplus(change)
        self._db.execute(cursor, _DELETE, self._shard, surplus)
        self._db.execute(cursor, _NUMBERED, last, self._shard)
        change.gone.extend(surplus)
        return change

    def apply(self, change: QuarantineChange) -> None:
        """Count a change whose transaction is durable."""
        self._sizes.apply(change)
        self._last = max(self._last, *change.added, 0)

    def put(self, items: Sequence[QuarantinedItem]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        with self._db.transaction() as cursor:
            change = self.insert(cursor, items)
        self.apply(change)

    def rows(self, limit: int, stage: str = "") -> list[QuarantineRow]:
        """Entries of a stage, or of all, the newest first."""
        rows = self._db.rows(_ROWS, self._shard, stage, stage, limit)
        return [QuarantineRow(*row) for row in rows]

    def find(self, number: int) -> tuple[QuarantineRow, bytes] | None:
        """One entry with its body; None when there is none."""
        rows = self._db.rows(_FIND, self._shard, number)
        with self._db.decoded():
            return (QuarantineRow(*rows[0][:-1]), unzip(rows[0][-1])) if rows else None

    def note_attempt(self, number: int, error: str | None = None) -> None:
        """Count an attempt before it is made, or write down how the last one failed."""
        with self._db.transaction() as cursor:
            if error is None:
                self._db.execute(cursor, _ATTEMPT, self._shard, number)
            else:
                message = plain(error[:MOST_ERROR])
                self._db.execute(cursor, _FAILED, message, self._shard, number)

    def delete(self, numbers: Iterable[int]) -> int:
        """Forget entries; returns how many there were."""
        gone = sorted({number for number in numbers if number in self._sizes})
        if gone:
            with self._db.transaction() as cursor:
                self._db.execute(cursor, _DELETE, self._shard, gone)
            self._sizes.apply(QuarantineChange({}, gone, Counter()))
        return len(gone)

    def expire(self, before: float) -> int:
        """Forget what is older; returns how many entries that were."""
        if not self._sizes:
            return 0
        return self.delete(number for (number,) in self._db.rows(_OLD, self._shard, before))
