"""Counting of the windows anew: the last snapshot, and what was committed after it.

A start does it, and a daemon in which counting failed half-way: what is durable is never lost to
the windows. A commit that cannot be counted costs only itself.
"""

from collections.abc import Container
from typing import Protocol

import structlog

from ragmon.errors import StoreError
from ragmon.loops import beat
from ragmon.records import Position, Positions
from ragmon.stores import Restatement, WindowSource
from ragmon.windows import Windows
from ragmon.windows.observations import Observations, unpack
from ragmon.windows.snapshot import SavedBucket, load_bucket, load_totals

_MOST_LEFT_OUT = 8  # each costs a pass; so many are no longer one odd commit


class _UncountableError(Exception):
    """One commit could not be counted; the windows hold a part of it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class WindowCounts(Protocol):
    """Windows that count commits, or their stand-in where another process counts them."""

    is_incomplete: bool

    def fold(self, observations: Observations) -> None:
        """Count a batch."""
        ...

    def restate(self, old: Observations, new: Observations) -> None:
        """Replace what was counted of some records."""
        ...


class WindowCounting:
    """Fills windows from a store; on the writer's thread."""

    def __init__(self, source: WindowSource, windows: Windows) -> None:
        self.left_out = 0  # commits that are stored and in no window
        self.positions: dict[int, Position] = {}  # up to which they were counted from the store
        self._source = source
        self._windows = windows
        self._columns = [column.key for column in windows.columns]
        self._log = structlog.get_logger("windows")

    def count(self) -> tuple[Positions, int]:
        """Count everything anew; returns the snapshot's positions and how many records followed.

        Raises:
            StoreError: the store could not be read.
        """
        left_out: set[int] = set()
        try:
            return self._pass(left_out, is_careful=False)
        except (StoreError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - the passes below find and log its cause
            self._log.warning("counting_failed", error=repr(error))
        while True:
            try:
                counted = self._pass(left_out, is_careful=True)
            except _UncountableError as error:
                left_out.add(error.number)
                self._log.exception("commit_left_out", remedy="report it with this traceback")
                if len(left_out) > _MOST_LEFT_OUT:
                    raise
            else:
                self.left_out += len(left_out)
                return counted

    def _pass(self, left_out: Container[int], *, is_careful: bool) -> tuple[Positions, int]:
        """Count everything but some commits; with care it is known which one fails."""
        windows = self._windows
        windows.clear()
        windows.is_incomplete = True  # until the last of them is counted
        positions, totals, buckets = self._source.load_windows()
        self.positions = dict(positions)
        if totals is not None:
            load_totals(windows, totals)
        for bucket in buckets:
            beat()
            # One that is ahead was left out by a recount: the totals are of the same moment.
            if totals is None or not _is_ahead(windows, bucket):
                load_bucket(windows, bucket)
        records = 0
        for number, entry in enumerate(self._source.follow(positions)):
            beat()
            self.positions[entry.shard] = entry.position
            if number in left_out:
                continue
            try:
                records += self._count(entry.change)
                if is_careful:
                    windows.settle()
            except Exception as error:
                if is_careful and not isinstance(error, StoreError | MemoryError):
                    raise _UncountableError(number) from error
                raise
        windows.settle()
        windows.is_incomplete = False
        return positions, records

    def _count(self, change: bytes | Restatement) -> int:
        """Count one commit; returns how many records it holds."""
        if isinstance(change, Restatement):
            old, new = unpack(change.old, self._columns), unpack(change.new, self._columns)
            self._windows.restate(old, new)
            return 0
        observations = unpack(change, self._columns)
        self._windows.fold(observations)
        return len(observations)


def _is_ahead(windows: Windows, saved: SavedBucket) -> bool:
    return saved.bucket * windows.tiers[saved.tier].width_s > windows.watermark
