"""Stores: where acknowledged records live. One file each; SQL stands nowhere else.

A store keeps records in the order of their *sequence number*, finds them by the hash of their
query id, and commits everything that one group of requests changes in one transaction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.records import Position
from ragmon.stores.damage import Damage
from ragmon.stores.erasure import Erasure
from ragmon.stores.protocols import (
    AlertLog,
    Awaited,
    Baselines,
    JudgeStore,
    Outbox,
    ProbeRuns,
    Spans,
)
from ragmon.stores.quarantine import Quarantine, QuarantineBounds, QuarantinedItem
from ragmon.stores.summaries import BlockOutline, DueSummary, Summaries
from ragmon.windows.snapshot import SavedBucket

Hashes = NDArray[np.uint64]


class Restatement(NamedTuple):
    """Packed observations of some records as they were and as they are."""

    old: bytes
    new: bytes


class Waiting(NamedTuple):
    """A change whose query has not come yet."""

    query_hash: int
    kind: str
    body: bytes
    received: float


class Commit(Struct, kw_only=True):
    """One transaction."""

    records: bytes | bytearray = b""  # one msgpack array; only looked at during the commit
    hashes: Hashes  # of the records' ids, in the same order
    first_timestamp: float = 0.0
    last_timestamp: float = 0.0
    observations: bytes = b""
    amendments: Sequence[tuple[int, bytes]] = ()  # by sequence number
    restatement: Restatement | None = None
    waiting: Sequence[Waiting] = ()
    arrived: Sequence[int] = ()  # hashes whose waiting feedback is now applied
    offsets: Sequence[tuple[str, bytes]] = ()  # how far each followed source was read
    awaited: Sequence[Awaited] = ()  # drawn for the sampled judge
    judged: Sequence[int] = ()  # sequence numbers whose verdict is no longer awaited
    quarantined: Sequence[QuarantinedItem] = ()


class Block(NamedTuple):
    """Neighbouring records, as stored."""

    first_sequence: int
    last_timestamp: float
    observations: bytes
    amendments: dict[int, bytes]


class StoredBlock(NamedTuple):
    """The records of a block, and how the store keeps them."""

    first_sequence: int
    hashes: Hashes
    observations: bytes
    stored: bytes  # tells whether it changed since
    records: bytes  # one msgpack array
    revised: Mapping[int, bytes] = MappingProxyType({})  # by place: mapped again since


class BlockTimes(NamedTuple):
    """Place and times of a block."""

    first_sequence: int
    records: int
    first_timestamp: float
    last_timestamp: float


class Migration(NamedTuple):
    """A change of the store's format, made when it was opened."""

    from_format: int
    to_format: int
    backup: Path  # the store as it was


class Lost(NamedTuple):
    """Acknowledged content that a store no longer has."""

    commits: int = 0
    queries: int = 0
    corrections: int = 0  # of queries, by feedback, labels or verdicts

    def __bool__(self) -> bool:
        return bool(self.commits)


class Recovery(NamedTuple):
    """The end of the process before, as found when the store was opened."""

    commits: int = 0  # brought back from the write-ahead log
    unread_bytes: int = 0  # of the log after the last of them
    lost: Lost = Lost()


