"""File operations of the spool that differ between POSIX and Windows."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    OPEN_FLAGS = os.O_BINARY
    """Without it the C library would write two bytes for a newline."""

    _LOCKED_BYTE = 0x7FFF_0000  # beyond every segment: Windows forbids reading what is locked

    def lock(fd: int) -> bool:
        """Lock a file until it is closed; False when another process has it."""
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def read(fd: int, size: int) -> bytes:
        """Read the first ``size`` bytes."""
        os.lseek(fd, 0, os.SEEK_SET)
        return os.read(fd, size)

    def delete(path: Path, fd: int) -> None:
        """Delete a locked file and close it.

        An open file cannot be deleted here, so it is emptied first: a process that takes it over
        in between finds nothing to send.
        """
        os.ftruncate(fd, 0)
        os.close(fd)
        with suppress(OSError):
            path.unlink(missing_ok=True)

else:
    import fcntl

    OPEN_FLAGS = os.O_NOFOLLOW
    """A link that another user left in the directory is not followed."""

    def lock(fd: int) -> bool:
        """Lock a file until it is closed; False when another process has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def read(fd: int, size: int) -> bytes:
        """Read the first ``size`` bytes."""
        return os.pread(fd, size, 0)

    def delete(path: Path, fd: int) -> None:
        """Delete a locked file and close it."""
        path.unlink(missing_ok=True)
        os.close(fd)
