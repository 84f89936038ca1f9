"""Bringing a store of an older format up to date, after a backup of it as it was."""

import os
import shutil
import sqlite3
from pathlib import Path

from ragmon.errors import StoreError, StoreFullError
from ragmon.stores import (
    CHANGING,
    COPYING,
    Migration,
    MigrationProgress,
    StoreFormat,
    no_progress,
)
from ragmon.stores.sqlite.schema import FORMAT, MIGRATIONS

_COPIED_BYTES = 4 << 20  # at once
_SPARE_BYTES = 64 << 20  # for the changes themselves, in the write-ahead log


def migrate(
    db: sqlite3.Connection, path: Path, progress: MigrationProgress = no_progress
) -> Migration | None:
    """Bring a store up to date, one transaction a step; None where it is.

    Args:
        db: its only connection.
        path: of its file.
        progress: called as it goes on.

    Raises:
        StoreError: a format that this ragmon cannot read; nothing was changed.
        StoreFullError: no space for the backup; nothing was changed.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == FORMAT:
        return None
    _check_usable(version, path)
    backup = path.with_name(f"{path.name}.format{version}.bak")
    _back_up(db, backup, progress)
    for step in range(version, FORMAT):
        progress(CHANGING, step - version, FORMAT - version)
        db.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[step](db)
            db.execute(f"PRAGMA user_version = {step + 1}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    return Migration(version, FORMAT, backup)


def read_format(path: Path) -> StoreFormat:
    """The format of a store that is there, which is not changed.

    Raises:
        StoreError: it is no store, or this ragmon cannot read it.
    """
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            (version,) = db.execute("PRAGMA user_version").fetchone()
        finally:
            db.close()
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot read {path}: {error}", hint="Set data_dir to that of the daemon"
        ) from error
    if version != FORMAT:
        _check_usable(version, path)
    return StoreFormat(version, FORMAT, version)


def _check_usable(version: int, path: Path) -> None:
    if version not in MIGRATIONS:
        raise StoreError(
            f"{path} has store format {version}, this ragmon reads {min(MIGRATIONS)} to {FORMAT}",
            hint="Use the ragmon version that wrote it, or another data_dir",
        )


def _back_up(db: sqlite3.Connection, backup: Path, progress: MigrationProgress) -> None:
    """Copy the store; one that an interrupted migration left is replaced."""
    page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
    size = db.execute("PRAGMA page_count").fetchone()[0] * page_bytes
    partial = backup.with_name(backup.name + ".partial")
    partial.unlink(missing_ok=True)
    free = shutil.disk_usage(backup.parent).free
    if free < size + _SPARE_BYTES:
        raise StoreFullError(
            f"no space to copy the store to {backup} before its format changes: it takes"
            f" {(size + _SPARE_BYTES) >> 20} MiB, {free >> 20} MiB are free",
            hint="Free that much in data_dir; until then the ragmon that wrote the store reads it",
        )
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        copy = sqlite3.connect(partial)
        try:
            db.backup(
                copy,
                pages=max(1, _COPIED_BYTES // page_bytes),
                progress=lambda _status, left, of: progress(
                    COPYING, (of - left) * page_bytes, of * page_bytes
                ),
            )
            copy.execute("PRAGMA journal_mode = DELETE")
        finally:
            copy.close()
        sync(partial)
        partial.rename(backup)
        sync(backup.parent)
    except OSError as error:
        raise StoreError(
            f"cannot copy the store to {backup} before its format changes: {error.strerror}",
            hint="The store was not changed",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
