"""Documents whose absence may explain an alert: retrieved regularly before, and no more.

A day of queries is read for them, which takes seconds where there are many. So it is read in
turns, block by block, and once for all alerts of one slice that began at about the same time.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec import Struct

from ragmon.alerts import Alert, MissingDocuments
from ragmon.alerts.incidents import NEAR_S
from ragmon.clock import Clock
from ragmon.detectors import StreamKey
from ragmon.documents.changes import changes_of
from ragmon.documents.gathering import Gathering, Scope
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.documents import gather
from ragmon.stores import Reader
from ragmon.windows.series import VERSION

METRICS = ("zero_result", "hit", "low_score")
"""Of alerts that missing documents may explain."""

MOST_S = 10.0
"""Time that one search may take, over all its turns; then what was read must do."""

_NAMED = 5
_BEFORE_S = 86_400.0  # before the change, that is looked at
_MOST_RECORDS = 100_000  # that are looked at, the newest first
_MOST_DOCUMENTS = 50_000  # some 25 MB while they are counted
_MOST_KEPT = 32  # searches whose outcome alerts may share
_MOST_VANISHED = 1_000  # documents that an outcome keeps, those retrieved most often
_REGULAR = 5  # retrievals
_EARLIER_S = 3_600.0  # a document may have gone before so many queries missed it


class _PauseError(Exception):
    """The turn is over, or the search."""


class DocumentLookup(NamedTuple):
    """Outcome for one alert."""

    missing: MissingDocuments | None = None  # None: none are surely missing
    state: Literal["waiting", "done", "part"] = "done"


class _Vanished(NamedTuple):
    """A document that is no longer retrieved."""

    name: str
    retrieved: int
    last: float  # unix seconds


class _Subject(NamedTuple):
    """A slice and the times of an alert about it."""

    stream: StreamKey  # without its metric
    since: float  # unix seconds, as is the next
    until: float

    @property
    def version(self) -> str | None:
        """The version that it is; None for anything else."""
        return self.stream.value if self.stream.dimension == VERSION else None

    @property
    def asked(self) -> QueryFilter:
        """Its queries, from a day before the change on."""
        is_sliced = bool(self.stream.dimension) and self.version is None
        return QueryFilter(
            self.since - (_BEFORE_S if self.version is None else 0.0),
            self.until + 60.0,  # the minute in which it was last bad belongs to it
            self.stream.pipeline,
            (),
            0,
            tags=((self.stream.dimension, self.stream.value),) if is_sliced else (),
        )

    def serves(self, other: "_Subject") -> bool:
        """True for another alert of the slice at about the same time."""
        apart = max(abs(self.since - other.since), abs(self.until - other.until))
        return self.stream == other.stream and apart <= NEAR_S


class _Outcome(Struct, frozen=True):
    """Everything that alerts may ask of a search that is over."""

    subject: _Subject
    vanished: tuple[_Vanished, ...]  # the most retrieved first
    count: int
    regular: int  # documents that were retrieved regularly
    complete: bool


class _Search:
    """A search under way."""

    def __init__(self, subject: _Subject) -> None:
        self.subject = subject
        scope = Scope(version=subject.version, with_texts=False)
        self.gathering = Gathering(scope, _MOST_DOCUMENTS)
        self.read: set[int] = set()  # blocks, by their first sequence number
        self.spent_s = 0.0

    @property
    def is_enough(self) -> bool:
        """True once as much was read as may be."""
        return self.gathering.queries >= _MOST_RECORDS


class MissingDocumentSearch:
    """Looks them up beside the writer, one slice after the other."""

    def __init__(self, reader: Callable[[], Reader], pipeline: Pipeline, clock: Clock) -> None:
        self._reader = reader
        self._pipeline = pipeline
        self._clock = clock
        self._search: _Search | None = None
        self._outcomes: list[_Outcome] = []

    def find(self, alert: Alert, has_time: Callable[[], bool]) -> DocumentLookup:
        """Those of an alert about retrieval, or that the search for them goes on.

        Those of a version are compared with the other versions; of all others the last retrieval
        has to lie about the change, and that of a day's queries so late by more than chance.

        Args:
            alert: that they may explain.
            has_time: false once the turn is over; it lasts one block longer at most.
        """
        stream = alert.key.stream
        if stream.metric not in METRICS or alert.key.kind == "no_data":
            return DocumentLookup()
        subject = _Subject(stream._replace(metric=""), *alert.span)
        outcome = next((one for one in self._outcomes if one.subject.serves(subject)), None)
        if outcome is None:
            outcome = self._go_on(subject, has_time)
        if outcome is None:
            return DocumentLookup(state="waiting")
        missing = _missing(outcome, subject.since)
        return DocumentLookup(missing, "done" if outcome.complete else "part")

    def _go_on(self, subject: _Subject, has_time: Callable[[], bool]) -> _Outcome | None:
        """Search for one turn; None when there is more to read."""
        search = self._search
        if search is None or not search.subject.serves(subject):
            search = self._search = _Search(subject)
        started = self._clock.monotonic()
        most = started + MOST_S - search.spent_s
        done = self._read(search, lambda: has_time() and self._clock.monotonic() < most)
        search.spent_s += self._clock.monotonic() - started
        if not done and search.spent_s < MOST_S:
            return None
        self._search = None
        search.gathering.missed()
        outcome = _outcome(search, complete=done)
        self._outcomes = [outcome, *self._outcomes][:_MOST_KEPT]
        return outcome

    def _read(self, search: _Search, has_time: Callable[[], bool]) -> bool:
        """Count further blocks; True when enough were read, or all.

        A block that was merged with others between two turns may be counted again: that moves
        no last retrieval.
        """

        def on_block() -> None:
            if search.is_enough or not has_time():
                raise _PauseError

        with self._reader() as reader, suppress(_PauseError):
            asked, gathering = search.subject.asked, search.gathering
            gather(reader, self._pipeline, asked, gathering, on_block, read=search.read)
            return True
        return search.is_enough


def _outcome(search: _Search, *, complete: bool) -> _Outcome:
    gathering = search.gathering
    tallies = gathering.tallies
    retrieved = tallies.ranks.sum(axis=1)
    before = retrieved - tallies.column("after")
    places = [one.document for one in changes_of(gathering).vanished]
    vanished = [
        _Vanished(gathering.names[at][1], int(retrieved[at]), float(tallies.last[at]))
        for at in sorted(places, key=lambda at: (-int(retrieved[at]), at))
    ]
    return _Outcome(
        search.subject,
        tuple(vanished[:_MOST_VANISHED]),
        len(vanished),
        int((before >= _REGULAR).sum()),
        complete,
    )


def _missing(outcome: _Outcome, since: float) -> MissingDocuments | None:
    """The documents that vanished at a change.

    Args:
        outcome: of queries before and after.
        since: unix seconds of the change, as it was estimated.
    """
    is_version = outcome.subject.version is not None
    gone = [one for one in outcome.vanished if is_version or one.last >= since - _EARLIER_S]
    if not gone:
        return None
    return MissingDocuments(
        count=outcome.count if len(gone) == len(outcome.vanished) else len(gone),
        regular=outcome.regular,
        ids=tuple(one.name for one in gone[:_NAMED]),
        since=None if is_version else max(one.last for one in gone),
    )
