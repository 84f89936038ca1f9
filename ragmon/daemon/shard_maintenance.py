"""Maintenance of a worker's shards between commits: indexes, retention, small blocks, summaries.

Each step is short, since the thread that takes it also reads the topic.
"""

from collections.abc import Callable
from typing import TypeVar

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.summaries import BlockSummarizer
from ragmon.pipeline import Pipeline
from ragmon.stores import Reader
from ragmon.stores.ports import Shard
from ragmon.stores.summaries import Summaries

_EXPIRE_EVERY_S = 60.0
_EXPIRE_STEPS = 20  # of a shard, before others have their turn
_COMPACT_EVERY_S = 20.0
_COMPACT_STEPS = 20
_SUMMARIZE_EVERY_S = 5.0
_SUMMARIZE_S = 0.5  # a tenth of its interval
_Answer = TypeVar("_Answer")


class ShardMaintenance:
    """Maintenance of one shard."""

    def __init__(
        self,
        shard: Shard,
        reader: Callable[[], Reader],
        pipeline: Pipeline,
        clock: Clock,
        settings: Settings,
    ) -> None:
        """Plan it; nothing is due yet.

        Args:
            shard: owned by this process.
            reader: opens a view of the store.
            pipeline: that observed the queries.
            clock: of the process.
            settings: what is kept for how long.
        """
        self._shard = shard
        self._clock = clock
        self._retention = settings.retention
        self._keep_quarantined_s = settings.quarantine.keep
        self._summarizer = BlockSummarizer(
            shard,
            _Direct(shard.summaries()),
            reader,
            pipeline,
            ending=lambda: False,
            monotonic=clock.monotonic,
        )
        self._waiting_expired = 0
        now = clock.monotonic()
        self._due = {
            self._expire: now + _EXPIRE_EVERY_S,
            self._compact: now + _COMPACT_EVERY_S,
        }
        self._intervals = {self._expire: _EXPIRE_EVERY_S, self._compact: _COMPACT_EVERY_S}

    def step(self) -> int:
        """Do what is due; returns how many changes were deleted whose query never came."""
        before = self._waiting_expired
        self._shard.index()
        now = self._clock.monotonic()
        for task, due in self._due.items():
            if now >= due:
                self._due[task] = now + self._intervals[task]
                task()
        return self._waiting_expired - before

    def summarize(self, seconds: float) -> None:
        """Make summaries of blocks, for some time."""
        self._summarizer.turn(seconds)

    def _expire(self) -> None:
        now = self._clock.now()
        self._shard.quarantine().expire(now - self._keep_quarantined_s)
        before = now - self._retention.records
        self._waiting_expired += self._shard.expire_waiting(before)
        for _ in range(_EXPIRE_STEPS):
            if not self._shard.expire(before, self._retention.max_disk):
                break

    def _compact(self) -> None:
        """Join what windows and detectors have counted."""
        at = 0
        for _ in range(_COMPACT_STEPS):
            joined, at = self._shard.compact(at, self._shard.next_sequence)
            if not joined:
                break


class ShardsMaintenance:
    """Maintenance of all shards of a worker."""

    def __init__(self, clock: Clock) -> None:
        self.shards: dict[int, ShardMaintenance] = {}
        self.waiting_expired = 0  # changes whose query never came
        self._clock = clock
        self._summarized_at = clock.monotonic()

    def step(self) -> None:
        """Do what is due."""
        for maintenance in self.shards.values():
            self.waiting_expired += maintenance.step()
        now = self._clock.monotonic()
        if self.shards and now - self._summarized_at >= _SUMMARIZE_EVERY_S:
            self._summarized_at = now
            for maintenance in self.shards.values():
                maintenance.summarize(_SUMMARIZE_S / len(self.shards))


class _Direct:
    """Summaries of a shard that this very thread owns."""

    def __init__(self, summaries: Summaries) -> None:
        self._summaries = summaries

    def ask(self, function: Callable[[Summaries], _Answer]) -> _Answer:
        """The answer of a function that looks at them."""
        return function(self._summaries)
