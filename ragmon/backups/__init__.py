"""Backups of the embedded store in a directory or an S3 bucket: names, and what a place does.

A backup is ``ragmon-20261121T101500Z.sqlite.zst`` and, written after it, the same with ``.sha256``,
which ``sha256sum -c`` reads. One without the second was interrupted and does not count.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from ragmon.errors import RagmonError

SUFFIX = ".sqlite.zst"
CHECKSUM = ".sha256"

_FORMAT = "ragmon-%Y%m%dT%H%M%SZ" + SUFFIX
_NAME = re.compile(r"ragmon-\d{8}T\d{6}Z\.sqlite\.zst")


class BackupError(RagmonError):
    """A backup cannot be made, found or used."""


class StoredFile(NamedTuple):
    """One file of a place."""

    name: str
    size_bytes: int


class Backup(NamedTuple):
    """One complete backup."""

    name: str
    made_at: float
    size_bytes: int


class BackupPlace(Protocol):
    """A place that keeps files; every method raises BackupError when it does not answer."""

    url: str

    def files(self) -> Iterator[StoredFile]:
        """Everything there, in no order."""
        ...

    def put(self, source: Path, name: str) -> None:
        """Store a file under a name, all of it or nothing."""
        ...

    def get(self, name: str, target: Path) -> None:
        """Copy a stored file into a new one."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens where there is none."""
        ...


def backup_name(moment: float) -> str:
    """The name of a backup made then."""
    return datetime.fromtimestamp(moment, UTC).strftime(_FORMAT)


def is_backup(name: str) -> bool:
    """True for the name of a backup, which nothing else has."""
    return _NAME.fullmatch(name) is not None


def complete(place: BackupPlace) -> list[Backup]:
    """The complete backups, from old to new."""
    sizes = {file.name: file.size_bytes for file in place.files()}
    names = sorted(name for name in sizes if is_backup(name) and name + CHECKSUM in sizes)
    return [Backup(name, _made_at(name), sizes[name]) for name in names]


def _made_at(name: str) -> float:
    return datetime.strptime(name, _FORMAT).replace(tzinfo=UTC).timestamp()


def keep_newest(place: BackupPlace, keep: int) -> list[str]:
    """Delete all but the newest complete backups, and what was interrupted before them.

    Returns:
        The backups that were deleted. Files of other names are never touched.
    """
    backups = complete(place)
    kept = {backup.name for backup in backups[-keep:]}
    newest = backups[-1].name if backups else ""
    deleted = []
    for name in sorted(file.name for file in place.files()):
        backup = name.removesuffix(CHECKSUM)
        if is_backup(backup) and backup not in kept and backup < newest:
            place.delete(name)
            if name == backup:
                deleted.append(name)
    return deleted
