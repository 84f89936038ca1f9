"""Scheduled work that survives a stepping clock.

APScheduler plans by the wall clock: after a step back of an hour its jobs would wait that hour.
A watch compares the wall clock with the monotonic one and plans everything anew after a step.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job as PlannedJob
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.interval import IntervalTrigger
from structlog.typing import FilteringBoundLogger

from ragmon.clock import Clock
from ragmon.loops import Heartbeat, Loop, LoopOptions, Supervised, log_failure

_STEP_S = 2.0  # a difference that no slow machine explains
_LOOK_EVERY_S = 1.0
_STALL_S = 120.0  # beyond its interval
_LONGEST_WAIT_S = 60.0
_LONGEST_PAUSE_S = 30.0  # after failures; never less than the interval
_LOOP = LoopOptions(stall_s=60.0)


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


class _Scheduler(BaseScheduler):  # type: ignore[misc]  # the library has no types
    """The library's scheduler, planned on a loop of ours rather than on a thread of its own."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(4)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._wake = wake

    def wakeup(self) -> None:
        """Look again what is due."""
        self._wake()

    def shutdown(self, wait: bool = True) -> None:
        """End; with ``wait`` after the jobs that run."""
        super().shutdown(wait)

    def plan(self) -> float:
        """Start what is due; returns the seconds until something may be."""
        wait_s: float | None = self._process_jobs()
        return _LONGEST_WAIT_S if wait_s is None else min(wait_s, _LONGEST_WAIT_S)


class Job:
    """One job: a loop whose turns the schedule begins."""

    def __init__(
        self, name: str, run: Callable[[], object], options: LoopOptions, log: FilteringBoundLogger
    ) -> None:
        self.heartbeat = Heartbeat(f"job-{name}", options)
        self._run = run
        self._clock = options.clock
        self._log = log.bind(job=name)
        self._not_before = float("-inf")  # monotonic seconds

    def __call__(self) -> None:
        """Run it, unless it failed a moment ago; whatever it raises is logged and counted."""
        if self._clock.monotonic() < self._not_before:
            return
        with self.heartbeat.on_this_thread():
            try:
                self._run()
            except BaseException as error:  # noqa: BLE001 - whatever it was, it runs again
                pause_s = self.heartbeat.fail()
                self._not_before = self._clock.monotonic() + pause_s
                log_failure(self._log, self.heartbeat, error, pause_s)
            else:
                self.heartbeat.succeed()

    def revive(self) -> None:
        """Nothing: the pool of the schedule runs it."""


class Schedule:
    """Jobs at fixed intervals: never two runs of one at a time, missed runs become one."""

    def __init__(self, clock: Clock, skipped: Callable[[str], None]) -> None:
        self._clock = clock
        self._skipped = skipped
        self._log = structlog.get_logger("schedule")
        self._loop = Loop("schedule", self._plan, self._log, _LOOP)
        self._scheduler = _Scheduler(self._loop.wake)
        # It warns of every run that is left out; those are counted, and wait for no one.
        logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
        self._scheduler.add_listener(self._on_skip, EVENT_JOB_MAX_INSTANCES)
        self._watch = Loop("clock-watch", self._look, self._log, _LOOP)
        self._jobs: list[Job] = []
        self._offset = clock.now() - clock.monotonic()

    def monotonic(self) -> float:
        """Seconds of the clock by which it plans, which never steps."""
        return self._clock.monotonic()

    def every(
        self,
        seconds: float,
        name: str,
        run: Callable[[], object],
        *,
        stall_s: float = _STALL_S,
        longest_pause_s: float = _LONGEST_PAUSE_S,
        must_succeed: bool = False,
    ) -> None:
        """Run a job now and then at this interval.

        Args:
            seconds: between two runs begun.
            name: in the log, and with ``job-`` before it in the metrics.
            run: the job.
            stall_s: beyond the interval, after which a job that has not turned hangs.
            longest_pause_s: after failures, unless the interval is longer.
            must_succeed: a run that fails does not count as a turn.
        """
        options = LoopOptions(
            failed="job_failed",
            stall_s=seconds + stall_s,
            must_succeed=must_succeed,
            first_pause_s=min(seconds, 1.0),
            longest_pause_s=max(seconds, longest_pause_s),
            clock=self._clock,
        )
        job = Job(name, run, options, self._log)
        job.heartbeat.begin()
        self._jobs.append(job)
        self._scheduler.add_job(
            job, _Interval(seconds=seconds, timezone=UTC), id=name, next_run_time=self._now()
        )

    @property
    def loops(self) -> Sequence[Supervised]:
        """Its loops and jobs, as far as they are known."""
        return (self._loop, self._watch, *self._jobs)

    def start(self) -> None:
        """Begin."""
        self._scheduler.start()
        self._loop.start()
        self._watch.start()

    def stop(self) -> None:
        """Wait for running jobs, and end."""
        self._watch.stop(0.0)
        self._loop.stop()
        for job in self._jobs:
            job.heartbeat.end()
        if self._scheduler.running:
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

    def _plan(self) -> float:
        return self._scheduler.plan()

    def _on_skip(self, event: JobEvent) -> None:
        self._skipped(event.job_id)


def _is_astray(job: PlannedJob, now: datetime) -> bool:
    """True for a job that is planned for later than one interval from now."""
    planned: datetime | None = getattr(job, "next_run_time", None)  # absent before the start
    slack = timedelta(seconds=_STEP_S)
    return planned is not None and planned - now > job.trigger.interval + slack
