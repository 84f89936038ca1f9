"""Stores: where acknowledged records live. One file each; SQL stands nowhere else.

A store keeps records in the order of their *sequence number*, finds them by the hash of their
query id, and commits everything that one group of requests changes in one transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.alerts import AlertEvent
from ragmon.alerts.silences import Silence
from ragmon.detectors import minutes
from ragmon.windows.snapshot import SavedBucket

Hashes = NDArray[np.uint64]


class Position(Struct, frozen=True):
    """How far the windows have counted: the next record, the last restatement."""

    sequence: int = 0
    restatement: int = 0


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


class Awaited(NamedTuple):
    """An answer that was drawn for the sampled judge."""

    sequence: int
    since: float  # unix seconds


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


class Block(NamedTuple):
    """Neighbouring records, as stored."""

    first_sequence: int
    last_timestamp: float
    observations: bytes
    amendments: dict[int, bytes]


class SpanRow(NamedTuple):
    """Spans of one trace that arrived together."""

    trace_id: bytes
    spans: int
    has_entry: bool
    body: bytes


class Spans(Protocol):
    """Spans of traces that are not complete; called on the writer's thread."""

    def append(self, rows: Iterable[SpanRow]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        ...

    def bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        """For each trace what was appended, in that order."""
        ...

    def pending(self) -> list[tuple[bytes, int, bool]]:
        """Every trace with its number of spans and whether it has an entry, oldest first."""
        ...

    def delete(self, trace_ids: Iterable[bytes]) -> None:
        """Forget these traces."""
        ...


class Notification(NamedTuple):
    """One transition of an alert on its way to one sink."""

    sink: str
    event_id: str  # twice the same for one sink is one notification
    fingerprint: str  # of the alert; its notifications are delivered in order
    at: float  # unix seconds of the transition
    body: bytes


class Pending(NamedTuple):
    """A notification that is not delivered yet, and how often that was tried."""

    number: int
    sink: str
    event_id: str
    fingerprint: str
    at: float
    body: bytes
    attempts: int


class Due(NamedTuple):
    """What to try now; without anything, when something comes due (None: nothing waits)."""

    rows: list[Pending]
    next_at: float | None


Fate = Literal["delivered", "retried", "dead"]


class Settled(NamedTuple):
    """How one attempt ended."""

    number: int
    fate: Fate
    at: float  # unix seconds: when it ended; for retried, when it is due again
    error: str = ""


class Undelivered(NamedTuple):
    """The outbox in numbers."""

    length: int
    oldest_at: float | None
    dead: int


class DeadLetter(NamedTuple):
    """A notification that was given up."""

    sink: str
    event_id: str
    fingerprint: str
    at: float
    body: bytes
    attempts: int
    buried_at: float
    reason: str


class Outbox(Protocol):
    """Notifications that no receiver has yet; called on the writer's thread.

    A store also offers ``insert`` within a transaction of its own, so that a transition and its
    notifications become durable together.
    """

    def put(self, rows: Iterable[Notification]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        ...

    def due(self, sink: str, now: float, limit: int) -> Due:
        """The oldest notification of each alert, where it is due."""
        ...

    def settle(self, outcomes: Sequence[Settled]) -> None:
        """Write down how attempts ended, all or nothing."""
        ...

    def abandon(self, known: Sequence[str], now: float, reason: str) -> int:
        """Bury what waits for sinks that are not among the known; returns how many."""
        ...

    def undelivered(self) -> Undelivered:
        """How much waits, since when, and how much was given up."""
        ...

    def dead(self, limit: int) -> list[DeadLetter]:
        """What was given up last, the newest first."""
        ...


class Judging(Protocol):
    """Answers that wait for the sampled judge, and what judging remembers.

    Called on the writer's thread. Draws and verdicts are part of a ``Commit``.
    """

    def awaited(self, skip: int, limit: int) -> list[Awaited]:
        """Some of those that wait, in a fixed order that has nothing to do with time.

        Where not all can be judged, those that are then speak for the others.
        """
        ...

    def overdue(self, before: float, limit: int) -> list[Awaited]:
        """Some of those that were drawn before a moment."""
        ...

    def awaited_count(self) -> int:
        """How many wait."""
        ...

    def abandon(self, sequences: Iterable[int]) -> None:
        """Await these no longer: their records are gone."""
        ...

    def remembered(self, name: str) -> bytes | None:
        """What was kept under a name."""
        ...

    def remember(self, name: str, body: bytes) -> None:
        """Keep something under a name; it is on disk when this returns."""
        ...


class SavedDetection(NamedTuple):
    """Detectors and alerts as they were saved."""

    state: bytes
    book: bytes
    catching_up: bool
    position: Position
    buckets: Iterator[minutes.SavedBucket]  # from old to new


class Turn(Struct, frozen=True, kw_only=True):
    """What one turn of detection changes, saved as a whole."""

    state: bytes  # of the detectors
    buckets: Sequence[minutes.SavedBucket]  # those that changed
    oldest: tuple[int, int]  # older buckets of each tier go
    book: bytes  # of the alerts
    catching_up: bool
    position: Position  # how far the detectors have counted
    events: Sequence[AlertEvent] = ()
    notifications: Sequence[Notification] = ()


class AlertLog(Protocol):
    """Detectors, alerts and silences; called on the writer's thread.

    From when it is first asked for, what the saved detectors have not counted is kept, since a
    restart will have to count it.
    """

    counted: Position  # how far the saved detectors have counted

    def load(self) -> SavedDetection | None:
        """What was saved last."""
        ...

    def save(self, turn: Turn) -> None:
        """Make it durable, or raise StoreError and change nothing; known events stay."""
        ...

    def ended(self, since: float, limit: int, pipeline: str = "") -> list[AlertEvent]:
        """The ends of alerts, of one pipeline or of all, the newest first."""
        ...

    def episode(self, name: str) -> list[AlertEvent]:
        """Every transition of one alert, in order."""
        ...

    def silences(self) -> list[Silence]:
        """Every silence, those that are over too."""
        ...

    def add_silence(self, silence: Silence) -> None:
        """Keep one; of the same id it takes the place."""
        ...

    def delete_silence(self, name: str) -> bool:
        """Delete one; False when there was none."""
        ...

    def expire(self, before: float) -> None:
        """Delete transitions and silences that ended before."""
        ...


class BaselineRow(Struct, frozen=True, kw_only=True):
    """What is known of one version of a saved baseline."""

    name: str
    version: int = 0  # numbered by the store
    kind: Literal["traffic", "golden"]  # of golden runs: only compared with golden runs
    created_at: float  # unix seconds
    created_by: str
    provenance: str  # which window or which run
    samples: float  # queries, or cases
    promoted: bool = False


class Baselines(Protocol):
    """Saved baselines, versioned; called on the writer's thread."""

    def add(self, row: BaselineRow, body: bytes) -> BaselineRow:
        """Keep another version, which is numbered here and not promoted."""
        ...

    def rows(self) -> list[BaselineRow]:
        """Every version of every baseline, the newest first."""
        ...

    def find(self, name: str, version: int | None = None) -> tuple[BaselineRow, bytes] | None:
        """One version; None: the promoted one, else the newest."""
        ...

    def promoted(self, kind: str) -> tuple[BaselineRow, bytes] | None:
        """The promoted baseline of a kind, of whatever name."""
        ...

    def promote(self, row: BaselineRow) -> None:
        """Use this version from now on: of traffic the only one, of a golden set one a name."""
        ...

    def delete(self, name: str, version: int | None = None) -> int:
        """Forget one version, or all; returns how many there were."""
        ...


class ProbeRuns(Protocol):
    """What each golden probe found last; called on the writer's thread."""

    def load(self) -> dict[str, bytes]:
        """What was saved of each probe."""
        ...

    def save(self, name: str, body: bytes) -> None:
        """Make it durable, or raise StoreError and change nothing."""
        ...


class Store(Protocol):
    """What the writer needs; one thread calls everything, others read through ``reader``."""

    next_sequence: int
    last_restatement: int

    def hash(self, query_id: str, attempt: int = 0) -> int:
        """64-bit hash of an id, as ``known`` and ``find`` take it; another for each attempt."""
        ...

    def known(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of the hashes belong to stored records; shape (n,)."""
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
        """Amendments of those records that have any."""
        ...

    def waiting(self, hashes: Iterable[int]) -> list[Waiting]:
        """Feedback and labels that wait for these queries."""
        ...

    def waiting_count(self) -> int:
        """How many changes wait for their query."""
        ...

    def offset(self, source: str) -> bytes | None:
        """How far a followed source was read."""
        ...

    def save_windows(
        self, buckets: Iterable[SavedBucket], totals: bytes, position: Position
    ) -> None:
        """Snapshot of the windows; restatements up to its position are no longer needed."""
        ...

    def load_windows(self) -> tuple[Position, bytes | None, Iterator[SavedBucket]]:
        """The last snapshot: position, totals, and the buckets from old to new."""
        ...

    def replay(self, after: Position) -> Iterator[bytes | Restatement]:
        """Packed observations, then restatements, committed after a position."""
        ...

    def expire(self, before: float, max_bytes: int | None) -> int:
        """Delete one step's worth of records too old or too many; returns how many.

        What the saved windows have not counted stays, since a restart will have to count it.
        """
        ...

    def expire_windows(self, oldest: Sequence[int], waiting_before: float) -> None:
        """Delete saved buckets below the ``oldest`` of their tier, and feedback nobody claims."""
        ...

    def compact(self, start: int, below: int) -> tuple[int, int]:
        """Join one stretch of small blocks; returns how many, and where to look next."""
        ...

    def index(self) -> None:
        """Upkeep of the id index between commits."""
        ...

    def size_bytes(self) -> int:
        """Bytes on disk."""
        ...

    def reader(self) -> "Reader":
        """A view for another thread."""
        ...

    def spans(self) -> Spans:
        """Where spans wait for the rest of their trace."""
        ...

    def judging(self) -> Judging:
        """Where answers wait for the sampled judge."""
        ...

    def outbox(self) -> Outbox:
        """Where notifications wait for their receivers."""
        ...

    def alert_log(self) -> AlertLog:
        """Where detectors, alerts and silences are kept."""
        ...

    def baselines(self) -> Baselines:
        """Where baselines are kept."""
        ...

    def probe_runs(self) -> ProbeRuns:
        """Where golden probes keep what they found."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...


class Reader(Protocol):
    """Reads beside the writer, from a snapshot of its own; one thread at a time."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def blocks(self, since: float, until: float) -> Iterator[Block]:
        """Blocks with records in that time, newest first."""
        ...

    def records(self, first_sequence: int) -> list[bytes]:
        """The records of one block."""
        ...

    def record(self, sequence: int) -> tuple[bytes, bytes | None] | None:
        """One record with its amendments."""
        ...

    def hashes_from(self, sequence: int) -> tuple[int, Hashes] | None:
        """First number and id hashes of the block with that record, or of the next block."""
        ...

    def saved_buckets(self, tier: int, first: int, last: int) -> Iterator[bytes]:
        """Bodies of the saved buckets ``first`` to ``last`` of a tier, from old to new."""
        ...

    def backup(self, target: Path) -> None:
        """Copy everything committed into a new file."""
        ...

    def close(self) -> None:
        """Release the view."""
        ...
