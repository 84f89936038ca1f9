"""Background thread that encodes and sends records."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from ragmon.client.clock import ClientClock
from ragmon.client.counters import ErrorBoundary
from ragmon.client.delivery import BatchDelivery
from ragmon.client.encode import Encoder
from ragmon.client.inbox import Inbox

_AFTER_FAILURE_S = 1.0
_RECORDS_A_SLICE = 16


class SendingThread:
    """Encodes the records of the inbox and has them delivered, a turn at a time.

    The thread starts with the first record, so a process that only forks others never has one.
    It is a daemon: it cannot keep the process alive.

    Args:
        inbox: records of the application.
        encoder: encodes them as lines.
        delivery: sends the lines.
        boundary: catches unexpected errors, so that the thread goes on.
        clock: its monotonic time is read.
        flush_interval_s: how long the first record waits for others.
    """

    def __init__(
        self,
        inbox: Inbox,
        encoder: Encoder,
        delivery: BatchDelivery,
        boundary: ErrorBoundary,
        clock: ClientClock,
        *,
        flush_interval_s: float,
    ) -> None:
        self._inbox = inbox
        self._encoder = encoder
        self._delivery = delivery
        self._boundary = boundary
        self._clock = clock
        self._flush_interval_s = flush_interval_s
        # SimpleQueue.put is reentrant, Event.set is not: a signal handler may log a query.
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._progress = threading.Condition()
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._due: float | None = None
        self._taken = 0  # number of the last record taken from the inbox
        self._settled = 0  # every record up to this number has left the memory
        self._awaited = 0  # the record that a caller waits for
        self._retry_requested = False
        self._at_rest = True  # nothing can be done right now: all is sent, or it is our pause

    def wake(self) -> bool:
        """Have a turn made soon; False when the interpreter admits no thread any more."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name="ragmon-client", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # The interpreter is shutting down.
                    return False
                self._thread = thread
        self._wakeups.put(None)
        return True

    def turn(self, timeout_s: float | None = None) -> float | None:
        """Collect what is due and send at most one batch.

        Args:
            timeout_s: for the request, where shorter than the options say.

        Returns:
            Seconds until the next turn is useful; ``None`` when only a new record makes it so.
        """
        self._at_rest = False
        if self._retry_requested:
            self._retry_requested = False
            self._delivery.retry_now()
        linger = self._linger_s()
        if linger == 0.0:
            self.collect()
            linger = None
        wait = self._delivery.step(timeout_s)
        oldest = self._delivery.oldest()
        with self._progress:
            self._settled = self._taken if oldest is None else oldest - 1
            self._at_rest = wait != 0.0
            self._progress.notify_all()
        return min((each for each in (wait, linger) if each is not None), default=None)

    def collect(self) -> None:
        """Encode what is in the inbox."""
        self._due = None
        for item in self._inbox.take():
            self._taken += 1
            if self._taken % _RECORDS_A_SLICE == 0:
                self._clock.sleep(0.0)  # Lets the threads run that answer users.
            line = self._encoder.encode(item)
            if line is not None:
                self._delivery.add(item.kind, (self._taken, line))

    def flush(self, timeout_s: float, *, disk: bool = False) -> bool:
        """Wait until what was logged so far has left the memory.

        Args:
            timeout_s: how long at most.
            disk: wait also for what is on disk, while the server takes it.

        Returns:
            True when it has left: acknowledged, refused, or on disk.
        """
        target = self._inbox.accepted

        def reached() -> bool:
            return self._settled >= target and (self._at_rest or not disk)

        if reached():
            return True
        if threading.current_thread() is self._thread:
            return False  # A log handler, say: it would wait for itself.
        self._awaited = max(self._awaited, target)
        self.request_retry()
        if not self.wake():
            self._drain(reached, timeout_s)
        else:
            with self._progress:
                self._progress.wait_for(reached, timeout_s)
        return self._settled >= target

    def hasten(self) -> None:
        """Send each record at once from now on; usable from a signal handler."""
        self._flush_interval_s = 0.0
        self._due = None
        if len(self._inbox):
            self.wake()

    def request_retry(self) -> None:
        """Have the next turn try at once, where the server allows it, because a caller waits."""
        self._retry_requested = True

    def stop(self, timeout_s: float) -> None:
        """End the thread, unless it hangs in a request for longer than ``timeout_s``."""
        self._stopping = True
        self._wakeups.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping:
            wait: float | None = _AFTER_FAILURE_S
            with self._boundary:
                wait = self.turn()
            self._rest(wait)

    def _drain(self, reached: Callable[[], bool], timeout_s: float) -> None:
        """Do the thread's work on the thread that waits for it."""
        deadline = self._clock.monotonic() + timeout_s
        while (left := deadline - self._clock.monotonic()) > 0.0:
            wait: float | None = _AFTER_FAILURE_S
            with self._boundary:
                wait = self.turn(left)
            if reached():
                return
            self._rest(left if wait is None else min(wait, left))

    def _linger_s(self) -> float | None:
        """Seconds that the inbox may still wait for more records; ``None`` when it is empty."""
        if not len(self._inbox):
            return None
        now = self._clock.monotonic()
        if self._due is None:
            self._due = now + self._flush_interval_s
        if self._inbox.full or self._awaited > self._settled:
            return 0.0
        return max(0.0, self._due - now)

    def _rest(self, wait: float | None) -> None:
        """Sleep until a wake-up, or ``wait`` seconds; one wake-up stands for all."""
        if wait == 0.0:
            return
        with suppress(queue.Empty):
            self._wakeups.get(timeout=wait)
            while True:
                self._wakeups.get_nowait()
