"""Bounded queue from the application to the worker; putting a record takes a microsecond."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ragmon.client.batch import RecordKind
from ragmon.client.counters import LogAccounting
from ragmon.client.options import Options


class Item(NamedTuple):
    """One call, as the caller's thread left it."""

    kind: RecordKind
    arguments: dict[str, object]
    weight: int  # bytes, estimated


class Inbox:
    """The bounded queue between the application and the worker.

    The bound counts everything held in memory, also what the worker has already encoded.
    """

    def __init__(self, accounting: LogAccounting, options: Options) -> None:
        self._accounting = accounting
        self._max_records = options.max_buffer_records
        self._max_bytes = options.max_buffer_bytes
        self._batch_records = options.max_batch_records
        self._batch_bytes = options.max_batch_bytes
        self._items: deque[Item] = deque()
        self._weight = 0
        self._shut = ""
        self.accepted = 0

    def put(self, kind: RecordKind, arguments: dict[str, object], weight: int) -> bool:
        """Queue one record, or count it as dropped.

        Returns:
            True when the worker has a reason to wake: the first record, or a full batch.
        """
        accounting = self._accounting
        with accounting.lock:
            accounting.logged += 1
            if self._shut:
                accounting.dropped[self._shut] += 1
                return False
            if (
                accounting.queued >= self._max_records
                or accounting.queued_bytes + weight > self._max_bytes
            ):
                accounting.dropped["buffer_full"] += 1
                return False
            accounting.queued += 1
            accounting.queued_bytes += weight
            self.accepted += 1
            self._items.append(Item(kind, arguments, weight))
            before, self._weight = self._weight, self._weight + weight
            waiting = len(self._items)
            return waiting in (1, self._batch_records) or before < self._batch_bytes <= self._weight

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """True when a batch is complete, so that it need not wait for more records."""
        return len(self._items) >= self._batch_records or self._weight >= self._batch_bytes

    def take(self) -> list[Item]:
        """Everything that waits, oldest first."""
        with self._accounting.lock:
            taken, self._items = self._items, deque()
            self._weight = 0
        return list(taken)

    def close(self, reason: str) -> None:
        """Refuse records from now on, counting them as dropped for ``reason``."""
        with self._accounting.lock:
            self._shut = reason
