"""Batches that wait on disk."""

from __future__ import annotations

from collections import deque

from ragmon.client.batch import Batch, RecordKind, cut
from ragmon.client.counters import LogAccounting
from ragmon.client.options import Options
from ragmon.client.spool import Segment, Spool

_MARKS = {kind: kind.value[:1].encode() for kind in RecordKind}
"""The first byte of a line on disk, by kind."""

_KINDS = {mark: kind for kind, mark in _MARKS.items()}


class Backlog:
    """Batches to and from the spool; one file at a time is read back.

    A file is deleted once all of it is acknowledged. A process that dies before that leaves it
    whole, and the server recognises what it already has.
    """

    def __init__(self, spool: Spool, accounting: LogAccounting, options: Options) -> None:
        self._spool = spool
        self._accounting = accounting
        self._options = options
        self._segment: Segment | None = None
        self._batches: deque[Batch] = deque()
        self._next_scan = 0.0

    @property
    def bytes_seen(self) -> int:
        """Size of the directory, as last looked at."""
        return self._spool.bytes_seen

    @property
    def pending(self) -> bool:
        """True while records of this process, or of a file taken over, wait."""
        return self._segment is not None or self._spool.holds_ours

    def append(self, batch: Batch, now: float) -> Batch | None:
        """Move a batch from memory to disk.

        Args:
            batch: the oldest in memory.
            now: unix seconds.

        Returns:
            The part that did not fit, to be kept in memory; None when all of it did.
        """
        mark = _MARKS[batch.kind]
        try:
            count = self._spool.append([mark + body for _, body in batch.lines], now)
        except OSError as error:
            self._warn("write", error)
            count = 0
        written, left = batch.split_at(count)
        self._accounting.spool(len(written.lines), written.size)
        return left if left.lines else None

    def next_batch(self, now: float) -> Batch | None:
        """Take the oldest batch.

        Args:
            now: monotonic seconds; decides whether to look for files of ended processes.
        """
        try:
            while not self._batches:
                if not self._open(now):
                    return None
        except OSError as error:
            self._warn("read", error)
            return None
        return self._batches.popleft()

    def put_back(self, *batches: Batch) -> None:
        """Queue batches to come next, in this order."""
        self._batches.extendleft(reversed(batches))

    def settled(self) -> None:
        """Finish the batch last taken."""
        if not self._batches and self._segment is not None:
            segment, self._segment = self._segment, None
            try:
                self._spool.discard(segment)
            except OSError as error:
                self._warn("delete a file of", error)

    def release(self) -> None:
        """Leave the files to another process."""
        self._spool.release(*([self._segment] if self._segment else []))
        self._segment = None
        self._batches.clear()

    def _open(self, now: float) -> bool:
        """Load the oldest file; False when there is none."""
        scan = now >= self._next_scan
        segment = self._spool.oldest(adopt=scan)
        if scan and (segment is None or segment.ours):
            self._next_scan = now + self._options.spool_scan_s
        if segment is None:
            return False
        self._segment = segment
        self._load(segment)
        if not self._batches:
            self.settled()
        return True

    def _load(self, segment: Segment) -> None:
        lines = segment.lines()
        if not segment.ours:
            self._accounting.recover(len(lines))
        whole = [line for line in lines if line[:1] in _KINDS and line.endswith(b"}")]
        if len(whole) < len(lines):
            self._accounting.drop("spool_corrupt", len(lines) - len(whole), 0, spooled=True)
        for mark, kind in _KINDS.items():
            self._cut(Batch(kind, [(0, line[1:]) for line in whole if line[:1] == mark], True))

    def _cut(self, batch: Batch) -> None:
        """Queue what a file holds of one kind, in batches of the usual size."""
        options = self._options
        while batch.lines:
            count = cut(batch.lines, options.max_batch_records, options.max_batch_bytes)
            first, batch = batch.split_at(count)
            self._batches.append(first)

    def _warn(self, action: str, error: OSError) -> None:
        text = "ragmon: cannot %s the spool: %s"
        self._accounting.notices.warn_once(f"spool {action}", text, action, error)
