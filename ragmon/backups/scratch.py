"""Folders for copies under way: private, and removed also where the process that made them died."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".ragmon-backup-"


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A folder that goes when the block ends; those that a killed process left go first.

    A lock on the folder tells whether its process lives: the kernel lets go of it in any case.

    Raises:
        OSError: the folder cannot be made.
    """
    remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as folder:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(folder)
        finally:
            os.close(descriptor)


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove the folders whose process is gone; returns them. They hold questions and answers."""
    removed = []
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        with suppress(OSError):  # another user's, or gone meanwhile
            if _is_abandoned(folder):
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def _is_abandoned(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # Between its making and its lock a folder is empty, and may be of a process that lives.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return any(folder.iterdir())
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
