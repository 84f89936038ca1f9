"""Limit of the time that a read of the store may take."""

from collections.abc import Callable

from ragmon.clock import Clock
from ragmon.durations import duration_text
from ragmon.errors import ReadTimeoutError


def read_deadline(clock: Clock, most_s: float, hint: str) -> Callable[[], None]:
    """A check that raises ReadTimeoutError when a read that begins now has taken too long.

    Args:
        clock: of the daemon.
        most_s: ``limits.query_timeout``.
        hint: what to ask instead.
    """
    until = clock.monotonic() + most_s

    def check() -> None:
        if clock.monotonic() > until:
            raise ReadTimeoutError(
                f"the read took longer than {duration_text(most_s)} (limits.query_timeout)",
                hint=hint,
            )

    return check
