"""Copies of the buckets that changed, to be saved while the windows go on.

What is taken is little: open rows, and references to what is never changed in place. To make bytes
of them takes several times as long, and any thread can do it.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ragmon.windows import Windows
from ragmon.windows.bucket_rows import BucketRowsState
from ragmon.windows.latency_bucket import BucketState
from ragmon.windows.snapshot import BucketContent, SavedBucket, SeriesNames, dump_bucket
from ragmon.windows.sparse import Cells

_AHEAD_BYTES = 6 << 20  # that are made beforehand: what 500 series change in a minute


class _Copy(NamedTuple):
    tier: int
    bucket: int
    rows: BucketRowsState
    latency: BucketState | None
    judged: Cells | None


class _Dumped(NamedTuple):
    saved: SavedBucket
    latency: BucketState | None
    counted: BucketState | None  # the same, and nothing in it waits


class ChangedBuckets:
    """Every bucket changed since the last copy; with this one they count as clean."""

    def __init__(self, windows: Windows) -> None:
        """Copy them, on the thread of the windows.

        A bucket that the rings have moved past stays as it was last saved. One that was not
        touched since the last copy is packed.
        """
        windows.settle()
        self._windows = windows
        self._names = SeriesNames(windows)
        self._copies: deque[_Copy] = deque()
        self._ahead: deque[_Dumped] = deque()
        self._changed = [set(dirty) for dirty in windows.dirty]
        for tier, dirty in enumerate(windows.dirty):
            for bucket in sorted(dirty):
                rows = windows.rings[tier].state(bucket)
                if rows is not None:
                    latency = windows.latencies[tier].state(bucket)
                    judged = windows.judged[tier].get(bucket)
                    self._copies.append(_Copy(tier, bucket, rows, latency, judged))
            windows.rings[tier].rest(dirty)
            dirty.clear()

    def prepare(self) -> None:
        """Make bytes of them, as many as may be in memory at once; on any thread."""
        size = 0
        while self._copies and size < _AHEAD_BYTES:
            dumped = self._dump(self._copies.popleft())
            size += len(dumped.saved.body)
            self._ahead.append(dumped)

    def dump(self) -> Iterator[SavedBucket]:
        """Each of them as bytes, once; on the thread of the windows, whose memory shrinks by it."""
        while self._ahead or self._copies:
            dumped = self._ahead.popleft() if self._ahead else self._dump(self._copies.popleft())
            saved, latency, counted = dumped
            if latency is not None and counted is not None:
                self._windows.latencies[saved.tier].replace(saved.bucket, latency, counted)
            yield saved

    def put_back(self) -> None:
        """Have them count as changed again, because they were not saved."""
        for dirty, changed in zip(self._windows.dirty, self._changed, strict=True):
            dirty.update(changed)

    def _dump(self, copy: _Copy) -> _Dumped:
        counted = None if copy.latency is None else copy.latency.settled()
        content = BucketContent(copy.rows, counted, copy.judged)
        body = dump_bucket(self._names, content)
        return _Dumped(SavedBucket(copy.tier, copy.bucket, body), copy.latency, counted)
