"""One SQLite file: opening it, transactions, and errors that say what to do."""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import zstandard

from ragmon.errors import StoreBusyError, StoreCorruptError, StoreError, StoreFullError
from ragmon.stores import Migration, MigrationProgress, no_progress
from ragmon.stores.compression import UNDECODABLE, compressor
from ragmon.stores.damage import Damage
from ragmon.stores.sealing import seal, unseal
from ragmon.stores.sqlite.columns import checked
from ragmon.stores.sqlite.migration import migrate
from ragmon.stores.sqlite.schema import FORMAT, SCHEMA, statements

_WAL_PAGES = 512  # checkpoint every 8 MB
_WAL_KEEP_BYTES = 32 << 20
_BUSY_MS = 5_000
_FULL = (sqlite3.SQLITE_FULL,)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,  # our statements are right, so the schema is not
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_MISMATCH,
)


class Database:
    """The only connection that writes or checkpoints."""

    def __init__(
        self, path: Path, synchronous: str, progress: MigrationProgress = no_progress
    ) -> None:
        self.path = path
        self.migration: Migration | None = None
        self.damage = Damage()
        self._zip = compressor()
        with decoded(path):
            self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(synchronous, progress)
            except BaseException:
                self.connection.close()
                raise

    def zip(self, body: bytes | bytearray) -> bytes:
        """Compressed; ``unzip`` reverses it."""
        return self._zip.compress(body)

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Every row of a query, the values of the types that their columns have.

        Raises:
            StoreCorruptError: one is of another type.
        """
        with translated(self.path):
            cursor = self.connection.execute(sql, values)
        with decoded(self.path):
            return checked(cursor)

    def number(self, sql: str, *values: Any) -> int:
        """The first value of a query; 0 for NULL or no row."""
        rows = self.rows(sql, *values)
        with decoded(self.path):
            return int(rows[0][0] or 0) if rows else 0

    def meta(self, name: str) -> bytes | None:
        """A value that describes the store; None without one.

        Raises:
            StoreCorruptError: it was changed.
        """
        rows = self.rows("SELECT CAST(value AS BLOB) FROM meta WHERE name = ?", name)
        with decoded(self.path):
            return unseal(rows[0][0], "meta", name) if rows else None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on disk when it ends.

        Raises:
            StoreError: nothing was changed.
        """
        with translated(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def unsynced_transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, safe from the death of the process, but not waited for the disk.

        Raises:
            StoreError: nothing was changed.
        """
        level = self.number("PRAGMA synchronous")
        with translated(self.path):
            self.connection.execute("PRAGMA synchronous = NORMAL")
        try:
            with self.transaction() as db:
                yield db
        finally:
            with translated(self.path):
                self.connection.execute(f"PRAGMA synchronous = {level}")

    @contextmanager
    def zeroing(self) -> Iterator[None]:
        """Have what is deleted overwritten, which the usual deletions do not wait for."""
        self.connection.execute("PRAGMA secure_delete = ON")
        try:
            yield
        finally:
            self.connection.execute("PRAGMA secure_delete = FAST")

    def size_bytes(self) -> int:
        """The file and its write-ahead log."""
        size = 0
        for part in (self.path, self.path.with_name(self.path.name + "-wal")):
            with suppress(FileNotFoundError):
                size += part.stat().st_size
        return size

    def used_bytes(self) -> int:
        """Bytes of the file that hold something, once the log is written back to it."""
        pages = self.number("PRAGMA page_count") - self.number("PRAGMA freelist_count")
        return pages * self.number("PRAGMA page_size")

    def shrink(self, pages: int) -> None:
        """Give free pages back to the file system, if there are any."""
        if not self.number("PRAGMA freelist_count"):
            return
        with translated(self.path):
            # Only executescript steps the statement to its end; execute would free one page.
            self.connection.executescript(f"PRAGMA incremental_vacuum({pages})")
            # The file becomes shorter when the log is written back; readers are not waited for.
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def empty_log(self) -> bool:
        """Write the log back and give its space to the file system, unless a reader needs it.

        Returns:
            Whether it is empty now.
        """
        with translated(self.path):
            self.connection.execute("PRAGMA busy_timeout = 0")  # commits are waiting
            try:
                done = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        return not done[0]

    def close(self) -> None:
        """Checkpoint and close."""
        self.connection.close()

    def _prepare(self, synchronous: str, progress: MigrationProgress) -> None:
        db = self.connection
        # These two count only before the first table. A block of a megabyte is written page by
        # page, so pages of 16 KB save three system calls in four.
        db.execute("PRAGMA page_size = 16384")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        # Deleted cells are overwritten where their page is written anyway; pages that become
        # free are not, unless somebody's content is erased.
        db.execute("PRAGMA secure_delete = FAST")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {synchronous}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {_WAL_KEEP_BYTES}")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._create()
        db.execute("BEGIN IMMEDIATE")  # finds a read-only or locked file now, not at 3 a.m.
        db.execute("ROLLBACK")
        self.migration = migrate(db, self.path, progress)

    def _create(self) -> None:
        db = self.connection
        db.execute("BEGIN IMMEDIATE")
        for statement in statements(SCHEMA):
            db.execute(statement)
        seed = seal(str(secrets.randbits(63)).encode(), "meta", "seed")
        db.execute("INSERT INTO meta VALUES ('seed', ?)", (seed,))
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ragmon's.

    Raises:
        StoreFullError: no space left.
        StoreBusyError: somebody else holds the file.
        StoreCorruptError: the file is damaged, or no SQLite file.
        StoreError: anything else.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except (zstandard.ZstdError, UnicodeDecodeError) as error:  # also SQLite's own messages
        raise _damaged(path, str(error)) from error
    except MemoryError as error:  # the lengths in a damaged page are any numbers
        raise _damaged(path, "a row asks for more memory than there is") from error


@contextmanager
def decoded(path: Path) -> Iterator[None]:
    """``translated``, and what cannot be decoded is damage as well.

    Raises:
        StoreCorruptError: the file is damaged, or no SQLite file.
    """
    with translated(path):
        try:
            yield
        except UNDECODABLE as error:
            raise _damaged(path, str(error)) from error


def _translate(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _FULL:
        return StoreFullError(
            f"no space left for {path}", hint="Free space, or lower retention.max_disk"
        )
    if code in _BUSY:
        return StoreBusyError(
            f"{path} is locked by another process", hint="Stop it, or use another data_dir"
        )
    if code in _DAMAGED:
        return _damaged(path, str(error))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(
            f"cannot write {path}: {error}",
            hint=f"Make {path.parent} writable for user {os.getuid()}",
        )
    hint = "The system log may say what is wrong with the disk"
    return StoreError(f"{path}: {error}", hint=hint)


def _damaged(path: Path, why: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is damaged ({why})",
        hint="Restore it from `ragmon backup`, or move it away to start afresh",
    )
