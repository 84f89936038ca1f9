"""Ports of a store: one protocol for each of the roles that a process may have in it.

A ``Shard`` is a part of the query ids with everything that one writer commits of it. The
``StateStore`` has what follows from all shards together: windows, detection, alerts, notifications.
The ``Lease`` says who may count, judge and send. ``ragmon.stores.Reader`` reads beside all of them.
An embedded store has one shard, number 0, and all of it in one file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ragmon.loops import Loop
from ragmon.records import Position, Positions
from ragmon.stores import (
    Commit,
    Hashes,
    InboxRow,
    Migration,
    Reader,
    Recovery,
    ShardState,
    Waiting,
    WindowSource,
)
from ragmon.stores.body_figures import BodyFigures
from ragmon.stores.copying import StoredTables
from ragmon.stores.damage import Damage
from ragmon.stores.erasure import BlockErasure, ErasureRequestLog
from ragmon.stores.protocols import (
    AlertLog,
    AwaitedAnswers,
    Baselines,
    Outbox,
    ProbeRuns,
    Remembered,
    Spans,
)
from ragmon.stores.quarantine import Quarantine, QuarantineBounds
from ragmon.stores.sharing import Follower, OtherShards
from ragmon.stores.summaries import Summaries
from ragmon.windows.snapshot import SavedBucket


class Shard(Protocol):
    """Records of some query ids, owned by the writer's thread (``ragmon.threads.WriterThread``).

    That thread alone calls it, and the sub-stores that it hands out; others read through a
    ``Reader``, and may look at ``number``, ``next_sequence`` and ``waiting_count``. Sequence and
    restatement numbers count within the shard, since numbers of concurrent transactions become
    visible out of order.
    """

    number: int
    next_sequence: int
    last_restatement: int

    @property
    def position(self) -> Position:
        """The place behind everything that was committed."""
        ...

    def hash(self, query_id: str, attempt: int = 0) -> int:
        """64-bit hash of an id, as ``find`` takes it; another for each attempt."""
        ...

    def find_many(self, hashes: Hashes) -> list[int | None]:
        """Sequence numbers of stored records, in the order of their hashes; None: not stored."""
        ...

    def find(self, query_hash: int) -> int | None:
        """Sequence number of a stored record."""
        ...

    def commit(self, commit: Commit) -> None:
        """Make it durable, or raise StoreError and change nothing.

        Raises:
            StoreInDoubtError: it may have been made durable; ``settle`` asks.
        """
        ...

    def settle(self) -> bool:
        """Ask what became of a commit that ended with StoreInDoubtError; True: it was applied.

        Nothing else is committed before this returned. Without such a commit it is nothing.

        Raises:
            StoreInDoubtError: it is still not known.
        """
        ...

    def record(self, sequence: int) -> bytes | None:
        """One stored record.

        Raises:
            StoreBodiesError: it is in an object store, which does not give it now.
        """
        ...

    def amendments(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Amendments of those records that have any.

        Raises:
            StoreCorruptError: some of them are damaged.
        """
        ...

    def waiting(self, hashes: Iterable[int]) -> list[Waiting]:
        """Feedback and labels that wait for these queries."""
        ...

    def waiting_count(self) -> int:
        """Number of changes that wait for their query."""
        ...

    def waiting_hashes(self) -> list[int]:
        """Hashes of the queries that changes wait for."""
        ...

    def offset(self, source: str) -> bytes | None:
        """The position up to which a followed source was read; None before the first."""
        ...

    def expire(self, before: float, max_bytes: int | None) -> int:
        """Delete one step's worth of records too old or too many; returns how many.

        What the state store has not counted stays, since a restart will have to count it.
        """
        ...

    def expire_waiting(self, before: float) -> int:
        """Delete feedback and labels received before and claimed by no query; returns how many."""
        ...

    def compact(self, start: int, below: int) -> tuple[int, int]:
        """Join one stretch of small blocks; returns how many, and where to look next."""
        ...

    def index(self) -> None:
        """Maintain the id index between commits."""
        ...

    def spans(self) -> Spans:
        """Spans that wait for the rest of their trace."""
        ...

    def awaited(self) -> AwaitedAnswers:
        """Answers of every shard that wait for the sampled judge, by the numbers of readers.

        Those whose verdict was handed to the owner of another shard wait no more.
        """
        ...

    def summaries(self) -> Summaries:
        """Summaries of blocks."""
        ...

    def erasure(self) -> BlockErasure:
        """Erasure of content within blocks; ``let_go`` after each of them."""
        ...

    def let_go(self) -> None:
        """Let go of what is cached, because records were erased."""
        ...

    def quarantine(self, bounds: QuarantineBounds | None = None) -> Quarantine:
        """Entries that could not be processed; the first call sets their limits."""
        ...


