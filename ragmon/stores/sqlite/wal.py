"""The write-ahead log as the last process left it, read as SQLite reads it when it recovers.

https://sqlite.org/fileformat2.html#walformat: SQLite takes frames up to the first whose salts or
running checksum are wrong, and of these the ones up to the last that ends a transaction.
"""

import struct
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

_header = struct.Struct(">8I")  # magic, version, page size, checkpoint, salts, checksum
_frame = struct.Struct(">6I")  # page, pages after a commit or 0, salts, checksum
_MAGIC = 0x377F0682  # the lowest bit: words of the checksum are big-endian
_SUMMED_BYTES = 8  # of the head of a frame

Words = NDArray[np.uint32]


class WalContent(NamedTuple):
    """Content of a log."""

    commits: int = 0  # that SQLite recovers
    unread_bytes: int = 0  # written after the last of them: damaged, or never finished


def wal_content(path: Path) -> WalContent:
    """Content of the log of a database that nobody has opened; nothing without a log."""
    try:
        with path.with_name(path.name + "-wal").open("rb") as file:
            return _content(file)
    except OSError:
        return WalContent()


def _content(file: IO[bytes]) -> WalContent:
    head = file.read(_header.size)
    if len(head) < _header.size:
        return WalContent()
    magic, _, page_bytes, _, *salts, _, _ = _header.unpack(head)
    if magic & ~1 != _MAGIC or not 512 <= page_bytes <= 65_536 or page_bytes % 512:
        return WalContent(unread_bytes=len(head) + len(file.read()))
    order = np.dtype(">u4" if magic & 1 else "<u4")
    checksum = _Checksum(order)
    whole = checksum.add(head[:24]) == _header.unpack(head)[6:]
    commits = unread = 0
    while len(frame := file.read(_frame.size + page_bytes)) == _frame.size + page_bytes:
        _, ends, *mine = _frame.unpack_from(frame)
        if mine[:2] != salts:
            break  # of the log before, whose space this one uses again
        added = checksum.add(frame[:_SUMMED_BYTES] + frame[_frame.size :]) if whole else None
        whole = whole and added == tuple(mine[2:])
        unread += len(frame)
        if whole and ends:
            commits, unread = commits + 1, 0
    return WalContent(commits, unread)


class _Checksum:
    """The running checksum of a log.

    Each pair of words (a, b) takes (s, t) to (s + t + a, s + 2t + a + b), modulo 2³². Repeated, the
    factors are Fibonacci numbers, so that a page is two dot products instead of a loop.
    """

    def __init__(self, order: np.dtype[np.uint32]) -> None:
        self._order = order
        self._state = (0, 0)
        self._factors: dict[int, tuple[Words, Words, list[int]]] = {}

    def add(self, content: bytes) -> tuple[int, int]:
        """The sums with more content."""
        words = np.frombuffer(content, self._order).astype(np.uint32)
        if len(words) not in self._factors:
            self._factors[len(words)] = _factors(len(words))
        first, second, (before, at, after) = self._factors[len(words)]
        s, t = self._state
        self._state = (
            (before * s + at * t + int((words * first).sum(dtype=np.uint32))) & 0xFFFFFFFF,
            (at * s + after * t + int((words * second).sum(dtype=np.uint32))) & 0xFFFFFFFF,
        )
        return self._state


def _factors(words: int) -> tuple[Words, Words, list[int]]:
    """Factors of each word in both sums, and those of the state before."""
    fibonacci = [0, 1]
    while len(fibonacci) < words + 2:
        fibonacci.append((fibonacci[-1] + fibonacci[-2]) & 0xFFFFFFFF)
    numbers = np.array(fibonacci, dtype=np.uint32)
    pairs = words // 2
    first, second = np.empty(words, np.uint32), np.empty(words, np.uint32)
    left = 2 * np.arange(pairs - 1, -1, -1)
    first[0::2], first[1::2] = numbers[left + 1], numbers[left]
    second[0::2], second[1::2] = numbers[left + 2], numbers[left + 1]
    return first, second, [int(each) for each in numbers[words - 1 : words + 2]]
