"""Time that retention counts from, safe against a clock that jumps ahead."""

import structlog

from ragmon.clock import Clock

JUMP_S = 3_600.0  # a larger step forward is doubted
PAUSE_S = 3_600.0  # nothing is deleted for so long after it


class RetentionClock:
    """The wall clock or the newest query, whichever is earlier; silent after a jump forward.

    A clock that stands eight days ahead for a minute would otherwise delete a week of queries.
    Prometheus ages its blocks by the newest block for the same reason.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset: float | None = None  # of the wall clock against the monotonic one
        self._paused_until = 0.0  # monotonic
        self._log = structlog.get_logger("retention")

    def now(self, newest: float) -> float | None:
        """Unix seconds to count ages from; None while nothing may be deleted.

        Args:
            newest: timestamp of the newest query; 0.0 when there is none.
        """
        wall, monotonic = self._clock.now(), self._clock.monotonic()
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
        if monotonic < self._paused_until:
            return None
        return min(wall, newest) if newest else wall
