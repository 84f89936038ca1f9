"""Encoded records in memory, oldest first."""

from __future__ import annotations

from collections import deque
from itertools import islice

from ragmon.client.batch import Batch, Line, RecordKind, cut


class MemoryQueue:
    """Lines by kind, and before them the batches that have to be sent again.

    Args:
        max_records: of one batch.
        max_bytes: of one batch.
    """

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._lines: dict[RecordKind, deque[Line]] = {kind: deque() for kind in RecordKind}
        self._again: deque[Batch] = deque()

    def add(self, kind: RecordKind, line: Line) -> None:
        """Append one record."""
        self._lines[kind].append(line)

    def next_batch(self) -> Batch | None:
        """Take the next batch: of the kind whose oldest record is the oldest of all."""
        if self._again:
            return self._again.popleft()
        waiting = [(lines[0][0], kind) for kind, lines in self._lines.items() if lines]
        if not waiting:
            return None
        _, kind = min(waiting)
        lines = self._lines[kind]
        first = list(islice(lines, self._max_records))
        count = cut(first, self._max_records, self._max_bytes)
        for _ in range(count):
            lines.popleft()
        return Batch(kind, first[:count])

    def put_back(self, *batches: Batch) -> None:
        """Queue batches to come next, in this order."""
        self._again.extendleft(reversed(batches))

    def oldest(self) -> int | None:
        """The lowest number of a record in here."""
        heads = [lines[0][0] for lines in self._lines.values() if lines]
        heads += [batch.lines[0][0] for batch in self._again]
        return min(heads, default=None)
