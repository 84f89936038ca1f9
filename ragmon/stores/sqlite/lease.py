"""One daemon to a data directory: a lock on a file in it."""

import fcntl
import os
from pathlib import Path

from ragmon.errors import StoreBusyError, StoreError


class NoLease:
    """Implements ``Lease`` for a directory that nobody else knows of, such as a copy."""

    epoch = 0
    is_held = True
    is_lost = False
    is_reachable = True
    clock_ahead_s = 0.0

    def announce(self, addresses: str) -> None:
        """Nobody asks."""

    def release(self) -> None:
        """Nothing was taken."""


class DirectoryLease:
    """Implements ``Lease`` by a lock that is held until the process ends, however it ends."""

    epoch = 0
    is_lost = False  # who lost the lock has ended
    is_reachable = True
    clock_ahead_s = 0.0  # there is one machine

    def __init__(self, directory: Path) -> None:
        """Take the directory.

        Raises:
            StoreBusyError: another process has it.
            StoreError: it cannot be written.
        """
        self._path = directory / "lock"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a+")
        except OSError as error:
            raise StoreError(
                f"cannot write {directory}: {error.strerror}",
                hint=f"Make it a folder writable for user {os.getuid()}, or set data_dir",
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            owner, _, addresses = self._file.read().strip().partition("\n")
            self._file.close()
            raise StoreBusyError(
                f"{directory} is in use by another ragmon (process {owner or 'unknown'})",
                hint="Stop it, or set another data_dir",
                addresses=addresses,
            ) from error
        self._write(str(os.getpid()))

    @property
    def is_held(self) -> bool:
        """True until it is given back."""
        return not self._file.closed

    def announce(self, addresses: str) -> None:
        """Write them to the file, behind the number of the process."""
        self._write(f"{os.getpid()}\n{addresses}")

    def release(self) -> None:
        """Give the directory back; again is nothing."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()

    def _write(self, text: str) -> None:
        self._file.truncate(0)
        self._file.write(text)
        self._file.flush()
