"""Delivery of one batch at a time: send it, and act on the response."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from ragmon.client.backoff import Backoff
from ragmon.client.batch import Batch, Line, RecordKind
from ragmon.client.clock import ClientClock
from ragmon.client.counters import LogAccounting
from ragmon.client.pending import PendingRecords
from ragmon.client.responses import Reading, SendOutcome, read

if TYPE_CHECKING:
    from ragmon.client.receipts import ServerReceipt
    from ragmon.client.transport import Transport

_INDEX = re.compile(r"\[[^\[\]]*\]")


class BatchDelivery:
    """One attempt at a time, so that order is kept and a struggling server is not pressed.

    The lock is never held during a request: the thread that closes the monitor can take over what
    waits while the worker hangs in one. It is reentrant, because a log handler of the application
    may close the monitor.
    """

    def __init__(
        self,
        pending: PendingRecords,
        transport: Transport,
        backoff: Backoff,
        accounting: LogAccounting,
        clock: ClientClock,
    ) -> None:
        self._pending = pending
        self._transport = transport
        self._backoff = backoff
        self._accounting = accounting
        self._clock = clock
        self._lock = threading.RLock()
        self._in_flight: Batch | None = None
        self._over = False

    def add(self, kind: RecordKind, line: Line) -> None:
        """Queue one encoded record."""
        with self._lock:
            if self._over:
                self._accounting.drop("closed", 1, len(line[1]))
            else:
                self._pending.add(kind, line)

    @property
    def spooled_bytes(self) -> int:
        """Size of the spool, as last seen."""
        return self._pending.spooled_bytes

    def retry_now(self) -> None:
        """Make the next attempt without our own pause, because a caller waits for delivery."""
        self._backoff.retry_now()

    def oldest(self) -> int | None:
        """The lowest number of a record that is in memory only."""
        with self._lock:
            return self._pending.oldest()

    def step(self, timeout_s: float | None = None) -> float | None:
        """Send at most one batch.

        Args:
            timeout_s: for the request, where shorter than the options say.

        Returns:
            Seconds until the next step is useful; ``None`` when nothing waits.
        """
        with self._lock:
            if self._backoff.failing or self._pending.half_full:
                self._pending.spill(self._clock.now())
            wait = self._backoff.wait_s()
            if wait > 0.0:
                return wait
            batch = self._claim()
        if batch is None:
            return self._pending.rescan_s
        answer = self._transport.post(batch.kind.path, batch.body(), timeout_s)
        with self._lock:
            self._in_flight = None
            if not self._over:
                self._act(batch, read(answer, self._clock.now()))
        return 0.0

    def _claim(self) -> Batch | None:
        if self._over:
            return None
        if self._in_flight is not None:  # A step that failed unexpectedly has left it.
            self._pending.put_back(self._in_flight)
        self._in_flight = self._pending.next_batch(self._clock.monotonic())
        return self._in_flight

    def give_up(self, reason: str) -> None:
        """Leave on disk, or count as dropped, everything that waits and the batch under way."""
        with self._lock:
            self._over = True
            if self._in_flight is not None:
                self._pending.put_back(self._in_flight)
            self._pending.give_up(reason, self._clock.now())
        self._transport.abort()

    def close(self) -> None:
        """Close the connection, when no request is under way any more."""
        self._transport.close()

    def forget(self) -> None:
        """After a fork, in the child: close the parent's files and connection.

        Without the lock, which a thread that the child does not have may hold.
        """
        self._pending.forget()
        self._transport.forget()

    def _act(self, batch: Batch, reading: Reading) -> None:
        if reading.outcome in (SendOutcome.RETRY, SendOutcome.BLOCKED):
            self._postpone(batch, reading)
            return
        self._backoff.succeeded()
        self._accounting.succeeded()
        if reading.outcome is SendOutcome.SPLIT:
            self._split(batch)
        else:
            self._acknowledge(batch, reading.receipt)

    def _postpone(self, batch: Batch, reading: Reading) -> None:
        self._pending.put_back(batch)
        self._accounting.failed(reading.reason)
        if reading.outcome is SendOutcome.BLOCKED:
            self._backoff.blocked()
        else:
            self._backoff.failed(reading.retry_after_s)
        self._accounting.notices.warn_once(
            f"postponed {reading.reason}",
            "ragmon: %s; records are buffered; once the buffer is full they are dropped and "
            "counted",
            reading.reason,
        )

    def _split(self, batch: Batch) -> None:
        if len(batch.lines) > 1:
            self._pending.put_back(*batch.halves())
            return
        self._accounting.drop("too_large", 1, batch.size, spooled=batch.spooled)
        self._pending.settled(batch)
        self._accounting.notices.warn_once(
            "too large",
            "ragmon: a record of %d bytes is too large for the server and was dropped",
            batch.size,
        )

    def _acknowledge(self, batch: Batch, receipt: ServerReceipt | None) -> None:
        records = len(batch.lines)
        known = min(receipt.duplicates, records) if receipt else 0
        sent = min(receipt.accepted + known, records) if receipt else 0
        self._accounting.delivered(sent, batch.size, known, spooled=batch.spooled)
        if sent < records:
            self._accounting.drop("rejected", records - sent, 0, spooled=batch.spooled)
        self._pending.settled(batch)
        if receipt is not None:
            self._pass_on(receipt)

    def _pass_on(self, receipt: ServerReceipt) -> None:
        """Log what the server rejected or ignored, once for each field."""
        for rejection in receipt.rejected:
            field = _INDEX.sub("[]", rejection.field)
            self._accounting.notices.warn_once(
                f"rejected {field}",
                "ragmon: records are rejected: `%s`: %s",
                rejection.field,
                rejection.error,
            )
        for name in receipt.ignored_fields or ():
            self._accounting.notices.warn_once(
                f"ignored {name}", "ragmon: the server knows no field %s", _hint(receipt, name)
            )


def _hint(receipt: ServerReceipt, name: str) -> str:
    """A field the server ignored, with the name it takes to be meant."""
    known = receipt.ignored_fields
    nearest = known.get(name) if isinstance(known, dict) else None
    return f"`{name}` (meant `{nearest}`?)" if nearest else f"`{name}`"
