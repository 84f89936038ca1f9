"""Scheduled work goes on whatever the wall clock does."""

import threading
from contextlib import contextmanager

import pytest
import time_machine
from structlog.testing import capture_logs

from ragmon.clock import ManualClock, SystemClock
from ragmon.daemon.schedule import Schedule
from tests.support.wait import eventually

HOUR_S = 3_600.0
CENTURY_S = 100 * 365 * 86_400.0


class Job:
    """Counts its runs; may be held, and may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs = 0
        self.running = 0
        self.most_running = 0
        self.go = threading.Event()
        self.go.set()
        self._error = error

    def __call__(self) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.runs += 1
        self.go.wait(20)
        self.running -= 1
        if self._error:
            raise self._error

    def ran(self, times: int) -> bool:
        return self.runs >= times


@contextmanager
def scheduled(job, every_s: float, skipped=lambda _: None, clock=None):
    schedule = Schedule(clock or SystemClock(), skipped)
    schedule.every(every_s, "job", job)
    schedule.start()
    try:
        yield schedule
    finally:
        job.go.set()
        schedule.stop()


def test_a_job_runs_at_once_and_again():
    job = Job()
    with scheduled(job, 0.05):
        eventually(lambda: job.ran(4), "it has run four times")


def test_a_long_interval_runs_once():
    job = Job()
    with scheduled(job, HOUR_S):
        eventually(lambda: job.ran(1), "it has run")
    assert job.runs == 1


def test_two_runs_of_a_job_never_overlap_and_those_left_out_are_counted():
    job, skipped = Job(), []
    job.go.clear()
    with scheduled(job, 0.05, skipped.append):
        eventually(lambda: len(skipped) >= 2, "two runs were left out")
        assert job.runs == 1
        job.go.set()
        eventually(lambda: job.ran(3), "it runs again")
    assert job.most_running == 1
    assert set(skipped) == {"job"}


def test_a_failing_job_is_logged_and_runs_again():
    job = Job(ZeroDivisionError("oops"))
    with capture_logs() as logged, scheduled(job, 0.05):
        eventually(lambda: job.ran(3), "it has run three times")
    assert {"event": "job_failed", "job": "job", "log_level": "error"}.items() <= logged[0].items()
    assert "ZeroDivisionError" in logged[0]["error"]


def test_stop_waits_for_the_run_under_way():
    job = Job()
    job.go.clear()
    schedule = Schedule(SystemClock(), lambda _: None)
    schedule.every(HOUR_S, "job", job)
    schedule.start()
    eventually(lambda: job.running, "it runs")
    stopping = threading.Thread(target=schedule.stop)
    stopping.start()
    assert stopping.is_alive()
    job.go.set()
    stopping.join(10)
    assert not stopping.is_alive()
    assert job.running == 0


@pytest.mark.parametrize(
    ("step_s", "stepped"),
    [
        pytest.param(-HOUR_S, True, id="an hour back"),
        pytest.param(HOUR_S, True, id="an hour ahead"),
        pytest.param(-2.5, True, id="a little back"),
        pytest.param(0.5, False, id="a slow machine is no step"),
        pytest.param(0.0, False, id="no step"),
    ],
)
def test_a_step_of_the_wall_clock_is_seen_once(step_s, stepped):
    clock = ManualClock(1_750_000_000)
    schedule = Schedule(clock, lambda _: None)
    clock.sleep(600)
    assert schedule.check_clock() is False
    clock.step(step_s)
    assert schedule.check_clock() is stepped
    assert schedule.check_clock() is False


def test_a_step_ahead_and_back_between_two_looks_is_seen_by_its_effect():
    job = Job()
    with scheduled(job, 5.0) as schedule:
        eventually(lambda: job.ran(1), "it has run")
        assert schedule.check_clock() is False
        with time_machine.travel(SystemClock().now() + HOUR_S, tick=True):
            schedule._scheduler.wakeup()
            eventually(lambda: job.ran(2), "it runs, and plans to run in an hour and 5 s")
        schedule._offset = SystemClock().now() - SystemClock().monotonic()  # it has not looked
        eventually(lambda: job.ran(3), "it runs again soon", timeout_s=4)


@pytest.mark.parametrize(
    "step_s",
    [
        pytest.param(-HOUR_S, id="an hour back"),
        pytest.param(HOUR_S, id="an hour ahead"),
    ],
)
def test_jobs_go_on_after_the_clock_was_stepped(step_s):
    job = Job()
    with scheduled(job, 0.2):
        eventually(lambda: job.ran(2), "it runs")
        with time_machine.travel(SystemClock().now() + step_s, tick=True):
            seen = job.runs
            eventually(lambda: job.ran(seen + 4), "it goes on", timeout_s=6)
        seen = job.runs
        eventually(lambda: job.ran(seen + 4), "it goes on after the step back", timeout_s=6)


def test_runs_missed_in_a_century_become_one():
    # As on a machine without a battery, whose clock starts in 1970 until the network is up.
    job = Job()
    with scheduled(job, 5.0) as schedule:
        eventually(lambda: job.ran(1), "it has run")
        with time_machine.travel(SystemClock().now() + CENTURY_S, tick=True):
            schedule._scheduler.wakeup()
            eventually(lambda: job.ran(2), "it has run for all that were missed", timeout_s=3)
    assert job.runs <= 3
