"""Making a backup: a consistent copy beside the running daemon, checked, compressed, stored."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import zstandard

from ragmon.backups import CHECKSUM, Backup, BackupError, BackupPlace, backup_name, keep_newest
from ragmon.backups.scratch import scratch_folder
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.verification import verify

COPYING, COMPRESSING, STORING = "Copying", "Compressing", "Storing"
"""Stages of a backup that are measured in bytes; between the first two it is checked."""

StageProgress = Callable[[str, int, int], None]

_LEVEL = 3
_CHUNK_BYTES = 1 << 20


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Take no notice."""


class BackupMade(NamedTuple):
    """The result of one run."""

    backup: Backup
    store_bytes: int
    records: int
    deleted: list[str]  # older ones


def make(
    store: Path,
    place: BackupPlace,
    now: float,
    *,
    keep: int,
    scratch: Path,
    progress: StageProgress = no_progress,
) -> BackupMade:
    """Make one backup, and delete those beyond ``keep``.

    Args:
        store: of the daemon, which may run.
        place: to put it.
        now: Unix seconds, for its name.
        keep: how many to keep, with this one.
        scratch: directory with room for a copy of the store and for the backup.
        progress: called with the stage, how much of it is done, and of how much.

    Raises:
        StoreError: the store cannot be read.
        BackupError: the copy is damaged, or the place does not take it. No older one was deleted.
    """
    try:
        with scratch_folder(scratch) as folder:
            copy, packed = folder / "copy.sqlite", folder / backup_name(now)
            with SqliteReader(store) as reader:
                reader.backup(copy, partial(progress, COPYING))
            records = _check(copy, progress)
            digest = compress(copy, packed, partial(progress, COMPRESSING))
            checksum = packed.with_name(packed.name + CHECKSUM)
            checksum.write_text(f"{digest}  {packed.name}\n", encoding="ascii")
            backup = Backup(packed.name, now, packed.stat().st_size)
            store_bytes = copy.stat().st_size
            progress(STORING, 0, 0)
            place.put(packed, packed.name)
            place.put(checksum, checksum.name)
    except OSError as error:
        raise BackupError(
            f"cannot write to {scratch}: {error.strerror or error}",
            hint="It needs room for a copy of the store; set TMPDIR to another directory",
        ) from error
    _check_stored(place, backup)
    return BackupMade(backup, store_bytes, records, keep_newest(place, keep))


def _check(copy: Path, progress: StageProgress) -> int:
    """Check a copy as ``ragmon verify`` does; returns how many records it holds."""
    result = verify(copy, progress)
    if not result.sound:
        finding = result.findings[0]
        raise BackupError(
            f"the store is damaged: {finding.what} {finding.row}: {finding.problem}"
            f" ({len(result.findings) + result.more_findings} findings); no backup was made and"
            " none deleted",
            hint="Run ragmon verify; `ragmon backup FILE` copies the store as it is",
        )
    return result.records


def _check_stored(place: BackupPlace, backup: Backup) -> None:
    """Compare the size of what arrived; its checksum is checked when it is restored."""
    sizes = {file.name: file.size_bytes for file in place.files()}
    if sizes.get(backup.name) != backup.size_bytes or backup.name + CHECKSUM not in sizes:
        raise BackupError(
            f"{place.url} does not show {backup.name} with {backup.size_bytes:,} bytes after it"
            " was written",
            hint="No older backup was deleted; check the place",
        )


def compress(
    source: Path, target: Path, progress: Callable[[int, int], None] = lambda *_bytes: None
) -> str:
    """Compress a file, read it back, and return the SHA-256 of the compressed one.

    Args:
        source: of the bytes.
        target: a new file.
        progress: called with the bytes that are done, and with all; each counts when it is
            compressed and when it is read back.

    Raises:
        BackupError: what was written is not what was read.
    """
    content, packed = hashlib.sha256(), hashlib.sha256()
    size, done = source.stat().st_size, 0
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj(size=size)
    with source.open("rb") as file, target.open("xb") as out:
        while chunk := file.read(_CHUNK_BYTES):
            content.update(chunk)
            _write(out, packed, compressor.compress(chunk))
            done += len(chunk)
            progress(done, 2 * size)
        _write(out, packed, compressor.flush())
    again = hashlib.sha256()
    with target.open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file)
        while chunk := reader.read(_CHUNK_BYTES):
            again.update(chunk)
            done += len(chunk)
            progress(done, 2 * size)
    if again.digest() != content.digest():
        raise BackupError(f"{target} is not what was written", hint="Check the disk and the memory")
    return packed.hexdigest()


def _write(out: IO[bytes], digest: "hashlib._Hash", content: bytes) -> None:
    digest.update(content)
    out.write(content)
