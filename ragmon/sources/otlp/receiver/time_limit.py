"""Time limit of mapping one trace, for code that cannot be asked to stop.

A mapping that runs for too long as Python is interrupted. One that holds the interpreter, such as
a regular expression, stops every thread, so that only the process can be ended: it is marked as
being mapped, and mapped apart from all others after the restart.
"""

import contextlib
import ctypes
import faulthandler
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from ragmon.clock import Clock
from ragmon.errors import RagmonError
from ragmon.loops import Loop, beat

Result = TypeVar("Result")

_LOOKS = 8  # at the clock within one limit
_LEAST_FROZEN_S = 30.0
_FROZEN_LIMITS = 3
_REARM_S = 1.0
_LANDING_S = 0.5  # within which an interrupt reaches the thread


class MappingTimeoutError(RagmonError):
    """One trace took too long."""


class _Interrupted(BaseException):
    """Raised in the midst of a mapping by another thread; no ``except Exception`` catches it."""


class FreezeGuard:
    """Ends the process, with a traceback of every thread, when nothing moves for too long."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = max(_LEAST_FROZEN_S, _FROZEN_LIMITS * limit_s)
        self._armed_at: float | None = None

    def arm(self) -> None:
        """Begin to wait anew; cheap enough for every trace."""
        now = self._clock.monotonic()
        if self._armed_at is None or now - self._armed_at > _REARM_S:
            self._armed_at = now
            with contextlib.suppress(OSError, ValueError, RuntimeError):  # no standard error
                faulthandler.dump_traceback_later(self._limit_s, exit=True, file=sys.stderr)

    def disarm(self) -> None:
        """Wait no longer."""
        if self._armed_at is not None:
            self._armed_at = None
            faulthandler.cancel_dump_traceback_later()


class TimeLimit:
    """Runs functions on one thread; another one interrupts what takes too long."""

    def __init__(self, limit_s: float, clock: Clock, guard: FreezeGuard | None = None) -> None:
        """Make it; until its ``loop`` is started nothing is interrupted.

        Args:
            limit_s: for one function.
            clock: of the daemon.
            guard: for functions that hold the interpreter; none: they are waited for.
        """
        self.limit_s = limit_s
        self._clock = clock
        self._guard = guard
        self._lock = threading.Lock()
        self._running: tuple[int, float] | None = None  # thread, and monotonic start
        self._is_fired = False
        self.loop = Loop("otlp-limit", self.look, structlog.get_logger("otlp"))

    def stop(self) -> None:
        """End."""
        self.loop.stop()
        self.rest()

    def rest(self) -> None:
        """Expect nothing until the next ``run``."""
        if self._guard is not None:
            self._guard.disarm()

    def run(self, function: Callable[[], Result]) -> Result:
        """The result of a function.

        Raises:
            MappingTimeoutError: it took too long.
        """
        beat()
        if self._guard is not None:
            self._guard.arm()
        try:
            with self._lock:
                self._is_fired = False
                self._running = threading.get_ident(), self._clock.monotonic()
            try:
                return function()
            finally:
                self._end()
        except _Interrupted:
            raise MappingTimeoutError(
                f"mapping took longer than {self.limit_s:g} s",
                hint="If the trace is only large, raise otlp.mapping_timeout and retry it",
            ) from None

    def look(self) -> float:
        """Interrupt what runs for too long; returns the seconds until the next look."""
        with self._lock:
            running = None if self._is_fired else self._running
            if running and self._clock.monotonic() - running[1] > self.limit_s:
                self._is_fired = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(running[0]), ctypes.py_object(_Interrupted)
                )
        return self.limit_s / _LOOKS

    def _end(self) -> None:
        with self._lock:
            self._running = None
            is_fired = self._is_fired
        if is_fired and not isinstance(sys.exception(), _Interrupted):
            # It was fired in the last moment: it has to land here, not in what comes next.
            until = self._clock.monotonic() + _LANDING_S
            while self._clock.monotonic() < until:
                pass
