"""Records that wait to be sent: on disk first, then in memory."""

from __future__ import annotations

from ragmon.client.backlog import Backlog
from ragmon.client.batch import Batch, Line, RecordKind
from ragmon.client.counters import LogAccounting
from ragmon.client.options import Options
from ragmon.client.outbox import MemoryQueue


class PendingRecords:
    """One order over memory and disk: what is on disk was logged earlier.

    Args:
        options: the sizes of a batch and of the buffer.
        backlog: the disk; ``None`` without ``spool_dir``.
        accounting: counts the records that move.
    """

    def __init__(
        self, options: Options, backlog: Backlog | None, accounting: LogAccounting
    ) -> None:
        self._outbox = MemoryQueue(options.max_batch_records, options.max_batch_bytes)
        self._backlog = backlog
        self._accounting = accounting
        self._rescan_s = options.spool_scan_s
        self._half_records = options.max_buffer_records // 2
        self._half_bytes = options.max_buffer_bytes // 2

    @property
    def spooled_bytes(self) -> int:
        """Size of the spool, as last seen."""
        return self._backlog.bytes_seen if self._backlog else 0

    @property
    def rescan_s(self) -> float | None:
        """Seconds between looks at the disk when nothing waits; ``None`` without a disk."""
        return self._rescan_s if self._backlog else None

    @property
    def half_full(self) -> bool:
        """True when the memory is half full while the disk is being delivered."""
        return (
            self._backlog is not None
            and self._backlog.pending
            and (
                self._accounting.queued > self._half_records
                or self._accounting.queued_bytes > self._half_bytes
            )
        )

    def add(self, kind: RecordKind, line: Line) -> None:
        """Append one encoded record."""
        self._outbox.add(kind, line)

    def next_batch(self, now: float) -> Batch | None:
        """Take the oldest batch; ``now`` is monotonic seconds."""
        batch = self._backlog.next_batch(now) if self._backlog else None
        return batch or self._outbox.next_batch()

    def put_back(self, *batches: Batch) -> None:
        """Queue batches to come next, in this order."""
        if batches[0].spooled and self._backlog is not None:
            self._backlog.put_back(*batches)
        else:
            self._outbox.put_back(*batches)

    def settled(self, batch: Batch) -> None:
        """Finish the batch last taken."""
        if batch.spooled and self._backlog is not None:
            self._backlog.settled()

    def spill(self, now: float) -> None:
        """Move the memory to disk, as far as there is a disk with room; ``now`` is unix seconds."""
        if self._backlog is None:
            return
        while (batch := self._outbox.next_batch()) is not None:
            left = self._backlog.append(batch, now)
            if left is not None:
                self._outbox.put_back(left)
                return

    def give_up(self, reason: str, now: float) -> None:
        """Leave everything on disk, and count what does not fit as dropped for ``reason``."""
        self.spill(now)
        while (batch := self._outbox.next_batch()) is not None:
            self._accounting.drop(reason, len(batch.lines), batch.size)
        if self._backlog is not None:
            self._backlog.release()

    def forget(self) -> None:
        """After a fork, in the child: the files are the parent's."""
        if self._backlog is not None:
            self._backlog.release()

    def oldest(self) -> int | None:
        """The lowest number of a record still in memory."""
        return self._outbox.oldest()
