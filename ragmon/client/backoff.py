"""Time of the next attempt after failures."""

from __future__ import annotations

from collections.abc import Callable

from ragmon.client.clock import ClientClock
from ragmon.client.options import Options

_MAX_DOUBLINGS = 16


class Backoff:
    """Exponential backoff with jitter, which never undercuts what the server asked for.

    Args:
        options: ``backoff_base_s``, ``backoff_cap_s``, ``blocked_wait_s``.
        clock: its monotonic time is read.
        random: uniform in [0, 1); spreads the clients of one outage.
    """

    def __init__(self, options: Options, clock: ClientClock, random: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock
        self._random = random
        self._failures = 0
        self._ours_until = 0.0
        self._theirs_until = 0.0

    @property
    def failing(self) -> bool:
        """True after a failed attempt."""
        return self._failures > 0

    def wait_s(self) -> float:
        """Seconds until the next attempt; 0 when it may be made now."""
        return max(0.0, max(self._ours_until, self._theirs_until) - self._clock.monotonic())

    def retry_now(self) -> None:
        """End our own pause, though not one the server asked for, because a caller waits."""
        self._ours_until = 0.0

    def succeeded(self) -> None:
        """Reset both pauses: the server has answered."""
        self._failures = 0
        self._ours_until = self._theirs_until = 0.0

    def failed(self, retry_after_s: float | None) -> None:
        """Wait as the server asked, else half to all of a doubling pause."""
        now = self._clock.monotonic()
        doublings = min(self._failures, _MAX_DOUBLINGS)
        self._failures += 1
        if retry_after_s:
            self._theirs_until = now + retry_after_s * (1.0 + 0.25 * self._random())
            return
        pause = min(self._options.backoff_cap_s, self._options.backoff_base_s * 2.0**doublings)
        self._ours_until = now + pause * (0.5 + 0.5 * self._random())

    def blocked(self) -> None:
        """Pause for long: only an operator can change the answer."""
        self._failures += 1
        pause = self._options.blocked_wait_s * (0.75 + 0.5 * self._random())
        self._ours_until = self._clock.monotonic() + pause
