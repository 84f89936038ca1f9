"""Sub-stores: what a store keeps beside records and windows.

Traces that are not complete, notifications, answers to judge, detectors and alerts, baselines,
golden probes. All belong to the writer's thread: others hold them as ``OnWriter[Outbox]``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from ragmon.alerts import AlertEvent
from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.silences import Silence
from ragmon.detectors import minutes
from ragmon.records import Positions


class SpanRow(NamedTuple):
    """Spans of one trace that arrived together."""

    trace_id: bytes
    spans: int
    has_entry: bool
    body: bytes


class MarkedTrace(NamedTuple):
    """A trace that was being mapped when the process died."""

    trace_id: bytes
    deaths: int  # of the process while the results of this trace alone were being stored


class UnreadableSpans(NamedTuple):
    """Spans that cannot be read any more."""

    body: bytes  # as far as it could be read, packed
    error: str


class MappedSpans(NamedTuple):
    """A trace that was mapped, and may be mapped again when more of its spans come."""

    trace_id: bytes
    parts: int  # of its spans that were mapped: the first that were appended
    spans: int
    has_entry: bool
    queries: bytes  # made of it, packed
    is_closed: bool = False  # its spans are gone, and more are not taken


class Spans(Protocol):
    """Spans of traces, of those that were mapped for a while, and marks on those being mapped."""

    def append(self, rows: Iterable[SpanRow]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        ...

    def bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        """For each trace what was appended, in that order."""
        ...

    def pending(self) -> list[tuple[bytes, int, bool]]:
        """Every trace that has spans to be mapped, oldest first.

        With its number of spans, and whether it has an entry.
        """
        ...

    def traces(self) -> list[bytes]:
        """Every trace that has spans here, of those that were mapped too."""
        ...

    def mapped(self, trace_ids: Iterable[bytes]) -> dict[bytes, MappedSpans]:
        """Those of the traces that were mapped before, by their id."""
        ...

    def keep(self, traces: Iterable[MappedSpans], now: float) -> None:
        """Note what was mapped, and take the marks away; the spans of closed traces go."""
        ...

    def close(self, before: float, most_bytes: int, most: int) -> int:
        """Let go of the spans of some traces mapped longest ago; returns how many traces.

        Args:
            before: unix seconds; spans of traces mapped earlier go.
            most_bytes: of the spans that stay.
            most: traces of this step.
        """
        ...

    def delete(self, trace_ids: Iterable[bytes]) -> None:
        """Forget these traces, and their marks."""
        ...

    def salvage(self, trace_id: bytes) -> tuple[list[bytes], list[UnreadableSpans]]:
        """Bodies that can still be read, and the rows that cannot."""
        ...

    def mark(self, trace_ids: Iterable[bytes], now: float) -> None:
        """Note that these traces are about to be mapped; it outlives the process, not the power."""
        ...

    def marked(self) -> list[MarkedTrace]:
        """Traces whose mapping was begun and not ended."""
        ...

    def note_risk(self, trace_id: bytes) -> None:
        """Count a death of the process for a marked trace, in advance."""
        ...


class Notification(NamedTuple):
    """One notice of an incident on its way to one sink."""

    sink: str
    event_id: str  # twice the same for one sink is one notification
    incident_id: str  # its notifications are delivered in order
    at: float  # unix seconds of the notice
    body: bytes


class PendingNotification(NamedTuple):
    """A notification that is not delivered yet, and how often that was tried."""

    number: int
    sink: str
    event_id: str
    incident_id: str
    at: float
    body: bytes
    attempts: int


class DueNotifications(NamedTuple):
    """Notifications to try now; without any, when one comes due (None: nothing waits)."""

    rows: list[PendingNotification]
    next_at: float | None


Fate = Literal["delivered", "retried", "dead"]


class Settled(NamedTuple):
    """The outcome of one attempt."""

    number: int  # of the notification
    fate: Fate
    at: float  # unix seconds: when it ended; for retried, when it is due again
    error: str = ""
    is_doubted: bool = False  # the clock may have jumped ahead: nothing is deleted by its age


class Undelivered(NamedTuple):
    """The outbox in numbers."""

    length: int
    oldest_at: float | None
    dead: int


class DeadLetter(NamedTuple):
    """A notification that was given up."""

    sink: str
    event_id: str
    incident_id: str
    at: float
    body: bytes
    attempts: int
    buried_at: float
    reason: str
    number: int


MOST_DEAD = 10_000
"""Notifications that were given up, and are kept."""
KEEP_DEAD_S = 30 * 86_400.0
"""Age at which a notification that was given up is forgotten."""
LONGEST_WAIT_S = 3_600.0
"""A notification that waits longer was planned before the clock was set back."""


class Outbox(Protocol):
    """Notifications that no receiver has yet.

    A store also offers ``insert`` within a transaction of its own, so that a notice and its
    notifications become durable together.
    """

    def put(self, rows: Iterable[Notification]) -> None:
        """Make them durable, or raise StoreError and change nothing."""
        ...

    def due(self, sink: str, now: float, limit: int) -> DueNotifications:
        """The oldest notification of each incident, where it is due."""
        ...

    def settle(self, outcomes: Sequence[Settled]) -> None:
        """Write down how attempts ended, all or nothing."""
        ...

    def abandon(self, known: Sequence[str], now: float, reason: str) -> Mapping[str, int]:
        """Bury what waits for sinks that are not among the known; returns how many of each."""
        ...

    def undelivered(self) -> Undelivered:
        """Number of notifications that wait, since when, and how many were given up."""
        ...

    def dead(self, limit: int) -> list[DeadLetter]:
        """Notifications that were given up, the newest first."""
        ...

    def dead_letter(self, number: int) -> DeadLetter | None:
        """One notification that was given up; None when there is none."""
        ...

    def revive(self, number: int, now: float) -> bool:
        """Send one again, as if it were new; False when there is none."""
        ...

    def forget_dead(self, number: int) -> bool:
        """Delete one that was given up; False when there is none."""
        ...


class Awaited(NamedTuple):
    """An answer that was drawn for the sampled judge."""

    sequence: int
    since: float  # unix seconds


class AwaitedAnswers(Protocol):
    """Answers that wait for the sampled judge; draws and verdicts are part of a ``Commit``."""

    def awaited(self, skip: int, limit: int) -> list[Awaited]:
        """Some of those that wait, in a fixed order that has nothing to do with time.

        Where not all can be judged, those that are then speak for the others.
        """
        ...

    def overdue(self, before: float, limit: int) -> list[Awaited]:
        """Some of those that were drawn before a moment."""
        ...

    def awaited_count(self) -> int:
        """Number of answers that wait."""
        ...

    def abandon(self, sequences: Iterable[int]) -> None:
        """Await these no longer: their records are gone."""
        ...


class Remembered(Protocol):
    """Small values by name."""

    def load(self, name: str) -> bytes | None:
        """The value kept under a name; None without one."""
        ...

    def save(self, name: str, body: bytes) -> None:
        """Keep a value under a name; it is on disk when this returns."""
        ...


class SavedDetection(NamedTuple):
    """Detectors and alerts as they were saved."""

    state: bytes
    book: bytes
    catching_up: bool
    positions: Positions
    buckets: Iterator[minutes.SavedMinute]  # from old to new


class Turn(Struct, frozen=True, kw_only=True):
    """The changes of one turn of detection, saved as a whole."""

    state: bytes  # of the detectors
    begun_anew: bool = False  # the detectors: every bucket saved before goes
    buckets: Iterable[minutes.SavedMinute]  # those that changed; made while they are saved
    oldest: tuple[int, ...]  # older buckets of each tier go
    book: bytes  # of the alerts
    catching_up: bool
    positions: Positions  # how far the detectors have counted
    events: Sequence[AlertEvent] = ()
    notices: Sequence[IncidentNotice] = ()
    notifications: Sequence[Notification] = ()


class AlertLog(Protocol):
    """Detectors, alerts and silences.

    From when it is first asked for, what the saved detectors have not counted is kept, since a
    restart will have to count it.
    """

    counted: Positions  # how far the saved detectors have counted

    def load(self) -> SavedDetection | None:
        """The state saved last; None before the first turn."""
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

    def notices(self, incidents: Iterable[str]) -> list[IncidentNotice]:
        """Every notice of these incidents, in order."""
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
        """Delete transitions, notices and silences that ended before."""
        ...


class BaselineRow(Struct, frozen=True, kw_only=True):
    """Description of one version of a saved baseline."""

    name: str
    version: int = 0  # numbered by the store
    kind: Literal["traffic", "golden"]  # of golden runs: only compared with golden runs
    created_at: float  # unix seconds
    created_by: str
    provenance: str  # which window or which run
    samples: float  # queries, or cases
    promoted: bool = False


class Baselines(Protocol):
    """Saved baselines, versioned."""

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
    """State of each golden probe after its last run."""

    def load(self) -> dict[str, bytes]:
        """Saved state by the name of the probe."""
        ...

    def save(self, name: str, body: bytes) -> None:
        """Make it durable, or raise StoreError and change nothing."""
        ...
