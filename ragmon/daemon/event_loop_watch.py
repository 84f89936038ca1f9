"""The event loop, seen from other threads: none of its own can tell that it hangs."""

from collections.abc import Callable

_MOST_S = 20.0  # it turns ten times a second; requests wait as long


class EventLoopWatch:
    """Time of its last turn."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._turned_at: float | None = None

    def turned(self) -> None:
        """Note a turn; called on the event loop."""
        self._turned_at = self._monotonic()

    def problems(self) -> list[str]:
        """One sentence while it hangs; none before its first turn."""
        if self._turned_at is None:
            return []
        silent_s = self._monotonic() - self._turned_at
        if silent_s <= _MOST_S:
            return []
        return [f"the event loop has not turned for {silent_s:.0f} s: no request is answered"]
