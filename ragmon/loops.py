"""Loops: the one way in which ragmon runs something for as long as it lives.

A loop takes turns. One that fails is logged, counted and tried again after a growing pause; a
thread that ended all the same is started again. Each loop has a heartbeat: the end of a turn, a
wait and each step of a long turn count as one, so that a loop without is one that hangs.
"""

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from ragmon.clock import Clock, SystemClock
from ragmon.errors import RagmonError

BEAT_EVERY_S = 1.0
"""The longest that anything waits on a loop's thread without a heartbeat."""

_LIMIT_S = 120.0
_LONGEST_PAUSE_S = 60.0
_LEAST_PAUSE_S = 0.05
_EXPECTED = (RagmonError, OSError, EOFError)  # logged without a traceback

_thread = threading.local()  # the heartbeat of the loop that runs on this thread


def beat() -> None:
    """Say that the loop on this thread goes on; on other threads it does nothing."""
    heartbeat: Heartbeat | None = getattr(_thread, "heartbeat", None)
    if heartbeat is not None:
        heartbeat.beat()


def wait_for(event: threading.Event) -> None:
    """Wait for as long as it takes, with heartbeats."""
    while not event.wait(BEAT_EVERY_S):
        beat()


def instant(unix_s: float) -> str:
    """A moment as RFC 3339, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def pause_s(failures: int, first_s: float, longest_s: float) -> float:
    """Seconds until the turn after a failed one, doubling, of which up to half is left to chance.

    Args:
        failures: in a row, at least 1.
        first_s: after the first.
        longest_s: the most.
    """
    pause = min(longest_s, max(_LEAST_PAUSE_S, first_s) * 2.0 ** min(failures - 1, 30))
    return pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, guards nothing


class LoopOptions(Struct, frozen=True, kw_only=True):
    """Limits of one loop: of its heartbeats, and of its pauses after failures."""

    failed: str = "turn_failed"
    """Event that is logged when a turn fails."""
    stall_s: float = _LIMIT_S
    """Without a heartbeat for longer it hangs."""
    is_vital: bool = True
    """A hang fails ``/livez``, since a restart helps; False where others' servers may cause it."""
    must_succeed: bool = False
    """A turn that failed is no heartbeat."""
    is_left_at_end: bool = False
    """At the end it is not waited for: what it does is done again after the restart."""
    first_pause_s: float = 1.0
    longest_pause_s: float = _LONGEST_PAUSE_S
    clock: Clock = SystemClock()


class Heartbeat:
    """Turns of one loop: when the last one was, and how many failed."""

    def __init__(self, loop: str, options: LoopOptions) -> None:
        self.loop = loop
        self.options = options
        self.failures = 0
        self.failures_in_a_row = 0
        self.is_active = False  # until it starts, and from when it ends
        self._clock = options.clock
        self._at = options.clock.monotonic()

    def begin(self) -> None:
        """Expect heartbeats from now on."""
        self._at = self._clock.monotonic()
        self.is_active = True

    def end(self) -> None:
        """Expect none any more."""
        self.is_active = False

    def beat(self) -> None:
        """Note that it goes on."""
        self._at = self._clock.monotonic()

    def succeed(self) -> None:
        """Note a turn that did not fail."""
        self.failures_in_a_row = 0
        self.beat()

    def fail(self) -> float:
        """Note a turn that failed; returns the seconds to leave it alone."""
        self.failures += 1
        self.failures_in_a_row += 1
        options = self.options
        if not options.must_succeed:
            self.beat()
        return pause_s(self.failures_in_a_row, options.first_pause_s, options.longest_pause_s)

    @contextmanager
    def on_this_thread(self) -> Iterator[None]:
        """Have ``beat`` mean this loop for as long as the block runs."""
        _thread.heartbeat = None if self.options.must_succeed else self
        try:
            yield
        finally:
            _thread.heartbeat = None

    @property
    def age_s(self) -> float:
        """Seconds since the last heartbeat."""
        return max(0.0, self._clock.monotonic() - self._at)

    @property
    def last_at(self) -> float:
        """Unix seconds of the last heartbeat, by the wall clock of now."""
        return self._clock.now() - self.age_s

    def problem(self, limit_s: float | None = None) -> str:
        """A sentence that says since when the loop hangs; empty while it does not."""
        age_s, limit_s = self.age_s, self.options.stall_s if limit_s is None else limit_s
        if not self.is_active or age_s <= limit_s:
            return ""
        return (
            f"loop {self.loop} has not turned since {instant(self.last_at)} "
            f"({age_s:.0f} s; its limit is {limit_s:.0f} s)"
        )


def log_failure(
    log: FilteringBoundLogger,
    heartbeat: Heartbeat,
    error: BaseException,
    again_s: float,
) -> None:
    """Log a failed turn as one event: what was to be expected as a warning, a defect with trace."""
    facts = {
        "loop": heartbeat.loop,
        "error": str(error) or type(error).__name__,
        "failures": heartbeat.failures_in_a_row,
        "again_s": round(again_s, 1),
    }
    if isinstance(error, _EXPECTED):
        log.warning(heartbeat.options.failed, **facts)
    else:
        log.error(heartbeat.options.failed, **facts | {"error": repr(error)}, exc_info=True)


