"""Numbers of what was acknowledged, kept beside the store to tell what a start did not bring back.

SQLite ends its write-ahead log at the first frame that is damaged, and says nothing: whatever was
committed after it is gone. Each commit therefore enters its number and the store's position here,
once it is on disk. The entry itself is not waited for, so it costs one system call and no fsync:

- After kill -9 the kernel still has it: the newest entry is exact, or one commit behind.
- After a power loss it may be behind by what the kernel had not yet written, half a minute or so. A
  loss is then told too small, or not at all.
- It is never ahead of what was acknowledged. With ``synchronous: NORMAL`` a power loss may take
  acknowledged commits, as that setting says; these are told as well.

Only commits that add queries or corrections move the position; others are lost with the next one
that does, and counted with it.
"""

import os
import struct
from contextlib import suppress
from pathlib import Path

import xxhash

from ragmon.records import Position
from ragmon.stores import Lost

COMMITS_FILE = "commits"

_ENTRIES = 4_096  # commits that the write-ahead log holds, many times over
_entry = struct.Struct("<QQQQ")  # number, sequence, restatement, checksum
_sealed = struct.Struct("<QQQ")


class CommitLog:
    """The newest entries, each in its slot of a small file; of one store, told by its seed."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._path = directory / COMMITS_FILE
        self._seed = seed
        self._file: int | None = None
        self._number = 0

    def begin(self, position: Position) -> None:
        """Start anew from here; what was lost before is forgotten.

        Without the file ragmon works as well, except that it cannot tell a loss.
        """
        self.close()
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            self._number = -1
            self.enter(position.sequence, position.restatement)
            os.fsync(self._file)  # so that no power loss brings back older entries

    def enter(self, sequence: int, restatement: int) -> None:
        """Note a commit that is on disk, with the store's position after it."""
        if self._file is None:
            return
        self._number += 1
        body = _sealed.pack(self._number, sequence, restatement)
        entry = body + xxhash.xxh3_64_digest(body, self._seed)
        try:
            os.pwrite(self._file, entry, self._number % _ENTRIES * _entry.size)
        except OSError:  # the commit itself is safe
            self.close()

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def entries(self) -> dict[int, Position]:
        """Position by number of each entry that is whole and of this store."""
        stored = b""
        with suppress(OSError):
            stored = self._path.read_bytes()[: _ENTRIES * _entry.size]
        entries = {}
        for at in range(0, len(stored) - _entry.size + 1, _entry.size):
            body = stored[at : at + _sealed.size]
            if xxhash.xxh3_64_digest(body, self._seed) == stored[at + _sealed.size :][:8]:
                number, sequence, restatement = _sealed.unpack(body)
                entries[number] = Position(sequence, restatement)
        return entries


def lost_since(entries: dict[int, Position], position: Position) -> Lost:
    """The commits that a store at this position no longer has."""
    if not entries:
        return Lost()
    newest = max(entries)
    there = [
        number
        for number, entered in entries.items()
        if entered.sequence <= position.sequence and entered.restatement <= position.restatement
    ]
    if newest in there:
        return Lost()
    return Lost(
        commits=newest - max(there, default=min(entries) - 1),
        queries=max(0, entries[newest].sequence - position.sequence),
        corrections=max(0, entries[newest].restatement - position.restatement),
    )
