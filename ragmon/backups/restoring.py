"""Restoring a backup: fetched, its checksum compared, verified, and only then put in place."""

import hashlib
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import zstandard

from ragmon.backups import CHECKSUM, Backup, BackupError, BackupPlace, complete
from ragmon.backups.making import StageProgress, no_progress
from ragmon.stores.sqlite.commit_log import COMMITS_FILE
from ragmon.stores.sqlite.migration import sync
from ragmon.stores.sqlite.store import FILE
from ragmon.stores.sqlite.verification import Verification, verify

FETCHING, UNPACKING = "Fetching", "Unpacking"
"""Stages before a backup is checked; the second is measured in bytes."""

_CHUNK_BYTES = 1 << 20
_LOGS = ("-wal", "-shm", "-journal")


def choose(place: BackupPlace, name: str | None = None) -> Backup:
    """The backup of that name, or the newest.

    Raises:
        BackupError: there is none.
    """
    backups = complete(place)
    if name is not None:
        backups = [backup for backup in backups if backup.name == name]
    if not backups:
        raise BackupError(
            f"no complete backup {name or ''}".rstrip() + f" in {place.url}",
            hint="`ragmon restore FROM --list` shows those that are there",
        )
    return backups[-1]


def fetch(
    place: BackupPlace, backup: Backup, data_dir: Path, progress: StageProgress = no_progress
) -> tuple[Path, Verification]:
    """Bring a backup into data_dir under another name, unpacked and verified.

    Args:
        place: of the backup.
        backup: one of them.
        data_dir: of the store.
        progress: called with the stage, how much of it is done, and of how much.

    Raises:
        BackupError: it is damaged, or the place or the disk refused.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=data_dir) as folder:
            packed = Path(folder, backup.name)
            checksum = Path(folder, backup.name + CHECKSUM)
            unpacked = Path(folder, FILE)
            place.get(checksum.name, checksum)
            progress(FETCHING, 0, 0)
            place.get(packed.name, packed)
            _compare(packed, checksum)
            _unpack(packed, unpacked, partial(progress, UNPACKING))
            result = verify(unpacked, progress)
            if not result.sound:
                finding = result.findings[0]
                raise BackupError(
                    f"{backup.name} is damaged: {finding.what} {finding.row}: {finding.problem}",
                    hint="Restore an older one: name it after FROM",
                )
            sync(unpacked)
            target = data_dir / f".{FILE}.restored"
            unpacked.replace(target)
            return target, result
    except OSError as error:
        raise BackupError(
            f"cannot write to {data_dir}: {error.strerror or error}",
            hint="It needs room for the backup, compressed and not",
        ) from error


def _compare(packed: Path, checksum: Path) -> None:
    expected = checksum.read_text(encoding="ascii", errors="replace").partition(" ")[0]
    with packed.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != expected:
        raise BackupError(
            f"the SHA-256 of {packed.name} is {actual}, not {expected}",
            hint="Restore an older one: name it after FROM",
        )


def _unpack(
    packed: Path, target: Path, progress: Callable[[int, int], None] = lambda *_bytes: None
) -> None:
    size = packed.stat().st_size
    try:
        with packed.open("rb") as file, target.open("xb") as out:
            reader = zstandard.ZstdDecompressor().stream_reader(file)
            while chunk := reader.read(_CHUNK_BYTES):
                out.write(chunk)
                progress(file.tell(), size)
    except zstandard.ZstdError as error:
        raise BackupError(f"{packed.name} cannot be unpacked: {error}") from error


def put_in_place(restored: Path, data_dir: Path, now: float) -> Path | None:
    """Make it the store; returns where the one before now is, if there was one."""
    store, aside = data_dir / FILE, None
    if store.exists():
        when = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = data_dir / f"{FILE}.before-restore-{when}"
        store.rename(aside)
    for log in _LOGS:
        beside = data_dir / (FILE + log)
        if beside.exists() and aside is not None:
            beside.rename(aside.with_name(aside.name + log))
        else:
            beside.unlink(missing_ok=True)  # of a store that is gone, and not of this one
    (data_dir / COMMITS_FILE).unlink(missing_ok=True)  # it is ahead of an older copy
    restored.rename(store)
    sync(data_dir)
    return aside
