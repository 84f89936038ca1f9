"""Loops that no error ends."""

import threading

import pytest
import structlog
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.errors import StoreError
from ragmon.loops import Heartbeat, Loop, LoopOptions, Supervisor, pause_s
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


# ---- what may happen to a loop --------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RuntimeError("a defect"), id="an exception"),
        pytest.param(SystemExit("ended"), id="an end"),
        pytest.param(MemoryError(), id="no memory"),
    ],
)
def test_whatever_a_turn_raises_the_loop_goes_on_and_it_is_counted(error):
    turns = Turns(error, error, LONG_S)
    loop = looping(turns, options=LoopOptions(first_pause_s=0.0))
    with capture_logs() as logged:
        loop.start()
        eventually(lambda: turns.count == 3, "it goes on")
        assert loop.stop(10)
    assert loop.heartbeat.failures == 2
    assert [each["failures"] for each in logged] == [1, 2]
    assert {each["loop"] for each in logged} == {"test"}


class Unwritable:
    """A log that ends the thread that writes to it, once."""

    def __init__(self):
        self.events = []

    def error(self, event, **_):
        self.events.append(event)
        if len(self.events) == 1:
            raise SystemExit


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_started_again():
    turns, died = Turns(RuntimeError("a defect"), LONG_S), []
    log = Unwritable()
    loop = Loop("test", turns, log, LoopOptions(first_pause_s=0.0), died=lambda: died.append(1))
    supervisor = Supervisor()
    supervisor.watch(lambda: [loop])
    loop.start()
    eventually(lambda: loop.has_ended, "the thread ended")
    supervisor.revive()
    eventually(lambda: turns.count == 2, "it takes turns again")
    assert (loop.is_alive, died, log.events) == (True, [1], ["turn_failed", "loop_ended"])
    assert supervisor.failures() == {"test": 2.0}
    assert loop.stop(10)


def test_a_loop_that_hangs_is_named_with_its_limit_and_others_servers_are_not():
    clock = ManualClock(1_750_000_000)
    vital = Heartbeat("writer", LoopOptions(clock=clock, stall_s=60.0))
    foreign = Heartbeat("sink-chat", LoopOptions(clock=clock, stall_s=60.0, is_vital=False))
    loops = [type("Member", (), {"heartbeat": each})() for each in (vital, foreign)]
    supervisor = Supervisor()
    supervisor.watch(lambda: loops)
    clock.sleep(600)
    assert supervisor.stalled() == []  # not begun
    for heartbeat in (vital, foreign):
        heartbeat.begin()
    clock.sleep(61)
    assert supervisor.stalled() == [
        "loop writer has not turned since 2025-06-15T15:16:40Z (61 s; its limit is 60 s)"
    ]
    assert supervisor.last_turns() == {"writer": 1_750_000_600.0, "sink-chat": 1_750_000_600.0}
    vital.beat()
    assert supervisor.stalled() == []


def test_pauses_grow_with_chance_up_to_a_limit():
    for failures, longest in ((1, 1.0), (2, 2.0), (4, 8.0), (20, 30.0), (5_000, 30.0)):
        pauses = [pause_s(failures, 1.0, 30.0) for _ in range(50)]
        assert longest / 2 <= min(pauses) < max(pauses) <= longest
