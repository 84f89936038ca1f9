"""Loops that no error ends."""

import threading

import pytest
import structlog
from structlog.testing import capture_logs

from ragmon.errors import StoreError
from ragmon.loops import Loop, LoopOptions
from tests.support.wait import eventually

LONG_S = 600.0  # no test waits for it


class Turns:
    """Turns that end as listed, the last again and again."""

    def __init__(self, *ends):
        self.ends = ends
        self.count = 0
        self.go = threading.Event()
        self.go.set()

    def __call__(self):
        end = self.ends[min(self.count, len(self.ends) - 1)]
        self.count += 1
        assert self.go.wait(10)
        if isinstance(end, BaseException):
            raise end
        return end


def looping(turns, **more):
    return Loop("test", turns, structlog.get_logger("test"), **more)


def test_a_loop_waits_as_long_as_its_turn_says_or_until_it_is_woken():
    turns = Turns(0.0, LONG_S)
    loop = looping(turns)
    loop.start()
    eventually(lambda: turns.count == 2, "the second waits")
    loop.wake()
    eventually(lambda: turns.count == 3, "it was woken")
    assert loop.stop(10)
    assert turns.count == 3


@pytest.mark.parametrize(
    ("error", "level", "has_trace"),
    [
        pytest.param(StoreError("disk full"), "warning", False, id="what was to be expected"),
        pytest.param(OSError("no such file"), "warning", False, id="the system's refusal"),
        pytest.param(KeyError("defect"), "error", True, id="a defect with its trace"),
    ],
)
def test_a_turn_that_fails_is_logged_and_tried_again(error, level, has_trace):
    turns = Turns(error, error, LONG_S)
    loop = looping(turns, options=LoopOptions(failed="cannot_read", first_pause_s=0.0))
    with capture_logs() as logged:
        loop.start()
        eventually(lambda: turns.count == 3, "it goes on")
        assert loop.stop(10)
    assert [(each["event"], each["log_level"]) for each in logged] == [("cannot_read", level)] * 2
    assert all(each.get("exc_info", False) is has_trace for each in logged)


def test_what_fails_because_it_is_stopped_is_not_logged():
    turns = Turns(EOFError("the process was ended"))
    turns.go.clear()
    ended = []
    loop = looping(turns, finish=lambda: ended.append(threading.current_thread().name))
    with capture_logs() as logged:
        loop.start()
        eventually(lambda: turns.count == 1, "a turn is under way")
        assert loop.stop(0.0) is False
        turns.go.set()
        assert loop.stop(10) is True
    assert (logged, ended, turns.count) == ([], ["test"], 1)


def test_a_loop_that_was_never_started_is_stopped():
    loop = looping(Turns(0.0))
    assert loop.stop(10)
    assert loop.stopping.is_set()
