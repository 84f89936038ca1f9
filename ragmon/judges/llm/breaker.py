"""Circuit breaker: an endpoint that failed several times in a row is not asked for a while."""

import threading


class Breaker:
    """Closed, open until a moment, then one request at a time until one succeeds. Thread-safe.

    Args:
        failures: in a row, after which it opens.
        pause_s: seconds that it stays open.
    """

    def __init__(self, failures: int, pause_s: float) -> None:
        self._limit = failures
        self._pause_s = pause_s
        self._failed = 0
        self._open_until = 0.0
        self._lock = threading.Lock()

    def allows(self, now: float) -> bool:
        """True if a request may be sent at ``now``, in seconds of a monotonic clock.

        After a pause one caller may; the others wait for its success, or for another pause.
        """
        with self._lock:
            if now < self._open_until:
                return False
            if self._failed >= self._limit:
                self._open_until = now + self._pause_s
            return True

    def succeeded(self) -> None:
        """The endpoint answered."""
        with self._lock:
            self._failed = 0
            self._open_until = 0.0

    def failed(self, now: float, retry_after_s: float = 0.0) -> None:
        """The endpoint did not answer, or sent a Retry-After longer than a request waits."""
        with self._lock:
            self._failed += 1
            pause = self._pause_s if self._failed >= self._limit else 0.0
            self._open_until = max(self._open_until, now + max(pause, retry_after_s))

    def opens_in(self, now: float) -> float:
        """Seconds until a request may be sent; 0 when it may now."""
        with self._lock:
            return max(self._open_until - now, 0.0)
