"""Every fault of the disk and the clock on one daemon: what it answers, what it keeps."""

import errno
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ragmon.clock import SystemClock
from tests.faults.nursery import Daemon
from tests.faults.rounds import Crashes
from tests.support.wait import eventually

FAULTS: Mapping[str, dict[str, int]] = {
    "EIO on fsync": {"sync_errno": errno.EIO},
    "EIO on every third fsync": {"sync_errno": errno.EIO, "every": 3},
    "EIO on write": {"write_errno": errno.EIO},
    "EIO on every fifth write": {"write_errno": errno.EIO, "every": 5},
    "ENOSPC on write": {"write_errno": errno.ENOSPC},
    "half of each write, then ENOSPC": {"short_writes": 2},
    "short writes that go on": {"short_writes": 1, "every": 3},
    "fsync takes 400 ms": {"sync_delay_us": 400_000},
}
HARMLESS = ("short writes that go on", "fsync takes 400 ms")
STEPS = {
    "8 days ahead": 8 * 86_400.0,
    "200 days ahead": 200 * 86_400.0,
    "3 days back": -3 * 86_400.0,
}
_BATCHES = 6


class IoOutcome(NamedTuple):
    """What a fault did."""

    fault: str
    injected: int
    accepted: int  # requests, during the fault
    refused: int
    recovered_s: float


def faults_of_the_disk(crashes: Crashes, site: Daemon) -> Iterator[IoOutcome]:
    """Each fault in turn; after each the daemon is ready again by itself.

    Raises:
        AssertionError: it did not say so, or did not recover.
    """
    for name, values in FAULTS.items():
        before = crashes.faults.get("failed")
        with crashes.faults.during(**values):
            statuses = [_post(crashes, site) for _ in range(_BATCHES)]
            assert site.get("/livez").status == 200
        assert set(statuses) <= {200, 503}, (name, statuses)
        if name in HARMLESS:
            assert set(statuses) == {200}, (name, statuses)
        elif "every" not in values:
            assert 503 in statuses, (name, statuses)
        injected = crashes.faults.get("failed") - before
        assert injected or name == "fsync takes 400 ms", name
        started = SystemClock().monotonic()
        eventually(lambda: site.get("/readyz").status == 200, f"ready again after {name}", 60)
        took = SystemClock().monotonic() - started
        crashes.check(site)
        yield IoOutcome(name, injected, statuses.count(200), statuses.count(503), took)


def steps_of_the_clock(crashes: Crashes, site: Daemon) -> Iterator[str]:
    """Each step there and back: nothing is deleted, and queries of the true time are taken."""
    for name, seconds in STEPS.items():
        stored = site.get("/v1/queries?limit=1000").json["queries"]
        assert stored
        before = {event: _count(site, event) for event in ("clock_stepped", "clock_jumped_ahead")}
        crashes.faults.step_clock(seconds)
        # Then retention has looked at it, and said that it deletes nothing.
        event = "clock_jumped_ahead" if seconds > 0 else "clock_stepped"
        eventually(lambda e=event, n=before: _count(site, e) > n[e], "the step is seen", 60)
        eventually(lambda: site.get("/livez").status == 200, "it lives", 30)
        crashes.faults.step_clock(-seconds)
        eventually(lambda: site.get("/readyz").status == 200, "it is ready", 30)
        again = site.get("/v1/queries?limit=1000").json["queries"]
        # Nothing is deleted; a trace of before the step may have become a query meanwhile.
        assert len(again) >= len(stored), name
        crashes.check(site)
        yield name


def _count(site: Daemon, event: str) -> int:
    return sum(each.get("event") == event for each in site.events())


def _post(crashes: Crashes, site: Daemon) -> int:
    """One batch, by the account of the workload; its status."""
    return crashes.workload.send_one(site)
