"""The end of the process: on a signal, within ten seconds, whatever hangs.

The first SIGTERM or SIGINT asks the daemon to end and sets a limit; a second one ends the process
at once. What was acknowledged is on disk before it was acknowledged, so either costs nothing.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import structlog

from ragmon.clock import SystemClock
from ragmon.loops import Loop, Supervised

LIMIT_S = 9.0
"""From the first signal until the process ends itself."""

HUNG = 71
"""Exit status of an end that something held up; see `ragmon.cli.exit_codes`."""

_LEAST_S = 0.2  # for a step when others took all the time
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_IDLE = ("concurrent/futures/thread.py", "threading.py")  # where threads wait for work
_OURS = f"{os.sep}ragmon{os.sep}"


class Ending:
    """Signal handlers and the limit of time; for the process that is a daemon and nothing else."""

    def __init__(self, stop: Callable[[], None], abort: Callable[[], None]) -> None:
        """Make it; ``listen`` begins.

        Args:
            stop: asks the daemon to end.
            abort: kills the processes that it started; called before the process ends by force.
        """
        self._stop = stop
        self._abort = abort
        self._lock = threading.Lock()
        self._deadline: threading.Thread | None = None
        self._finished = threading.Event()
        self._former: dict[int, Any] = {}  # signal handlers
        self._log = structlog.get_logger("daemon")

    def listen(self) -> None:
        """Take over the signals; on the main thread.

        Python's own handlers: they run on the main thread even when its event loop is busy.
        """
        for number in _SIGNALS:
            self._former[number] = signal.signal(number, self._on_signal)

    def finish(self) -> None:
        """Lift the limit and give the signals back: all has ended in time."""
        self._finished.set()
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def begin(self, reason: str) -> None:
        """Set the limit from now on; once."""
        with self._lock:
            if self._deadline is not None:
                return
            self._deadline = threading.Thread(
                target=self._watch, args=(reason,), name="ending", daemon=True
            )
        self._deadline.start()

    def force(self, hung: list[str]) -> NoReturn:
        """End the process now, naming what held it up."""
        with suppress(Exception):
            self._abort()
        with suppress(Exception):
            self._log.error("ended_by_force", hung=hung, threads=busy_threads(), status=HUNG)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(HUNG)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._deadline is not None:
            with suppress(Exception):
                self._abort()
            os._exit(128 + number)
        self.begin(signal.Signals(number).name)
        self._stop()

    def _watch(self, reason: str) -> None:
        self._log.info("ending", signal=reason)
        if not self._finished.wait(LIMIT_S):
            self.force([f"the end took longer than {LIMIT_S:g} s"])


def busy_threads() -> list[str]:
    """Places of threads that do not wait for work, as ``thread: module:line function``."""
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    places = []
    for ident, frame in frames.items():
        if ident == threading.get_ident():
            continue
        stack = traceback.extract_stack(frame)
        ours = [entry for entry in stack if _OURS in entry.filename]
        if not ours or (stack[-1].filename.endswith(_IDLE) and ours[-1].name in ("_run", "_turn")):
            continue
        last = ours[-1]
        module = last.filename.rpartition(_OURS)[2]
        places.append(f"{names.get(ident, ident)}: {module}:{last.lineno} {last.name}")
    return sorted(places)


def begin(function: Callable[[], object], name: str) -> threading.Thread:
    """Run a function on a thread that holds up neither the event loop nor the end."""
    thread = threading.Thread(target=function, name=name, daemon=True)
    thread.start()
    return thread


def ends_within(pool: ThreadPoolExecutor, limit_s: float) -> bool:
    """End a pool; False when one of its threads is still busy after so long."""
    pool.shutdown(wait=False, cancel_futures=True)
    waiting = begin(lambda: pool.shutdown(wait=True), "pool-end")
    waiting.join(limit_s)
    return not waiting.is_alive()


class BoundedSteps:
    """Steps of the end, one after another, that share a limit of time; what exceeds it is left."""

    def __init__(self, limit_s: float) -> None:
        self.hung: list[str] = []
        self._clock = SystemClock()
        self._until = self._clock.monotonic() + limit_s
        self._log = structlog.get_logger("daemon")

    def run(self, step: Callable[[], object], name: str, loops: Sequence[Supervised]) -> None:
        """Take a step, and note the loops that it should have ended and did not."""
        left_s = max(_LEAST_S, self._until - self._clock.monotonic())
        thread = begin(lambda: self._take(step, name), f"stop-{name}")
        thread.join(left_s)
        alive = [loop.heartbeat.loop for loop in loops if _holds_up(loop)]
        self.hung += alive or ([name] if thread.is_alive() else [])

    def _take(self, step: Callable[[], object], name: str) -> None:
        try:
            step()
        except Exception:  # noqa: BLE001 - the other steps are taken all the same
            self._log.exception("stop_failed", step=name)


def _holds_up(loop: Supervised) -> bool:
    waited_for = not loop.heartbeat.options.is_left_at_end
    return isinstance(loop, Loop) and loop.is_alive and waited_for
