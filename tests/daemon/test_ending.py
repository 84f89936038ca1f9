"""The limit of time for the end of the process; the real thing is in tests/end_to_end."""

import os
import signal

from ragmon.daemon import ending
from ragmon.daemon.ending import Ending


def make(monkeypatch) -> tuple[Ending, list[int]]:
    """An end whose exit from the process is only noted."""
    statuses: list[int] = []
    monkeypatch.setattr(ending, "LIMIT_S", 0.01)
    monkeypatch.setattr(os, "_exit", statuses.append)
    return Ending(lambda: None, lambda: None), statuses


def test_an_end_that_takes_too_long_is_forced(monkeypatch):
    end, statuses = make(monkeypatch)
    end.begin("start_failed")
    end._deadline.join(30.0)
    assert statuses == [ending.HUNG]


def test_an_end_in_time_lifts_the_limit_and_gives_the_signals_back(monkeypatch):
    end, statuses = make(monkeypatch)
    former = signal.getsignal(signal.SIGTERM)
    end.listen()
    end.finish()
    end.begin("start_failed")
    end._deadline.join(30.0)
    assert statuses == []
    assert signal.getsignal(signal.SIGTERM) is former