class WindowSource(Protocol):
    """The saved windows, and what they do not hold yet."""

    def load_windows(self) -> tuple[Position, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot: position, totals, and the buckets from old to new.

        Damaged totals are None, damaged buckets are left out.
        """
        ...

    def replay(self, after: Position) -> Iterator[bytes | Restatement]:
        """Packed observations, then restatements, committed after a position."""
        ...


class Store(WindowSource, Protocol):
    """One store, owned by the writer's thread (``ragmon.threads.WriterThread``).

    That thread alone calls it, and the sub-stores that it hands out; others read through
    ``reader``, and may look at ``next_sequence``, ``size_bytes`` and ``waiting_count``.
    """

    next_sequence: int
    last_restatement: int
    migration: Migration | None  # made when it was opened
    recovery: Recovery
    damage: Damage  # rows that cannot be read: skipped, counted

    def hash(self, query_id: str, attempt: int = 0) -> int:
        """64-bit hash of an id, as ``known`` and ``find`` take it; another for each attempt."""
        ...

    def find_many(self, hashes: Hashes) -> list[int | None]:
        """Sequence numbers of stored records, in the order of their hashes; None: not stored."""
        ...

    def find(self, query_hash: int) -> int | None:
        """Sequence number of a stored record."""
        ...

    def commit(self, commit: Commit) -> None:
        """Make it durable, or raise StoreError and change nothing."""
        ...

    def record(self, sequence: int) -> bytes | None:
        """One stored record."""
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

    def offset(self, source: str) -> bytes | None:
        """The position up to which a followed source was read; None before the first."""
        ...

    def save_windows(
        self, buckets: Iterable[SavedBucket], totals: bytes, position: Position
    ) -> None:
        """Snapshot of the windows; restatements up to its position are no longer needed."""
        ...

    def expire(self, before: float, max_bytes: int | None) -> int:
        """Delete one step's worth of records too old or too many; returns how many.

        What the saved windows have not counted stays, since a restart will have to count it.
        """
        ...

    def expire_windows(self, oldest: Sequence[int], waiting_before: float) -> int:
        """Delete saved buckets below the ``oldest`` of their tier, and feedback nobody claims.

        Returns:
            How much feedback, labels included.
        """
        ...

    def compact(self, start: int, below: int) -> tuple[int, int]:
        """Join one stretch of small blocks; returns how many, and where to look next."""
        ...

    def index(self) -> None:
        """Maintain the id index between commits."""
        ...

    def size_bytes(self) -> int:
        """Bytes on disk."""
        ...

    def reader(self) -> "Reader":
        """A view for another thread."""
        ...

    def spans(self) -> Spans:
        """Spans that wait for the rest of their trace."""
        ...

    def judging(self) -> JudgeStore:
        """Answers that wait for the sampled judge."""
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

    def summaries(self) -> Summaries:
        """Summaries of blocks."""
        ...

    def erasure(self) -> Erasure:
        """Requests to erase content; ``let_go`` after each of them."""
        ...

    def let_go(self) -> None:
        """Let go of what is cached, because records were erased."""
        ...

    def quarantine(self, bounds: QuarantineBounds | None = None) -> Quarantine:
        """Entries that could not be processed; the first call sets their limits."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...


class Reader(WindowSource, Protocol):
    """Reads beside the writer, from a snapshot of its own; one thread at a time."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def moment(self) -> AbstractContextManager[None]:
        """See the store as it is now, whatever is committed meanwhile."""
        ...

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, newest first."""
        ...

    def outlines(self, since: float, until: float) -> Iterator[BlockOutline]:
        """Blocks with records in that time, unopened, the one with the newest record first."""
        ...

    def block(self, first_sequence: int, *, with_amendments: bool = True) -> Block | None:
        """One block; None where it is damaged or gone."""
        ...

    def keys(self, first_sequence: int) -> bytes | None:
        """The filter over words and ids of one block; None where it has none."""
        ...

    def contents(self, first_sequence: int) -> tuple[bytes, dict[int, bytes]] | None:
        """The records of one block as one msgpack array, and by place those mapped again since."""
        ...

    def stored_bytes(self, first_sequence: int) -> int:
        """Bytes that one block takes."""
        ...

    def due_summaries(self, layout: int, below: int, limit: int) -> list[DueSummary]:
        """Blocks below a number without a summary of this layout, the newest first."""
        ...

    def records(self, first_sequence: int) -> list[bytes]:
        """The records of one block."""
        ...

    def some_records(self, first_sequence: int, places: Sequence[int]) -> dict[int, bytes]:
        """Records of one block by their place in it; those that are damaged or gone are missing."""
        ...

    def record(self, sequence: int) -> tuple[bytes, bytes | None] | None:
        """One record with its amendments."""
        ...

    def amendments(self, sequences: Sequence[int]) -> dict[int, bytes]:
        """Amendments of those records that have any, save those that are damaged."""
        ...

    def hashes_from(self, sequence: int) -> tuple[int, Hashes] | None:
        """First number and id hashes of the block with that record, or of the next block."""
        ...

    def block_times(self) -> list[BlockTimes]:
        """Place and times of every block, in order."""
        ...

    def stored_block(self, sequence: int) -> StoredBlock | None:
        """The block with that record, or the next one, as it is stored."""
        ...

    def saved_buckets(self, tier: int, first: int, last: int) -> Iterator[SavedBucket]:
        """The saved buckets ``first`` to ``last`` of a tier, from old to new."""
        ...

    def backup(self, target: Path) -> None:
        """Copy everything committed into a new file."""
        ...

    def close(self) -> None:
        """Release the view."""
        ...
