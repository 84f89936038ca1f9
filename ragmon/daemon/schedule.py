"""Scheduled work that survives a stepping clock.

APScheduler plans by the wall clock: after a step back of an hour its jobs would wait that hour.
A watch compares the wall clock with the monotonic one and plans everything anew after a step.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from ragmon.clock import Clock
from ragmon.loops import Loop

_STEP_S = 2.0  # a difference that no slow machine explains
_LOOK_EVERY_S = 1.0


class _Interval(IntervalTrigger):  # type: ignore[misc]  # the library has no types
    """At fixed intervals, skipping what was missed: the library would walk through all of it.

    A clock that starts in 1970 and is then set would mean a hundred million steps.
    """

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        following: datetime | None = super().get_next_fire_time(previous_fire_time, now)
        if following is not None and following < now:
            following = super().get_next_fire_time(None, now)
        return following


class Schedule:
    """Jobs at fixed intervals: never two runs of one at a time, missed runs become one."""

    def __init__(self, clock: Clock, skipped: Callable[[str], None]) -> None:
        self._clock = clock
        self._skipped = skipped
        self._log = structlog.get_logger("schedule")
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(4)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        # It warns of every run that is left out; those are counted, and wait for no one.
        logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
        self._scheduler.add_listener(self._on_skip, EVENT_JOB_MAX_INSTANCES)
        self._scheduler.add_listener(self._on_error, EVENT_JOB_ERROR)
        self._watch = Loop("clock-watch", self._look, self._log)
        self._offset = clock.now() - clock.monotonic()

    def every(self, seconds: float, name: str, job: Callable[[], object]) -> None:
        """Run a job now and then at this interval."""
        self._scheduler.add_job(
            job, _Interval(seconds=seconds, timezone=UTC), id=name, next_run_time=self._now()
        )

    def start(self) -> None:
        """Begin."""
        self._scheduler.start()
        self._watch.start()

    def stop(self) -> None:
        """Wait for running jobs, and end."""
        self._watch.stop(0.0)
        self._scheduler.shutdown(wait=True)

    def check_clock(self) -> bool:
        """Plan every job anew if the wall clock was stepped; returns whether it was."""
        offset = self._clock.now() - self._clock.monotonic()
        step, self._offset = offset - self._offset, offset
        now, jobs = self._now(), self._scheduler.get_jobs()
        # A step there and back between two looks shows only in what it made of the plans.
        if abs(step) < _STEP_S and not any(_is_astray(job, now) for job in jobs):
            return False
        self._log.warning("clock_stepped", seconds=round(step, 3))
        for job in jobs:
            job.modify(next_run_time=now)
        if self._scheduler.running:
            self._scheduler.wakeup()
        return True

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    def _look(self) -> float:
        self.check_clock()
        return _LOOK_EVERY_S

    def _on_skip(self, event: JobEvent) -> None:
        self._skipped(event.job_id)

    def _on_error(self, event: JobEvent) -> None:
        self._log.error("job_failed", job=event.job_id, error=repr(event.exception))


def _is_astray(job: Job, now: datetime) -> bool:
    """True for a job that is planned for later than one interval from now."""
    planned: datetime | None = getattr(job, "next_run_time", None)  # absent before the start
    slack = timedelta(seconds=_STEP_S)
    return planned is not None and planned - now > job.trigger.interval + slack
