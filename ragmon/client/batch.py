"""Batches: encoded records of one kind, sent at once."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

Line = tuple[int, bytes]
"""The number of a record, in the order of logging, and its JSON; 0 when it comes from disk."""


class RecordKind(str, Enum):
    """Kind of record; the value names its endpoint."""

    QUERY = "queries"
    FEEDBACK = "feedback"
    LABEL = "labels"

    @property
    def path(self) -> str:
        """Path of the endpoint."""
        return f"/v1/{self.value}"


class Batch(NamedTuple):
    """Records of one kind, oldest first, sent as one request and retried as one."""

    kind: RecordKind
    lines: Sequence[Line]
    spooled: bool = False  # read back from disk, so no memory is held for it

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return sum(len(body) for _, body in self.lines)

    def body(self) -> bytes:
        """The request body, as NDJSON."""
        return b"".join(body + b"\n" for _, body in self.lines)

    def split_at(self, count: int) -> tuple[Batch, Batch]:
        """The first ``count`` lines, and the others."""
        first, others = self.lines[:count], self.lines[count:]
        return Batch(self.kind, first, self.spooled), Batch(self.kind, others, self.spooled)

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches for a server that found this one too large."""
        return self.split_at(len(self.lines) // 2)


def cut(lines: Sequence[Line], max_records: int, max_bytes: int) -> int:
    """Number of leading lines that fit one batch; at least one, however large it is."""
    size = 0
    for count, (_, body) in enumerate(lines):
        size += len(body) + 1
        if count == max_records or (count and size > max_bytes):
            return count
    return len(lines)
