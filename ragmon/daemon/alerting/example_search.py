"""Evidence of alerts that is looked up in the store, within a limit of time a turn.

A notification waits for it at most ``LOOK_UP_S``, and for the block that was being read then.
Further evidence is looked up in the turns after it, and added to the alert.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from ragmon.alerts import Alert, WorstQuery
from ragmon.alerts.timeline import Examples
from ragmon.clock import Clock
from ragmon.daemon.alerting.driving_topics import DrivingTopicSearch, TopicLookup
from ragmon.daemon.alerting.missing_documents import DocumentLookup, MissingDocumentSearch
from ragmon.daemon.alerting.worst_queries import WorstQueries
from ragmon.daemon.ingest.engine import Engine
from ragmon.errors import StoreError
from ragmon.pipeline import Privacy

LOOK_UP_S = 0.5
"""Time a turn for all alerts together."""

MOST_WAITING = 500
"""Alerts that wait for it; those beyond go without."""


class _Entry(Struct):
    """An alert that waits."""

    alert: Alert
    worst: tuple[WorstQuery, ...] | None = None  # None: not looked up yet
    tried: bool = False  # to look them up, until time was over
    is_part: bool = False  # they are from the newest queries alone, or the documents
    documents: DocumentLookup | None = None  # None: not looked up yet


def build_examples(engine: Engine, texts: Privacy, clock: Clock) -> "ExampleSearch":
    """The search in the store of an engine.

    Args:
        engine: whose store is read.
        texts: how much of a query's text may be shown.
        clock: of the daemon.
    """
    return ExampleSearch(
        WorstQueries(engine.store.reader, engine.pipeline, texts),
        MissingDocumentSearch(engine.store.reader, engine.pipeline, clock),
        DrivingTopicSearch(engine.store.reader, engine.pipeline, texts, clock),
        clock,
    )


class ExampleSearch:
    """Looks up the worst queries of alerts first, then documents that are missing, then topics."""

    def __init__(
        self,
        worst: WorstQueries,
        missing: MissingDocumentSearch,
        driving: DrivingTopicSearch,
        clock: Clock,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._most_waiting = most_waiting
        self._worst = worst
        self._missing = missing
        self._driving = driving
        self._clock = clock
        self._waiting: dict[str, _Entry] = {}  # by episode

    @property
    def waiting(self) -> int:
        """Number of alerts that wait."""
        return len(self._waiting)

    def add(self, alerts: Iterable[Alert]) -> dict[str, Examples]:
        """Let alerts wait, those that people know incidents by first; returns those that cannot."""
        refused = {}
        for alert in sorted(alerts, key=lambda alert: not alert.leads):
            if alert.episode in self._waiting:
                continue
            if len(self._waiting) >= self._most_waiting:
                refused[alert.episode] = Examples(lookup="skipped")
            else:
                self._waiting[alert.episode] = _Entry(alert)
        return refused

    def look_up(
        self, alerts: Iterable[Alert], is_ending: Callable[[], bool]
    ) -> dict[str, Examples]:
        """Look up for one turn, for alerts that are new and for those that wait.

        Returns:
            By episode: what became known in this turn, and of those that are new that they wait.
        """
        until = self._clock.monotonic() + LOOK_UP_S

        def has_time() -> bool:
            return not is_ending() and self._clock.monotonic() < until

        before = set(self._waiting)
        examples = self.add(alerts)
        for stage in (self._look_up_worst, self._look_up_missing, self._look_up_topics):
            for episode, entry in list(self._waiting.items()):
                if not has_time():
                    break
                try:
                    known = stage(entry, has_time)
                except StoreError:  # an alert without examples is still an alert
                    known = Examples(lookup="skipped")
                if known is not None:
                    examples[episode] = known
                    if known.lookup != "waiting":
                        del self._waiting[episode]
        for episode in self._waiting.keys() - before:
            examples.setdefault(episode, Examples(lookup="waiting"))
        return examples

    def _look_up_worst(self, entry: _Entry, has_time: Callable[[], bool]) -> Examples | None:
        """The worst queries; None when they were known before, or time is over too soon."""
        if entry.worst is not None:
            return None
        worst = self._worst.find(entry.alert, has_time)
        is_part = not has_time()
        if is_part and not entry.tried:
            entry.tried = True  # it may have had a part of a turn: the next one is its own
            return None
        entry.worst, entry.is_part = worst, is_part
        return Examples(worst, lookup="waiting")

    def _look_up_missing(self, entry: _Entry, has_time: Callable[[], bool]) -> Examples | None:
        """The documents as well; None when they were known before, or must wait."""
        if entry.worst is None or entry.documents is not None:
            return None
        looked_up: DocumentLookup = self._missing.find(entry.alert, has_time)
        if looked_up.state == "waiting":
            return None
        entry.documents = looked_up
        entry.is_part |= looked_up.state == "part"
        return Examples(entry.worst, looked_up.missing, lookup="waiting")

    def _look_up_topics(self, entry: _Entry, has_time: Callable[[], bool]) -> Examples | None:
        """Everything; None when the topics must wait."""
        if entry.worst is None or entry.documents is None:
            return None
        looked_up: TopicLookup = self._driving.find(entry.alert, has_time)
        if looked_up.state == "waiting":
            return None
        is_part = entry.is_part or looked_up.state == "part"
        lookup: Literal["done", "part"] = "part" if is_part else "done"
        return Examples(entry.worst, entry.documents.missing, lookup, looked_up.topics)
