"""A log file as it is read: plain, or compressed by rotation while its end was not read yet.

Compressed files are decompressed as they are read, in bounded memory, and the state of it outlives
the step: the next one goes on where this one ended. The file itself is open for a step alone.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import xxhash
import zstandard
from msgspec import Struct

COMPRESSED = (".gz", ".zst")
"""Ends of the names of compressed files that are read."""

_HEAD_BYTES = 256
_RAW_BYTES = 1 << 16
_FED_BYTES = 512  # of zstd at a time: a block of four bytes can stand for 128 KiB
_WINDOW_BYTES = 1 << 20  # kept behind what is read, since lines are read again from their beginning


class FilePosition(Struct, frozen=True):
    """A position in one particular file, known by its inode and its first bytes."""

    inode: int
    offset: int
    head: int  # hash of the first ``head_bytes``
    head_bytes: int
    modified_ns: int = 0  # of the file when it was first read; 0: not known


class Inflater(Protocol):
    """Decompressor of a stream, some bytes at a time."""

    def decompress(self, data: bytes) -> bytes:
        """The bytes that ``data`` adds."""
        ...


class DecompressedStream:
    """The decompressed bytes of one file around the place where it is read."""

    def __init__(self, suffix: str) -> None:
        self.is_damaged = False
        self._new = _INFLATERS[suffix]
        self._is_over = False
        self._reset()

    def read_at(self, file: BinaryIO, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from an offset; fewer at the end, or before what is damaged."""
        if offset < self._start:
            self._reset()
        if self._is_over and not self.is_damaged:
            self._is_over = os.fstat(file.fileno()).st_size <= self._raw_at
        while not self._is_over and self._start + len(self._window) < offset + size:
            self._window += self._more(file)
            behind = min(offset - self._start, len(self._window)) - _WINDOW_BYTES
            if behind > 0:
                del self._window[:behind]
                self._start += behind
        at = offset - self._start
        return bytes(self._window[at : at + size])

    def _reset(self) -> None:
        self._inflater = self._new()
        self._raw_at = 0
        self._raw = b""
        self._start = 0  # offset of the window
        self._window = bytearray()
        self._is_over = self.is_damaged = False

    def _more(self, file: BinaryIO) -> bytes:
        if not self._raw:
            file.seek(self._raw_at)
            self._raw = file.read(_RAW_BYTES)
            self._raw_at += len(self._raw)
        fed, self._raw = self._raw[:_FED_BYTES], self._raw[_FED_BYTES:]
        self._is_over = not fed
        try:
            return self._inflater.decompress(fed) if fed else b""
        except (zlib.error, zstandard.ZstdError):
            self._is_over = self.is_damaged = True  # what came before it is good
            return b""


class _Gunzip:
    """Members one after another, as ``gzip`` appends them."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes) -> bytes:
        """The bytes that ``data`` adds."""
        inflated = self._member.decompress(data)
        while self._member.eof and (data := self._member.unused_data.lstrip(b"\0")):
            self._member = zlib.decompressobj(wbits=31)
            inflated += self._member.decompress(data)
        return inflated


def _unzstd() -> Inflater:
    inflater: Inflater = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    return inflater


_INFLATERS: dict[str, Callable[[], Inflater]] = {".gz": _Gunzip, ".zst": _unzstd}


class OpenLog:
    """A log file during one step."""

    def __init__(self, file: BinaryIO, stream: DecompressedStream | None) -> None:
        status = os.fstat(file.fileno())
        self.inode = status.st_ino
        self.modified_ns = status.st_mtime_ns
        self._size = status.st_size
        self._file = file
        self._stream = stream

    def read_at(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from an offset; fewer at the end."""
        if self._stream is not None:
            return self._stream.read_at(self._file, offset, size)
        self._file.seek(offset)
        return self._file.read(size)

    def position(self, offset: int, before: FilePosition | None = None) -> FilePosition:
        """A position in this file, with as much of its head as is there.

        Args:
            offset: in bytes, decompressed.
            before: the last position in it; None: it is the first.
        """
        head = self._head(_HEAD_BYTES)
        first_ns = before.modified_ns if before is not None else self.modified_ns
        digest = xxhash.xxh3_64_intdigest(head)
        return FilePosition(self.inode, offset, digest, len(head), min(first_ns, self.modified_ns))

    @property
    def is_damaged(self) -> bool:
        """True for a compressed file of which the rest cannot be decompressed."""
        return self._stream is not None and self._stream.is_damaged

    def continues(self, place: FilePosition) -> bool:
        """True when it begins as it did, and is long enough to contain the position."""
        if self._stream is None and self._size < place.offset:
            return False
        head = self._head(place.head_bytes)
        return (xxhash.xxh3_64_intdigest(head), len(head)) == (place.head, place.head_bytes)

    def _head(self, size: int) -> bytes:
        if self._stream is None:
            return self.read_at(0, size)
        return DecompressedStream(self._suffix).read_at(self._file, 0, size)

    @property
    def _suffix(self) -> str:
        return Path(self._file.name).suffix


class LogOpener:
    """Opens log files; the state of the compressed one that is read is kept for the next step."""

    def __init__(self) -> None:
        self._inode = 0
        self._stream: DecompressedStream | None = None

    @contextmanager
    def open(self, path: Path) -> Iterator[OpenLog]:
        """A file for one step.

        Raises:
            OSError: it cannot be opened.
        """
        with path.open("rb") as file:
            stream = None
            if path.suffix in COMPRESSED:
                inode = os.fstat(file.fileno()).st_ino
                if self._stream is None or inode != self._inode:
                    self._inode, self._stream = inode, DecompressedStream(path.suffix)
                stream = self._stream
            yield OpenLog(file, stream)
