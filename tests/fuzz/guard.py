"""Limits of every input: a second of CPU, and memory that does not jump."""

import resource
import time
from collections.abc import Callable

MOST_S = 1.0
MOST_GROWTH_BYTES = 256 << 20

Run = Callable[[bytes], None]


class SlowInputError(AssertionError):
    """One input took longer than it may."""


class HungryInputError(AssertionError):
    """One input took more memory than it may."""


def guarded(run: Run, most_s: float = MOST_S, most_bytes: int = MOST_GROWTH_BYTES) -> Run:
    """The target, refusing inputs that cost too much.

    Time is CPU of the whole process, so that a busy machine makes no input slow. The first call
    fills caches and is only run.
    """
    first = True

    def check(data: bytes) -> None:
        nonlocal first
        memory = _peak_bytes()
        started = time.process_time()
        run(data)
        took = time.process_time() - started
        grown = _peak_bytes() - memory
        if not first and took > most_s:
            raise SlowInputError(f"{took:.1f} s of CPU for {len(data)} bytes")
        if not first and grown > most_bytes:
            raise HungryInputError(f"{grown >> 20} MB for {len(data)} bytes")
        first = False

    return check


def said_why(error: Exception) -> None:
    """A refusal has words in it."""
    if not str(error).strip():
        raise AssertionError(f"{type(error).__name__} does not say why")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
