"""A directory of backups, such as a mounted volume."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragmon.backups import BackupError, StoredFile
from ragmon.stores.sqlite.migration import sync

_PARTIAL = ".partial"


class DirectoryPlace:
    """One directory, made when it is missing, readable for its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = str(path)

    def files(self) -> Iterator[StoredFile]:
        """Everything there, in no order."""
        with self._translated("read"):
            if self._path.exists():
                for path in self._path.iterdir():
                    if path.is_file():
                        yield StoredFile(path.name, path.stat().st_size)

    def put(self, source: Path, name: str) -> None:
        """Store a file under a name: under another at first, on disk, then renamed."""
        target = self._path / name
        partial = target.with_name(f".{name}{_PARTIAL}")
        with self._translated("write to"):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                shutil.copyfile(source, partial)
                partial.chmod(0o600)
                sync(partial)
                partial.rename(target)
                sync(self._path)
            finally:
                partial.unlink(missing_ok=True)

    def get(self, name: str, target: Path) -> None:
        """Copy a stored file into a new one."""
        with self._translated("read"):
            shutil.copyfile(self._path / name, target)

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens where there is none."""
        with self._translated("delete in"):
            (self._path / name).unlink(missing_ok=True)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BackupError(
                f"cannot {doing} {self._path}: {error.strerror or error}",
                hint="Check that it is mounted, has space, and belongs to the user of ragmon",
            ) from error
