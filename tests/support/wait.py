"""The one way a test waits: for something to become true, with a deadline."""

import threading
from collections.abc import Callable
from typing import TypeVar

from ragmon.clock import SystemClock

Found = TypeVar("Found")

_ASK_EVERY_S = 0.01
_never = threading.Event()


def eventually(
    check: Callable[[], Found], what: str = "the condition holds", timeout_s: float = 15.0
) -> Found:
    """The first true answer of ``check``.

    Raises:
        AssertionError: there was none in time.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + timeout_s
    while True:
        found = check()
        if found:
            return found
        assert clock.monotonic() < deadline, f"after {timeout_s:g} s it is not true that {what}"
        _never.wait(_ASK_EVERY_S)
