"""The embedded store: nothing to install, one file in ``data_dir``."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from ragmon.errors import SettingsError
from ragmon.stores import Migration, MigrationProgress, StoreFormat, no_progress
from ragmon.stores.sqlite.lease import DirectoryLease
from ragmon.stores.sqlite.migration import read_format
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE, SqliteStore


class Options(BaseModel, frozen=True, extra="forbid"):
    """``store:`` settings of the embedded store."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """FULL: a committed query survives a power loss. NORMAL: one fsync less a commit, but the
    last commits may be lost in a power loss (not if only ragmon is killed)."""


def build(options: Options, data_dir: Path, *, waits: bool = True) -> SqliteStore:  # noqa: ARG001
    """Open it, or create it, for this process alone.

    Args:
        options: of the settings.
        data_dir: folder of the file.
        waits: nothing here; the lock of a process that was killed is free at once.

    Raises:
        StoreBusyError: another process has it.
        StoreError: it cannot be opened.
    """
    return _open(options, data_dir, no_progress)


def open_reader(options: Options, data_dir: Path) -> SqliteReader:  # noqa: ARG001 - as other kinds
    """A view of the store beside a ragmon that may run.

    Raises:
        SettingsError: there is no store.
        StoreError: it cannot be read.
    """
    path = data_dir / FILE
    if not path.is_file():
        raise SettingsError(
            f"{path} does not exist", hint="Set data_dir to that of the daemon, or ask it by --url"
        )
    return SqliteReader(path)


def inspect(options: Options, data_dir: Path) -> StoreFormat | None:  # noqa: ARG001 - as other kinds
    """The format of the store, which is not changed; None where there is none yet.

    Raises:
        StoreError: it cannot be read, or not by this ragmon.
    """
    path = data_dir / FILE
    return read_format(path) if path.exists() else None


def migrate(
    options: Options, data_dir: Path, progress: MigrationProgress = no_progress
) -> Migration | None:
    """Make the store, or bring it up to date after a copy of it; None where it is.

    Args:
        options: of the settings.
        data_dir: folder of the file.
        progress: called as it goes on.

    Raises:
        StoreBusyError: another process has it.
        StoreError: it cannot be opened, or not by this ragmon.
    """
    store = _open(options, data_dir, progress)
    store.close()
    return store.migration


def _open(options: Options, data_dir: Path, progress: MigrationProgress) -> SqliteStore:
    lease = DirectoryLease(data_dir)
    try:
        return SqliteStore(
            data_dir, synchronous=options.synchronous, lease=lease, progress=progress
        )
    except BaseException:
        lease.release()
        raise