class StateStore(WindowSource, Protocol):
    """Everything that follows from the records of all shards; owned by the writer's thread."""

    def save_windows(
        self, buckets: Iterable[SavedBucket], totals: bytes, positions: Positions
    ) -> None:
        """Snapshot of the windows; restatements up to its positions are no longer needed."""
        ...

    def expire_windows(self, oldest: Sequence[int]) -> None:
        """Delete saved buckets below the ``oldest`` of their tier."""
        ...

    def outbox(self) -> Outbox:
        """Notifications that wait for their receivers."""
        ...

    def alert_log(self) -> AlertLog:
        """Detectors, alerts and silences."""
        ...

    def baselines(self) -> Baselines:
        """Saved baselines."""
        ...

    def probe_runs(self) -> ProbeRuns:
        """Results of golden probes."""
        ...

    def remembered(self) -> Remembered:
        """Small values by name: budgets, calibrations, how far retention has come."""
        ...

    def erasure(self) -> ErasureRequestLog:
        """Requests to erase content, and erasure from alerts."""
        ...


class Lease(Protocol):
    """The right to be the one process that counts, judges and sends.

    It is taken when the store is opened, and given back when it is closed. Any thread may call it.
    """

    epoch: int  # number of this holding, which only rises; 0 in an embedded store
    is_reachable: bool  # False while the server of the store does not answer

    @property
    def clock_ahead_s(self) -> float:
        """Seconds by which this machine's clock is ahead of that server's; negative: behind."""
        ...

    @property
    def is_held(self) -> bool:
        """True while nobody else can have it, by this process's own monotonic clock."""
        ...

    @property
    def is_lost(self) -> bool:
        """True once another has taken it: this process can write nothing any more."""
        ...

    def announce(self, addresses: str) -> None:
        """Tell whoever finds it taken where this process answers."""
        ...

    def release(self) -> None:
        """Give it back; again is nothing."""
        ...


class ShardSet(Protocol):
    """Shards of a store that several processes write; for one thread."""

    @property
    def clock_ahead_s(self) -> float:
        """As that of ``Lease``."""
        ...

    @property
    def is_shared(self) -> bool:
        """True once an evaluator has let workers take shards."""
        ...

    @property
    def fenced(self) -> int:
        """Writes that were refused because another process owns the shard."""
        ...

    def take(self, number: int) -> Shard:
        """Own a shard, and read what is kept in memory of it.

        Whoever had it can write it no more: its commits end with StoreFencedError.
        """
        ...

    def let_go(self, number: int) -> None:
        """Write a shard no more; whoever takes it next goes on where it is."""
        ...

    def offset_before(self, source: str) -> bytes | None:
        """The position of a source from when one process read all of it; None: none did."""
        ...

    def inbox(self, limit: int) -> Mapping[int, list[InboxRow]]:
        """The oldest changes that were handed to the owner of these shards, by shard.

        They go with the commit that claims them. One that is damaged is left out, and counted.
        """
        ...

    def reader(self) -> Reader:
        """A view of the whole store."""
        ...

    def check_owned(self) -> None:
        """Raise StoreFencedError where another process has taken a shard of this one since."""
        ...

    def listed(self) -> list[ShardState]:
        """All shards of the store, by number."""
        ...

    def complete(self, until: Mapping[int, float]) -> None:
        """Note up to which time of the log everything is committed, by shard."""
        ...

    def close(self) -> None:
        """Let go of all shards."""
        ...


class Store(Protocol):
    """An opened store with its ports, as ``build`` of ``ragmon.stores.<kind>`` returns it."""

    shards: Mapping[int, Shard]  # those that this process owns, by number
    state: StateStore
    lease: Lease
    migration: Migration | None  # made when it was opened
    recovery: Recovery
    damage: Damage  # rows that cannot be read: skipped, counted
    loops: Sequence[Loop]  # that it runs itself
    name: str  # the same wherever it is opened, and of no other store

    @property
    def bodies(self) -> BodyFigures | None:
        """Bodies that this process moves to an object store; None: it moves none."""
        ...

    @property
    def is_shared(self) -> bool:
        """True once workers may take shards of it."""
        ...

    def share(self) -> None:
        """Let workers take shards; it is not undone.

        Raises:
            StoreError: it is for one process.
        """
        ...

    def follower(self) -> Follower:
        """A view of what workers commit.

        Raises:
            StoreError: it is for one process.
        """
        ...

    def others(self) -> OtherShards:
        """Ids of the queries that workers store.

        Raises:
            StoreError: it is for one process.
        """
        ...

    def reader(self) -> Reader:
        """A view for another thread."""
        ...

    def size_bytes(self) -> int:
        """Bytes on disk."""
        ...

    def free_bytes(self) -> int | None:
        """Bytes that its disk has left; None where this process does not see the disk."""
        ...

    def fenced(self) -> Mapping[str, int]:
        """Writes that were refused because another process has taken over, by their kind."""
        ...

    def tables(self) -> StoredTables:
        """Its tables, for a copy into another store."""
        ...

    def close(self) -> None:
        """Release the store, and the lease."""
        ...
