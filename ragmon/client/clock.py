"""Time of the application's machine."""

from __future__ import annotations

import time
from typing import Protocol


class ClientClock(Protocol):
    """Clock that the client reads; ``ragmon.clock.ManualClock`` is one for tests."""

    def now(self) -> float:
        """Unix seconds, by the wall clock; may step."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never steps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class ProcessClock:
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
