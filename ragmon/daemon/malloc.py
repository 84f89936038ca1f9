"""One heap for all threads of a process, whose free pages are given back.

glibc gives each busy thread a heap of its own, and what one thread frees another cannot use: with
some ten threads that was a fifth of the daemon's memory, at no gain in speed under Python's lock.
"""

import ctypes
from collections.abc import Mapping

_M_ARENA_MAX = -8  # of glibc's malloc.h


def share(environment: Mapping[str, str]) -> bool:
    """Let threads that start from now on share one heap; best before any does.

    Args:
        environment: of the process.

    Returns:
        Whether it is so. Not where ``MALLOC_ARENA_MAX`` says otherwise, nor without glibc.
    """
    if "MALLOC_ARENA_MAX" in environment:
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (AttributeError, OSError):
        return False


def trim() -> bool:
    """Give free pages back to the system; a peak would otherwise stay for as long as the process.

    Returns:
        Whether there were any. Not without glibc.
    """
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False
