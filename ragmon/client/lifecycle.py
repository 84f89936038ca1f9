"""Hooks for the fork and the end of the process."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from types import MethodType
from typing import cast


def at_exit(callback: Callable[[], object]) -> None:
    """Call when the process ends in an orderly way, also a child of ``multiprocessing``.

    Up to Python 3.12 such a child ends without the functions of ``atexit``; it does run its own
    finalisers, provided they were registered after it was forked.
    """
    atexit.register(callback)
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, callback, exitpriority=0)


def in_forked_child(method: Callable[[], None]) -> None:
    """Call a bound method in each child, for as long as its object lives."""
    if not hasattr(os, "register_at_fork"):
        return  # Without fork there is nothing to survive.
    reference = weakref.WeakMethod(cast("MethodType", method))

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)
