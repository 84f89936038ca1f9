"""Files that outlive the process, each written by one process and read by one.

A file holds one record a line. While its writer lives it holds the file's lock; the kernel lets
go of the lock however the writer ends, and then another process may take the file over. A write
cut short by a crash leaves an unfinished last line, which readers leave out.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ragmon.client.file_locks import OPEN_FLAGS, delete, lock, read

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".spool"
_SEGMENT_BYTES = 4 << 20


class Segment:
    """One file, locked by us.

    Args:
        path: whose name orders it by age.
        fd: open for reading and writing.
        size: in bytes.
        ours: True when this process wrote it.
    """

    def __init__(self, path: Path, fd: int, size: int, *, ours: bool) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.ours = ours

    def lines(self) -> list[bytes]:
        """The complete lines, oldest first."""
        return read(self.fd, self.size).split(b"\n")[:-1]


class Spool:
    """The part of a directory that this process writes, and what others have left there.

    Args:
        directory: made when first needed; readable by its owner alone, as questions are private.
        max_bytes: of all files in it; with several writers, up to one write each beyond.
        segment_bytes: size of a write, and at which the next file is begun.
    """

    def __init__(
        self, directory: Path, max_bytes: int, segment_bytes: int = _SEGMENT_BYTES
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._ours: deque[Segment] = deque()
        self._sealed = True  # whether the newest of ours is complete
        self.bytes_seen = 0

    def append(self, lines: Sequence[bytes], now: float) -> int:
        """Write records, as many as there is room for, and fsync them.

        Args:
            lines: without their newlines, oldest first.
            now: unix seconds; orders the files.

        Returns:
            How many of the first are on disk.

        Raises:
            OSError: the disk refused before any was written.
        """
        affordable = _fitting(lines, self._max_bytes - self._used())
        written = 0
        while written < len(affordable):
            rest = affordable[written:]
            part = _fitting(rest, self._segment_bytes) or rest[:1]
            try:
                self._write(self._writable(now), part)
            except OSError:
                self._sealed = True
                if not written:
                    raise
                break
            written += len(part)
        return written

    def oldest(self, *, adopt: bool) -> Segment | None:
        """The oldest file to deliver, sealed and ours until it is discarded or released.

        Args:
            adopt: whether to look for files whose writers have ended.
        """
        if adopt and (orphan := self._orphan()) is not None:
            return orphan
        if not self._ours:
            return None
        if len(self._ours) == 1:
            self._sealed = True
        return self._ours.popleft()

    def discard(self, segment: Segment) -> None:
        """Delete a file that is delivered."""
        delete(segment.path, segment.fd)
        self.bytes_seen = max(0, self.bytes_seen - segment.size)

    def release(self, *segments: Segment) -> None:
        """Unlock these files and ours; they stay for another process."""
        for segment in (*segments, *self._ours):
            os.close(segment.fd)
        self._ours.clear()
        self._sealed = True

    @property
    def holds_ours(self) -> bool:
        """True when this process has written files that are not yet read back."""
        return bool(self._ours)

    def _used(self) -> int:
        """Bytes in the directory, by all processes."""
        if self._directory.is_dir():
            with os.scandir(self._directory) as entries:
                self.bytes_seen = sum(_size(each) for each in entries)
        return self.bytes_seen

    def _writable(self, now: float) -> Segment:
        if self._sealed:
            self._ours.append(self._create(now))
            self._sealed = False
        return self._ours[-1]

    def _create(self, now: float) -> Segment:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            name = f"{int(now * 1e6):017d}-{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"
            path = self._directory / name
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | OPEN_FLAGS
            fd = os.open(path, flags, 0o600)
            if lock(fd):
                return Segment(path, fd, 0, ours=True)
            os.close(fd)  # Another process took the empty file for an orphan.

    def _write(self, segment: Segment, lines: Sequence[bytes]) -> None:
        """Append lines and make them durable; when that fails the file is as it was."""
        data = b"".join(line + b"\n" for line in lines)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(segment.fd, view) :]
            os.fsync(segment.fd)
        except OSError:
            with suppress(OSError):  # What cannot be cut off is beyond our size, so not read.
                os.ftruncate(segment.fd, segment.size)
            raise
        segment.size += len(data)
        self.bytes_seen += len(data)
        self._sealed = segment.size >= self._segment_bytes

    def _orphan(self) -> Segment | None:
        """The oldest file whose writer has ended, now locked by us."""
        if not self._directory.is_dir():
            return None
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            segment = _adopted(path)
            if segment is not None and segment.size == 0:
                self.discard(segment)
            elif segment is not None:
                return segment
        return None


def _adopted(path: Path) -> Segment | None:
    """The file, unless its writer lives or another process was faster."""
    try:
        fd = os.open(path, os.O_RDWR | OPEN_FLAGS)
    except OSError:
        return None
    facts = os.fstat(fd)
    if stat.S_ISREG(facts.st_mode) and lock(fd) and os.fstat(fd).st_nlink > 0:
        return Segment(path, fd, os.fstat(fd).st_size, ours=False)
    os.close(fd)
    return None


def _fitting(lines: Sequence[bytes], space: int) -> list[bytes]:
    """The first lines that fit into ``space`` bytes."""
    fitting = []
    for line in lines:
        space -= len(line) + 1
        if space < 0:
            break
        fitting.append(line)
    return fitting


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size if entry.name.endswith(_SUFFIX) else 0
    except FileNotFoundError:
        return 0  # Another process delivered it in between.
