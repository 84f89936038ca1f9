"""Time limit of mapping: Python is interrupted, a frozen process ends itself."""

import contextlib
import subprocess
import sys
import textwrap
import threading
from functools import partial

import pytest

from ragmon.clock import SystemClock
from ragmon.sources.otlp.receiver.time_limit import MappingTimeoutError, TimeLimit

FROZEN = """
import re
from ragmon.clock import SystemClock
from ragmon.sources.otlp.receiver import time_limit

time_limit._LEAST_FROZEN_S = 0.2
limit = time_limit.TimeLimit(0.1, SystemClock(), time_limit.FreezeGuard(SystemClock(), 0.1))
limit.run(lambda: None)
limit.rest()
limit.loop.start()
limit.run(lambda: re.fullmatch("(a+)+", "a" * 60 + "b"))
"""


@pytest.fixture
def limit():
    made = TimeLimit(0.1, SystemClock())
    made.loop.start()
    yield made
    made.stop()


def spin():
    while True:
        pass


def swallowing():
    until = SystemClock().monotonic() + 0.5
    while SystemClock().monotonic() < until:
        try:
            spin()
        except BaseException:  # noqa: BLE001 - the worst that a mapping could do
            return "swallowed"
    return "never interrupted"


def test_a_function_that_takes_too_long_is_interrupted(limit):
    with pytest.raises(MappingTimeoutError, match=r"longer than 0\.1 s.*otlp\.mapping_timeout"):
        limit.run(spin)


def test_an_interrupt_that_a_function_swallows_does_not_reach_the_next(limit):
    assert limit.run(swallowing) == "swallowed"
    for number in range(200):
        assert limit.run(lambda number=number: number) == number


def test_no_handler_of_exceptions_catches_the_interrupt(limit):
    def catching():
        while True:
            with contextlib.suppress(Exception):  # as a mapping may
                spin()

    with pytest.raises(MappingTimeoutError):
        limit.run(catching)


def test_a_function_at_the_edge_of_the_limit_returns_or_times_out_and_nothing_else(limit):
    clock, outcomes = SystemClock(), set()

    def edge(until):
        while clock.monotonic() < until:
            pass
        return "done"

    for step in range(10):
        try:
            until = clock.monotonic() + 0.095 + step * 0.003
            outcomes.add(limit.run(partial(edge, until)))
        except MappingTimeoutError:
            outcomes.add("timeout")
    assert outcomes <= {"done", "timeout"}


def test_errors_of_the_function_pass(limit):
    with pytest.raises(KeyError):
        limit.run(lambda: {}["missing"])


def test_without_a_watcher_nothing_is_interrupted():
    limit = TimeLimit(0.0, SystemClock())
    assert limit.run(threading.get_ident) == threading.get_ident()


def test_a_process_whose_threads_all_stand_still_ends_with_their_tracebacks():
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FROZEN)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
    assert "fullmatch" in ended.stderr or "<lambda>" in ended.stderr
