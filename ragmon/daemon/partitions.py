"""Shards of a worker: each partition of the topic is one, with a committer of its own.

Nothing is counted here: the evaluator counts what was committed. Shard 0 is the evaluator's, for
what comes to it over HTTP; partition p is shard p + 1.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.committer import Committer
from ragmon.daemon.ingest.exemplars import ExemplarStore
from ragmon.daemon.shard_maintenance import ShardMaintenance, ShardsMaintenance
from ragmon.daemon.worker_inbox import OwnedShard, ShardWork, WorkerInbox
from ragmon.errors import StoreBodiesError, StoreError
from ragmon.pipeline import Pipeline
from ragmon.sources import IngestOutcome, Submission
from ragmon.stores.ports import Shard, ShardSet
from ragmon.stores.quarantine import QuarantineBounds
from ragmon.windows.observations import Observations

_TAKE_UP_EVERY_S = 30.0


class ShardPasses(Protocol):
    """Passes over the blocks of shards, in steps."""

    def step(self, owned: Mapping[int, OwnedShard]) -> None:
        """Go on for a moment."""
        ...


class WorkerTasks(NamedTuple):
    """Tasks of a worker besides storing what comes."""

    work: Mapping[str, ShardWork] = MappingProxyType({})  # that the evaluator asks for, by kind
    retention: ShardPasses | None = None  # per pipeline


class Uncounted:
    """In the place of windows: another process counts."""

    is_incomplete = False

    def fold(self, observations: Observations) -> None:
        """Count nothing."""

    def restate(self, old: Observations, new: Observations) -> None:
        """Count nothing."""


class WorkerShard:
    """See ``PartitionShard`` for what the methods promise."""

    def __init__(
        self,
        shard: Shard,
        committer: Committer,
        before: Callable[[str], bytes | None],
        clock: Clock,
        on_commit: Callable[[float], None],
    ) -> None:
        """Make it.

        Args:
            shard: of the store, owned by this process.
            committer: of the shard.
            before: the position of a source from when one process read all of it.
            clock: of the process.
            on_commit: called with the seconds that each commit took.
        """
        self.shard = shard
        self._committer = committer
        self._before = before
        self._clock = clock
        self._on_commit = on_commit

    def offset(self, name: str) -> bytes | None:
        """The position up to which it was read, by a worker or by one process before them."""
        stored = self.shard.offset(name)
        return self._before(name) if stored is None else stored

    def commit(self, submission: Submission) -> IngestOutcome:
        """Make it durable, with its position."""
        started = self._clock.monotonic()
        self._committer.commit([submission], self._clock.now())
        self._on_commit(self._clock.monotonic() - started)
        accepted = len(submission.records) + len(submission.changes)
        accepted -= submission.duplicates + len(submission.refused)
        return IngestOutcome(accepted, submission.duplicates, submission.refused)


class WorkerShards:
    """See ``PartitionShards`` for what the methods promise; opened when first asked for."""

    def __init__(
        self,
        open_: Callable[[], ShardSet],
        pipeline: Pipeline,
        settings: Settings,
        clock: Clock,
        on_commit: Callable[[float], None],
        *,
        tasks: WorkerTasks | None = None,
    ) -> None:
        """Make it; nothing is opened.

        Args:
            open_: opens the shards of the store.
            pipeline: by the settings.
            settings: of the process.
            clock: of the process.
            on_commit: called with the seconds that each commit took.
            tasks: besides storing.
        """
        self.takeovers = 0
        self._open = open_
        self._pipeline = pipeline
        self._settings = settings
        self._clock = clock
        self._on_commit = on_commit
        self._set: ShardSet | None = None
        tasks = tasks or WorkerTasks()
        self.inbox = WorkerInbox(clock, tasks.work)
        self._retention = tasks.retention
        self._taken_up_at = clock.monotonic()
        self._maintenance = ShardsMaintenance(clock)

    @property
    def fenced(self) -> int:
        """Commits that were refused because another worker has the shard."""
        return 0 if self._set is None else self._set.fenced

    @property
    def waiting_changes(self) -> int:
        """Feedback and labels that wait for their query, in the shards of this worker."""
        return sum(place.shard.waiting_count() for place in list(self.inbox.owned.values()))

    @property
    def waiting_expired(self) -> int:
        """Those that were deleted because it never came."""
        return self._maintenance.waiting_expired

    @property
    def clock_ahead_s(self) -> float:
        """Seconds by which this machine's clock is ahead of the database server's."""
        return 0.0 if self._set is None else self._set.clock_ahead_s

    def check(self) -> None:
        """Raise StoreError while workers may not take any."""
        if self._set is None:
            self._set = self._open()
        if not self._set.is_shared:
            raise StoreError(
                "no evaluator shares this store with workers yet",
                hint="Start a ragmon with replica.role: evaluator on the same store",
            )

    def take(self, partition: int) -> WorkerShard:
        """Own the shard of a partition."""
        shards = self._opened()
        shard = shards.take(partition + 1)
        bounds = self._settings.quarantine
        shard.quarantine(QuarantineBounds(entries=bounds.max_entries, size_bytes=bounds.max_size))
        committer = Committer(
            shard,
            self._pipeline,
            Uncounted(),
            ExemplarStore(),
            most_waiting=self._settings.limits.waiting,
        )
        self.inbox.owned[shard.number] = OwnedShard(shard, committer, shards.reader)
        self._maintenance.shards[partition] = ShardMaintenance(
            shard,
            shards.reader,
            self._pipeline,
            self._clock,
            self._settings,
        )
        self.takeovers += 1
        return WorkerShard(shard, committer, shards.offset_before, self._clock, self._on_commit)

    def let_go(self, partition: int) -> None:
        """Own the shard of a partition no longer."""
        self._maintenance.shards.pop(partition, None)
        self.inbox.let_go(partition + 1)
        if self._set is not None:
            self._set.let_go(partition + 1)

    def complete(self, until: Mapping[int, float]) -> None:
        """Note the times until which the log is committed, by partition."""
        self._opened().complete({partition + 1: at for partition, at in until.items()})

    def check_owned(self) -> None:
        """Raise StoreFencedError where another process has taken a shard of this one since."""
        self._opened().check_owned()

    def maintain(self) -> None:
        """Keep indexes and summaries, join small blocks, let go of what is too old."""
        self.inbox.step(self._opened().inbox)
        now = self._clock.monotonic()
        if now - self._taken_up_at >= _TAKE_UP_EVERY_S:
            self._taken_up_at = now
            for place in self.inbox.owned.values():
                with suppress(StoreBodiesError):  # the object store is still away
                    place.committer.take_up(self._clock.now())
        if self._retention is not None:
            self._retention.step(self.inbox.owned)
        self._maintenance.step()

    def close(self) -> None:
        """Let go of all shards."""
        if self._set is not None:
            self._set.close()
            self._set = None

    def _opened(self) -> ShardSet:
        if self._set is None:
            raise StoreError("the store is not open", hint="It is opened again")
        return self._set
