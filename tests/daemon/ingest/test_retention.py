"""Retention counts from a time that a jumping clock cannot move."""

import pytest

from ragmon.daemon.ingest.retention import PAUSE_S, RetentionClock

DAY = 86_400.0
NOW = 1_740_000_000.0


class SteppedClock:
    """A wall clock that is set by hand, beside a monotonic one that only runs."""

    def __init__(self):
        self.wall, self.uptime = NOW, 100.0

    def now(self):
        return self.wall

    def monotonic(self):
        return self.uptime

    def run(self, seconds, *, step=0.0):
        self.wall += seconds + step
        self.uptime += seconds


@pytest.fixture
def clock():
    return SteppedClock()


def test_a_steady_clock_is_believed(clock):
    retention = RetentionClock(clock)
    for _ in range(10):
        assert retention.now(clock.wall - 5.0) == clock.wall - 5.0
        clock.run(30.0)


def test_data_from_the_future_does_not_move_it(clock):
    assert RetentionClock(clock).now(NOW + 300.0) == NOW


def test_without_data_the_clock_counts(clock):
    assert RetentionClock(clock).now(0.0) == NOW


def test_without_new_data_the_time_that_was_measured_ages_the_old(clock):
    retention = RetentionClock(clock)
    retention.now(NOW)
    clock.run(3 * DAY)
    assert retention.now(NOW) == NOW + 3 * DAY


def test_time_while_it_did_not_run_is_not_measured(clock):
    first = RetentionClock(clock)
    first.now(NOW)
    clock.run(600.0)
    first.now(NOW)
    clock.run(1_800.0)  # it is down
    second = RetentionClock(clock)
    second.resume(first.reached)
    assert second.now(NOW) == NOW + 600.0
    clock.run(60.0)
    assert second.now(NOW) == NOW + 660.0


def test_a_jump_ahead_without_new_data_never_counts(clock):
    retention = RetentionClock(clock)
    retention.now(NOW)
    clock.run(30.0, step=8 * DAY)
    assert retention.now(NOW) is None
    clock.run(PAUSE_S + 1.0)
    assert retention.now(NOW) == NOW + 30.0 + PAUSE_S + 1.0


def test_a_jump_ahead_deletes_nothing_for_an_hour(clock):
    retention = RetentionClock(clock)
    retention.now(NOW)
    clock.run(30.0, step=8 * DAY)
    assert retention.now(clock.wall) is None  # also with queries of that future
    clock.run(PAUSE_S - 31.0)
    assert retention.now(clock.wall) is None
    clock.run(60.0)
    assert retention.now(clock.wall) == clock.wall  # so it was the past that was wrong


def test_a_clock_that_is_set_right_again_is_believed_at_once(clock):
    retention = RetentionClock(clock)
    retention.now(NOW)
    clock.run(30.0, step=8 * DAY)
    assert retention.now(clock.wall) is None
    clock.run(6.0, step=-8 * DAY)
    assert retention.now(NOW + 8 * DAY) == clock.wall


def test_a_clock_that_is_ahead_at_the_start_is_doubted(clock):
    retention = RetentionClock(clock)
    assert retention.now(NOW - 8 * DAY) is None
    clock.run(PAUSE_S + 1.0)
    assert retention.now(NOW - 8 * DAY) == NOW - 8 * DAY + PAUSE_S + 1.0


def test_small_steps_are_the_work_of_ntp(clock):
    retention = RetentionClock(clock)
    retention.now(NOW)
    clock.run(1.0, step=600.0)
    assert retention.now(clock.wall) == clock.wall


def test_a_jump_is_doubted_for_an_hour_by_whoever_asks_first(clock):
    retention = RetentionClock(clock)
    assert retention.is_doubted()  # nothing is known of the clock yet
    retention.now(NOW)
    assert not retention.is_doubted()
    clock.run(30.0, step=8 * DAY)
    assert retention.is_doubted()
    assert retention.now(NOW) is None  # a jump that another saw first pauses deletion as well
    clock.run(PAUSE_S - 1.0)
    assert retention.is_doubted()
    clock.run(2.0)
    assert not retention.is_doubted()


def test_a_clock_that_is_right_again_is_believed_at_once(clock):
    retention = RetentionClock(clock)
    retention.now(NOW)
    clock.run(30.0, step=8 * DAY)
    assert retention.is_doubted()
    clock.run(30.0, step=-8 * DAY)
    assert not retention.is_doubted()
