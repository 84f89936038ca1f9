"""Stores: where acknowledged records live. SQL stands nowhere else.

A shard of a store keeps records in the order of their *sequence number*, finds them by the hash of
their query id, and commits everything that one group of requests changes in one transaction. What
a store offers to each of its users is in ``ragmon.stores.ports``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.records import Position, Positions
from ragmon.stores.damage import Damage
from ragmon.stores.protocols import Awaited, SpanRow
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.stores.summaries import BlockOutline, DueSummary
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


class Handed(NamedTuple):
    """A change for a record of another shard, whose owner commits it."""

    number: int  # of the record, among those of all shards
    kind: str
    body: bytes
    received: float


class InboxRow(NamedTuple):
    """A change that was handed to the owner of a shard."""

    number: int  # of the row
    sequence: int  # of the record, within the shard
    waiting: Waiting


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
    handed: Sequence[Handed] = ()  # to the owners of other shards
    claimed: Sequence[int] = ()  # rows of this shard's inbox, which are now applied
    quarantined: Sequence[QuarantinedItem] = ()
    spans: Sequence[SpanRow] = ()  # that wait for the rest of their trace


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


MigrationProgress = Callable[[str, int, int], None]
"""Called with a stage, and how much of how much of it is done: bytes of ``COPYING``, else steps."""

COPYING = "Copying the store as it was"
CHANGING = "Changing the format"


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Take no notice."""


class Migration(NamedTuple):
    """A change of the store's format, made when it was opened."""

    from_format: int
    to_format: int
    backup: Path | None  # the store as it was; None: the database has backups of its own


class StoreFormat(NamedTuple):
    """The format of a store, beside that of this ragmon."""

    version: int
    current: int
    readable_by: int  # the oldest format whose ragmon can use it


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


class JournalEntry(NamedTuple):
    """One commit as windows and detectors count it."""

    shard: int
    position: Position  # of the shard, with this entry
    change: bytes | Restatement  # packed observations, or what became known of some


class ShardProgress(NamedTuple):
    """Progress of the owner of a shard."""

    position: Position
    complete_until: float | None  # unix seconds: of the log's messages until then none is missing


class ShardState(NamedTuple):
    """A shard as the store has it."""

    number: int
    owner: str  # whoever took it last; empty: nobody yet
    epoch: int
    records: int  # that it was ever given
    complete_until: float | None  # as in ``ShardProgress``
    offsets: Mapping[str, bytes]  # stored positions by the name of their source


class WindowSource(Protocol):
    """The saved windows, and what they do not hold yet."""

    def load_windows(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot: positions, totals, and the buckets from old to new.

        Damaged totals are None, damaged buckets are left out.
        """
        ...

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Everything committed after these positions, until nothing is left.

        Of each shard in the order in which it was committed, save that restatements come after
        the records that they restate. The position of an entry stands for all that came before it
        of its shard. Damaged entries are left out.
        """
        ...


class Reader(WindowSource, Protocol):
    """Reads beside the writers, from a snapshot of its own; one thread at a time.

    Where a store has several shards it reads all of them. Every number is then that of
    ``ragmon.records.number_of``, which for shard 0 is the sequence number; a block that follows
    another may be the first of the next shard.
    """

    damage: Damage  # rows that it could not read

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def moment(self) -> AbstractContextManager[None]:
        """See the store as it is now, whatever is committed meanwhile."""
        ...

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, newest first."""
        ...

    def outlines(
        self, since: float, until: float, *, with_facts: bool = True
    ) -> Iterator[BlockOutline]:
        """Blocks with records in that time, unopened, the one with the newest record first."""
        ...

    def block(self, first_sequence: int, *, with_amendments: bool = True) -> Block | None:
        """One block; None where it is damaged or gone."""
        ...

    def keys(self, first_sequences: Sequence[int]) -> dict[int, bytes]:
        """The filters over words and ids of some blocks; those that have none are missing."""
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
