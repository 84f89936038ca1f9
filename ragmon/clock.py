"""The only place that reads time or waits for it."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time as the drivers read it; everything below them receives ``now`` as an argument."""

    def now(self) -> float:
        """Unix seconds, by the wall clock; may step."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never steps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class CpuClock(SystemClock):
    """The machine's own time, of which only the CPU time of the calling thread passes.

    For latencies of what a program simulates: those of a busy machine say nothing about it.
    """

    def monotonic(self) -> float:
        """CPU seconds of this thread."""
        return time.thread_time()


class ManualClock:
    """Clock for tests and replays that moves only by ``sleep`` and ``step``."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._monotonic = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        """Unix seconds, as last set."""
        return self._now

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Advance both clocks at once."""
        with self._lock:
            self._now += seconds
            self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Step the wall clock alone, as NTP or an operator does."""
        with self._lock:
            self._now += seconds
