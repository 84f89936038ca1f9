"""Time that retention counts from, safe against a clock that jumps ahead."""

import threading

import structlog

from ragmon.clock import Clock

JUMP_S = 3_600.0  # a larger step forward is doubted
PAUSE_S = 3_600.0  # nothing is deleted for so long after it


class RetentionClock:
    """The wall clock or the newest query, whichever is earlier; silent after a jump forward.

    A clock that stands eight days ahead for a minute would otherwise delete a week of queries.
    Prometheus ages its blocks by the newest block for the same reason. Data of which nothing new
    comes would then stay for ever, so time that ragmon itself has run counts as well: it is
    measured by the monotonic clock, which never jumps, and goes on where the last run ended.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset: float | None = None  # of the wall clock against the monotonic one
        self._paused_until = 0.0  # monotonic
        self._reached = 0.0  # the last answer
        self._read_at: float | None = None  # monotonic
        self._lock = threading.Lock()  # several jobs ask
        self._log = structlog.get_logger("retention")

    @property
    def reached(self) -> float:
        """The last answer, to be kept over a restart."""
        return self._reached

    def resume(self, reached: float) -> None:
        """Go on from the last answer of the run before."""
        self._reached = max(self._reached, reached)

    def is_doubted(self) -> bool:
        """True while nothing may be deleted or given up by its age.

        That is for an hour after a jump ahead, and at the start until ``now`` compared the clock
        with the newest query.
        """
        with self._lock:
            if self._offset is None:
                return True
            monotonic = self._clock.monotonic()
            self._watch(self._clock.now(), monotonic, 0.0)
            return monotonic < self._paused_until

    def now(self, newest: float) -> float | None:
        """Unix seconds to count ages from; None while nothing may be deleted.

        Args:
            newest: timestamp of the newest query; 0.0 when there is none.
        """
        with self._lock:
            wall, monotonic = self._clock.now(), self._clock.monotonic()
            self._watch(wall, monotonic, newest)
            ran = 0.0 if self._read_at is None else monotonic - self._read_at
            self._read_at = monotonic
            aged = self._reached + ran if self._reached else newest
            if monotonic < self._paused_until:
                self._reached = min(aged, wall)
                return None
            latest = max(newest, aged)
            self._reached = min(wall, latest) if latest else wall
            return self._reached

    def _watch(self, wall: float, monotonic: float, newest: float) -> None:
        """Pause after a jump ahead, until the clock is right again or an hour has passed."""
        offset = wall - monotonic
        # At the start there is no earlier reading: the newest query stands in for it.
        before = offset if self._offset is None and not newest else self._offset
        step = offset - (newest - monotonic if before is None else before)
        self._offset = offset
        if step > JUMP_S:
            self._paused_until = monotonic + PAUSE_S
            self._log.warning(
                "clock_jumped_ahead", seconds=round(step), nothing_is_deleted_for_s=PAUSE_S
            )
        elif step < -JUMP_S:
            self._paused_until = monotonic  # it is right again
