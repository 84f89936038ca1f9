"""Delivery before SIGTERM ends the process, which by default runs nothing of Python.

uvicorn takes the signal, ends in good order and then raises it again, with whatever handler there
was before: nothing that was registered for the end of the process runs. gunicorn's worker for
uvicorn does the same.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol

from ragmon.client.lifecycle import at_exit

_SIGNAL = signal.SIGTERM
_RAISES_AGAIN = "uvicorn."


class Closable(Protocol):
    """``Monitor``, as the handler needs it."""

    def close(self) -> bool:
        """Deliver what is left, within a limit."""
        ...

    def hasten(self) -> None:
        """Deliver from now on without waiting for further records."""


class Termination:
    """Handler of SIGTERM for all monitors of the process; what was there before is called on.

    With the default disposition the monitors are closed, and the signal then ends the process as it
    would have. A server that takes the signal is left to end in its own way; the one that raises it
    again finds it blocked, so the process ends in good order, and by the signal all the same.
    """

    def __init__(self) -> None:
        self._monitors: weakref.WeakSet[Any] = weakref.WeakSet()
        self._previous: Any = signal.SIG_DFL
        self._ending = False

    def watch(self, monitor: Closable) -> None:
        """Have a monitor closed before SIGTERM ends the process, if that can be arranged.

        Only the main thread may set a handler; from another one, and where the signal is ignored,
        nothing is changed.
        """
        self._monitors.add(monitor)
        if threading.current_thread() is not threading.main_thread():
            return
        current = signal.getsignal(_SIGNAL)
        if current == self._received or current in (signal.SIG_IGN, None):
            return
        with suppress(ValueError):  # An interpreter within another has no signals.
            signal.signal(_SIGNAL, self._received)
            self._previous = current

    def _received(self, number: int, frame: FrameType | None) -> None:
        if not callable(self._previous):
            self._end()
            return
        for monitor in list(self._monitors):
            monitor.hasten()
        if _raises_again(self._previous):
            _block(self._end)
        self._previous(number, frame)

    def _end(self) -> None:
        """Close the monitors and end the process by the signal; at once when it comes again."""
        if not self._ending:
            self._ending = True
            for monitor in list(self._monitors):
                monitor.close()
        signal.signal(_SIGNAL, signal.SIG_DFL)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {_SIGNAL})
        signal.raise_signal(_SIGNAL)


def _raises_again(handler: object) -> bool:
    """True for the handler of a uvicorn server, or of a class made from it."""
    server = type(getattr(handler, "__self__", None))
    return any(base.__module__.startswith(_RAISES_AGAIN) for base in server.__mro__)


def _block(end: Callable[[], None]) -> None:
    """Let the signal wait, when raised by this thread, until the process has ended otherwise."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {_SIGNAL})
        at_exit(end)


TERMINATION = Termination()
"""Of this process: there is one handler a signal."""
