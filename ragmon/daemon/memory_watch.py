"""Free memory given back before it is missed, and the memory budget told what is used.

A thread of its own: the jobs of the schedule wait for the writer, and while that catches up with
days of history none of them runs for half a minute, which is when memory is short.
"""

from collections.abc import Callable

import structlog

from ragmon.clock import Clock
from ragmon.daemon import malloc
from ragmon.daemon.process_memory import used_bytes
from ragmon.loops import Loop, LoopOptions, LoopOwner
from ragmon.memory import MemoryBudget

_EVERY_S = 1.0
_TRIM_EVERY_S = 10.0  # it takes some milliseconds
_GROWN = 16 << 20  # bytes since free pages were last given back, after which they are again


class MemoryWatch(LoopOwner):
    """Measures the memory of the process every second."""

    def __init__(
        self,
        budget: MemoryBudget,
        clock: Clock,
        *,
        used: Callable[[], int | None] = used_bytes,
        trim: Callable[[], bool] = malloc.trim,
    ) -> None:
        """Make it; it does not run yet.

        Args:
            budget: is told what is used.
            clock: of the daemon.
            used: measures it, bytes; None where nobody tells.
            trim: gives free pages back.
        """
        self._budget = budget
        self._clock = clock
        self._used = used
        self._trim = trim
        self._trimmed_at = float("-inf")  # monotonic seconds
        self._left = 0  # bytes in use when pages were last given back
        options = LoopOptions(stall_s=60.0, clock=clock)
        self.loop = Loop("memory", self.turn, structlog.get_logger("memory"), options)

    def stop(self) -> None:
        """End."""
        self.loop.stop()

    def turn(self) -> float:
        """Measure, and give back what is free where that may be much; returns seconds to wait."""
        used, now = self._used(), self._clock.monotonic()
        if now - self._trimmed_at >= _TRIM_EVERY_S or (used is not None and self._is_much(used)):
            self._trim()
            self._trimmed_at, used = now, self._used()
            self._left = used or 0
        if used is not None:
            self._budget.note(used)
        return _EVERY_S

    def _is_much(self, used: int) -> bool:
        """True where the process grew, or requests may soon be refused for lack of memory."""
        budget = self._budget
        return used - self._left >= _GROWN or used - budget.reserved > budget.limit // 2