class Supervised(Protocol):
    """Something with a heartbeat; a ``Loop``, or a job of the schedule."""

    heartbeat: Heartbeat

    def revive(self) -> None:
        """Start its thread again if that ended by itself."""
        ...


class Loop:
    """A thread that takes turns until it is stopped.

    A turn returns the seconds to wait until the next one. One that fails is logged, and tried
    again: no error ends the thread. What fails because the loop is being stopped is not logged.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float],
        log: FilteringBoundLogger,
        options: LoopOptions = LoopOptions(),  # noqa: B008 - frozen
        *,
        finish: Callable[[], None] = lambda: None,
        died: Callable[[], None] = lambda: None,
    ) -> None:
        """Make it; it does not run yet.

        Args:
            name: of the thread, and of the loop in the metrics.
            turn: called again and again on the thread.
            log: told of failed turns.
            options: limits of its heartbeats and pauses.
            finish: called on the thread after the last turn.
            died: called, on another thread, when the thread ended by itself, before the next one.
        """
        self.stopping = threading.Event()
        self.heartbeat = Heartbeat(name, options)
        self._name = name
        self._turn = turn
        self._log = log
        self._finish = finish
        self._died = died
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, without waiting."""
        self.heartbeat.begin()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Begin the next turn now."""
        self._woken.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """End after the turn under way, and wait for that; may be called again.

        Args:
            timeout_s: how long to wait; 0 only asks it to end.

        Returns:
            Whether it has ended.
        """
        self.stopping.set()
        self._woken.set()
        if self._thread is not None and self.is_alive:
            self._thread.join(timeout_s)
        return not self.is_alive

    @property
    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        """True once the thread ran and runs no longer."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that takes the turns now."""
        return self._thread

    def revive(self) -> None:
        """Start the thread again if it ended by itself."""
        if not self.has_ended or self.stopping.is_set():
            return
        self.heartbeat.fail()
        self._log.error("loop_ended", loop=self._name, remedy="it is started again")
        self._died()
        self.start()

    def _run(self) -> None:
        _thread.heartbeat = self.heartbeat
        while not self.stopping.is_set():
            self._woken.clear()
            wait_s = self._try(self._turn)
            while wait_s > 0.0 and not self.stopping.is_set():
                part_s = min(wait_s, BEAT_EVERY_S)
                if self._woken.wait(part_s):
                    break
                wait_s -= part_s
                self.heartbeat.beat()
        self._try(self._last)
        self.heartbeat.end()

    def _last(self) -> float:
        self._finish()
        return 0.0

    def _try(self, turn: Callable[[], float]) -> float:
        try:
            wait_s = turn()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the thread goes on
            if self.stopping.is_set() and isinstance(error, _EXPECTED):
                return 0.0
            wait_s = self.heartbeat.fail()
            log_failure(self._log, self.heartbeat, error, wait_s)
            return wait_s
        self.heartbeat.succeed()
        return wait_s


class LoopOwner:
    """Base of a component that runs one loop: it begins with it, and is watched by it."""

    loop: Loop

    @property
    def loops(self) -> Sequence[Loop]:
        """The one."""
        return (self.loop,)

    def start(self) -> None:
        """Begin, without waiting."""
        self.loop.start()


class Supervisor:
    """All loops of the daemon: their health, and the restart of threads that ended."""

    def __init__(self) -> None:
        self._groups: list[Callable[[], Iterable[Supervised]]] = []
        self._log = structlog.get_logger("supervisor")

    def watch(self, members: Callable[[], Iterable[Supervised]]) -> None:
        """Watch these, too; they are asked for each time, since jobs are added later."""
        self._groups.append(members)

    def revive(self) -> None:
        """Start every thread again that ended by itself."""
        for member in self._members():
            try:
                member.revive()
            except Exception:  # noqa: BLE001 - such as no memory for a thread; tried again soon
                self._log.exception("cannot_restart", loop=member.heartbeat.loop)

    def stalled(self) -> list[str]:
        """Sentences about the vital loops that hang; none when all turn."""
        return [
            problem
            for heartbeat in self._active()
            if heartbeat.options.is_vital and (problem := heartbeat.problem())
        ]

    def heartbeats(self) -> list[Heartbeat]:
        """Those of every loop, the ones that have ended or not begun included."""
        return [member.heartbeat for member in self._members()]

    def failures(self) -> dict[str, float]:
        """Failed turns by loop."""
        return {each.heartbeat.loop: float(each.heartbeat.failures) for each in self._members()}

    def last_turns(self) -> dict[str, float]:
        """Unix seconds of the last heartbeat by loop, of those that run."""
        return {each.loop: each.last_at for each in self._active()}

    def limits(self) -> dict[str, float]:
        """Seconds without a heartbeat that each loop may take, of those that run."""
        return {each.loop: each.options.stall_s for each in self._active()}

    def _members(self) -> list[Supervised]:
        return [member for members in self._groups for member in members()]

    def _active(self) -> Sequence[Heartbeat]:
        return [each.heartbeat for each in self._members() if each.heartbeat.is_active]
