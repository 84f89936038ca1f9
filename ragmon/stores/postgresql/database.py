"""One connection to PostgreSQL, opened again when it was lost, and its transactions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from ragmon.errors import StoreCorruptError, StoreFencedError, StoreUnreachableError
from ragmon.stores.compression import UNREADABLE, compressor
from ragmon.stores.damage import Damage
from ragmon.stores.postgresql.connecting import DatabaseAccess, Link, connect, translated

Cursor = psycopg.Cursor[TupleRow]
Values = Sequence[Any] | dict[str, Any]

# The server ends what stops in the middle; after psycopg's pipeline mode it would not (PostgreSQL
# 15 and 17), so that mode is not used.
_BEGIN = b"BEGIN; SET LOCAL idle_in_transaction_session_timeout = '15s'"
_SNAPSHOT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Fence:
    """The right to write: a row with a number that whoever takes over makes larger."""

    def __init__(self, sql: str, values: Callable[[], tuple[Any, ...]]) -> None:
        """Remember the row.

        Args:
            sql: finds and locks it, for as long as its number is ours.
            values: of the statement, asked for each time.
        """
        self.sql = sql
        self.values = values


class PostgresDatabase:
    """The tables of one schema through a connection of its own; for one thread at a time.

    Statements name the schema ``@``. Nothing is set for the session, so that a pooler may give
    each transaction another connection.
    """

    def __init__(self, access: DatabaseAccess, schema: str, damage: Damage) -> None:
        self.access = access
        self.schema = schema
        self.damage = damage
        self.fence: Fence | None = None  # of every transaction
        self.fenced = 0  # writes that were refused by it, or by the epoch of a shard
        self.quoted = '"' + schema.replace('"', '""') + '"'
        self._link: Link | None = None
        self._zip = compressor()
        self._depth = 0

    def zip(self, body: bytes | bytearray) -> bytes:
        """Compressed; ``unzip`` reverses it."""
        return self._zip.compress(body)

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Every row of a query; where the connection was lost, it is asked once more."""
        try:
            return self._ask(sql, values)
        except StoreUnreachableError:
            if self._depth:
                raise
            return self._ask(sql, values)

    def number(self, sql: str, *values: Any) -> int:
        """The first value of a query; 0 for NULL or no row."""
        rows = self.rows(sql, *values)
        return int(rows[0][0] or 0) if rows else 0

    def once(self, sql: str, values: Values) -> list[Any]:
        """The rows of a statement that is a transaction by itself, and is not sent twice."""
        return self._ask(sql, values)

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """All or nothing, durable when it ends.

        Raises:
            StoreFencedError: somebody else owns it now; nothing was changed.
            StoreError: nothing was changed, unless the connection was lost at the very end.
        """
        with self._begun(_BEGIN) as cursor:
            yield cursor
            if self.fence is not None:  # at the end, so that its row is locked for a moment only
                self.execute(cursor, self.fence.sql, *self.fence.values())
                if cursor.fetchone() is None:
                    self.fenced += 1
                    raise StoreFencedError(
                        "another ragmon has taken over this store, or its database went back to an"
                        " older state",
                        hint="This one must not write any more; a start reads what is there",
                    )

    @contextmanager
    def unsynced_transaction(self) -> Iterator[Cursor]:
        """All or nothing, safe from the death of the process, but not waited for the disk."""
        with self.transaction() as cursor:
            self.execute(cursor, "SET LOCAL synchronous_commit = off")
            yield cursor

    @contextmanager
    def moment(self) -> Iterator[None]:
        """See the database as it is now, whatever is committed meanwhile."""
        if self._depth:
            yield
            return
        with self._begun(_SNAPSHOT):
            yield

    def execute(self, cursor: Cursor, sql: str, *values: Any) -> Cursor:
        """One statement within a transaction."""
        with translated():
            return cursor.execute(self._text(sql), values, binary=True)

    def script(self, cursor: Cursor, sql: str) -> None:
        """Some statements at once, within a transaction."""
        with translated():
            cursor.connection.execute(self._text(sql))  # by text: the binary protocol takes one

    def execute_named(self, cursor: Cursor, sql: str, values: dict[str, Any]) -> Cursor:
        """``execute`` with values by name."""
        with translated():
            return cursor.execute(self._text(sql), values, binary=True)

    def many(self, cursor: Cursor, sql: str, rows: Iterable[Any]) -> int:
        """One statement for each row, within a transaction; returns how many rows it touched."""
        text, touched = self._text(sql), 0
        with translated():
            for row in rows:  # executemany would be a pipeline: see _BEGIN
                cursor.execute(text, row, binary=True)
                touched += max(0, cursor.rowcount)
        return touched

    def copy(self, cursor: Cursor, sql: str, types: Sequence[str], rows: Iterable[Any]) -> None:
        """Rows into a table by COPY in its binary form, within a transaction.

        Args:
            cursor: of the transaction.
            sql: the COPY statement.
            types: of the columns, by PostgreSQL's names.
            rows: values of the columns.
        """
        with translated(), cursor.copy(self._text(sql)) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def decoded(self) -> Iterator[None]:
        """Treat what cannot be decoded as damage.

        Raises:
            StoreCorruptError: it was changed.
        """
        try:
            yield
        except UNREADABLE as error:
            raise StoreCorruptError(
                f"schema {self.schema} of PostgreSQL is damaged ({error})",
                hint="Restore the database from its backup",
            ) from error

    def close(self) -> None:
        """Release the connection."""
        if self._link is not None:
            with suppress(psycopg.Error):
                self._link.close()
            self._link = None

    @property
    def is_open(self) -> bool:
        """False after it was closed or lost, until it is used again."""
        return self._link is not None and not self._link.closed and not self._depth

    @contextmanager
    def _begun(self, begin: bytes) -> Iterator[Cursor]:
        link = self._begin(begin)
        self._depth += 1
        try:
            with translated():
                with link.cursor(binary=True) as cursor:
                    yield cursor
                link.execute(b"COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                link.execute(b"ROLLBACK")
            if link.closed or link.broken:
                self.close()
            raise
        finally:
            self._depth -= 1

    def _begin(self, begin: bytes) -> Link:
        """Begin on a connection that lives: one that the server has closed is opened again."""
        try:
            with translated():
                link = self._connected()
                link.execute(begin)
                return link
        except StoreUnreachableError:
            self.close()
        with translated():
            link = self._connected()
            link.execute(begin)
            return link

    def _ask(self, sql: str, values: Values) -> list[Any]:
        try:
            with translated():
                cursor = self._connected().execute(self._text(sql), values, binary=True)
                return cursor.fetchall() if cursor.description else []
        except StoreUnreachableError:
            self.close()
            raise

    def _connected(self) -> Link:
        if self._link is None or self._link.closed:
            self._link = connect(self.access)
        return self._link

    def _text(self, sql: str) -> bytes:
        return _qualified(sql, self.quoted)


@lru_cache(maxsize=1_024)
def _qualified(sql: str, schema: str) -> bytes:
    return sql.replace("@", schema).encode()
