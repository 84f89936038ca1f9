"""Detectors and the book of alerts, moved on by what is committed and by the clock.

What comes into a store that has seen nothing yet may be history: then the minute under judgement
follows the records, not the clock, and nobody is told of what was long over. Everything here is
the same after a restart, since a turn either is saved as a whole or is made again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from ragmon.alerts import Alert, AlertEvent, Evidence, WorstQuery, machine
from ragmon.alerts.evidence import explain
from ragmon.alerts.machine import AlertBook, Suppressions, Timing
from ragmon.alerts.silences import Maintenance, Silence
from ragmon.detectors import MINUTE_S, Finding, StreamKey
from ragmon.detectors.detection import Detection
from ragmon.detectors.intake import ObservationBatch, no_later
from ragmon.detectors.minutes import RECENT, TEN, TENS, SavedMinute

HISTORY = Maintenance(name="history", start_s=0.0, duration_s=86_400.0)
"""Silences what is found while catching up; what then still fires is heard."""

_AHEAD = 60  # minutes beyond the one under judgement that may be counted
_ABSENT = 3  # minutes without a turn, after which nobody was there to see anything
_LATE = 60  # minutes before now, from which the first record is no history
_NEAR = 10  # minutes before now, at which history ends
_BEGINNINGS = ("firing", "notified")
_IDLE_S = 30.0  # without a record, after which history ends
_STRAY = 1_440  # minutes ahead of the clock, which then was wrong before


class EventLog(Protocol):
    """A structured log, as structlog's loggers are."""

    def info(self, event: str, **values: Any) -> Any:
        """Log what is as it should be."""
        ...

    def warning(self, event: str, **values: Any) -> Any:
        """Log what an operator should look at."""
        ...


class AlertTimeline:
    """Lives on the writer's thread; ``book`` is replaced as a whole and may be read anywhere."""

    def __init__(
        self,
        build: Callable[[], Detection],
        timing: Timing,
        log: EventLog,
        maintenance: tuple[Maintenance, ...] = (),
        also: Callable[[float], Sequence[Finding]] = lambda _now: (),
    ) -> None:
        """Begin with nothing.

        Args:
            build: makes detectors that have seen nothing.
            timing: delays of alerts.
            log: receives what an operator should know of the course of detection.
            maintenance: weekly windows in which nobody is told.
            also: what others found, by the end of a minute in unix seconds.
        """
        self.detection = build()
        self.book = AlertBook()
        self.silences: tuple[Silence, ...] = ()
        self.catching_up = False
        self.events: list[AlertEvent] = []  # not saved yet
        self._build = build
        self._timing = timing
        self._maintenance = maintenance
        self._also = also
        self._newest = -1  # minute of a record
        self._heard_at: float | None = None  # the last record; after a restart, the first turn
        self._log = log

    @property
    def begun(self) -> bool:
        """Whether there was ever anything to judge."""
        return self.detection.log.frontier >= 0

    @property
    def oldest(self) -> tuple[int, int]:
        """Saved buckets of each tier below these are of no use any more."""
        frontier = self.detection.log.frontier
        return frontier - RECENT, frontier // TEN - TENS

    def turn(self, chunk: ObservationBatch, now: float) -> Iterator[None]:
        """Count a chunk and judge what is due, in steps between which others may work."""
        span = chunk.span
        if span is not None:
            self._newest = max(self._newest, int(min(span[1], now) // MINUTE_S))
        if span is not None or self._heard_at is None:
            self._heard_at = now
        if not self.begun:
            if span is None:
                return
            self._begin(span[0], now)
        if self.catching_up:
            yield from self._follow(chunk, now)
        else:
            self._count(chunk)
            self._arrive(chunk.arrivals, now)
            yield
            yield from self._go_on(now)

    def load(self, state: bytes, book: bytes, buckets: Iterator[SavedMinute]) -> bool:
        """Continue where it was saved; False when that cannot be read, and detection begins anew.

        Alerts go on either way.
        """
        self.book = AlertBook.load(book)
        try:
            self.detection.load(state, list(buckets))
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
            self._log.warning("detection_begins_anew", error=str(error))
            self.detection = self._build()
            return False
        return True

    def attach(self, worst: Mapping[str, tuple[WorstQuery, ...]]) -> None:
        """Add the worst queries of alerts, by episode, to their evidence."""
        if not worst:
            return
        self.events = [replace(each, alert=_with_worst(each.alert, worst)) for each in self.events]
        self.book = AlertBook(
            tuple(_with_worst(alert, worst) for alert in self.book.open),
            tuple(_with_worst(alert, worst) for alert in self.book.recent),
        )

    def _begin(self, first: float, now: float) -> None:
        self.catching_up = now - first > _LATE * MINUTE_S
        self.detection.begin(first if self.catching_up else now)
        if self.catching_up:
            self._log.info("catching_up", since=first)

    def _follow(self, chunk: ObservationBatch, now: float) -> Iterator[None]:
        """History: the minute under judgement follows the records."""
        due = self.detection.due(now)
        for block in chunk.blocks():
            span = block.span
            assert span is not None
            # What lies further ahead than an hour is not counted yet.
            yield from self._judge(min(due, int(span[0] // MINUTE_S) - _AHEAD + TEN))
            # Judges read history later than it came: that they are late with it is no news.
            self._count(block.unread())
            # The last minute is the present's, so that what still fires is heard with it.
            yield from self._judge(min(due - 1, self.detection.due(span[1])))
        frontier = self.detection.log.frontier
        idle = self._heard_at is not None and now - self._heard_at >= _IDLE_S
        if idle or due - frontier <= _NEAR:
            self.catching_up = False
            self._log.info("caught_up", until=frontier * MINUTE_S)
            yield from self._go_on(now)

    def _go_on(self, now: float) -> Iterator[None]:
        """The present: the minute under judgement follows the clock."""
        log = self.detection.log
        due = self.detection.due(now)
        if log.frontier - due > _STRAY:
            self._log.warning("clock_was_wrong", ahead_s=(log.frontier - due) * MINUTE_S)
            baseline = self.detection.baseline
            self.detection = self._build()
            self.detection.use_baseline(baseline)
            self.detection.begin(now)
        elif due - log.frontier > _ABSENT:
            yield from self._judge(min(due, self._newest + 1))
            if due - log.frontier > _ABSENT:
                self._log.info("absent", since=log.frontier * MINUTE_S)
                self.detection.resume(now)
        else:
            yield from self._judge(due)

    def _judge(self, until: int) -> Iterator[None]:
        maintenance = (*self._maintenance, *((HISTORY,) if self.catching_up else ()))
        for closed in self.detection.advance(until):

            def evidence(finding: Finding, now: float = closed.now) -> Evidence:
                return explain(finding, self.detection, now)

            self.book, events = machine.step(
                self.book,
                (*closed.findings, *self._also(closed.now)),
                closed.now,
                evidence,
                timing=self._timing,
                hush=Suppressions(self.silences, maintenance),
            )
            self.events += events
            yield

    def _count(self, chunk: ObservationBatch) -> None:
        limit = (self.detection.log.frontier + _AHEAD) * MINUTE_S
        if chunk.logged is not None:
            self.detection.fold(no_later(chunk.logged, limit))
        if chunk.before is not None and chunk.after is not None:
            self.detection.restate(no_later(chunk.before, limit), no_later(chunk.after, limit))

    def _arrive(self, arrivals: Mapping[str, int], now: float) -> None:
        """Count by source, so that one of several is missed when it stops.

        These are not in the store: a crash forgets those since the last turn that was saved.
        """
        minute = np.array([min(int(now // MINUTE_S), self.detection.log.frontier + _AHEAD)])
        for source, records in arrivals.items():
            key = StreamKey("", "traffic", "source", source)
            self.detection.add(key, minute, np.array([[float(records), 0.0, 0.0]]))


def unexplained(events: Sequence[AlertEvent]) -> list[Alert]:
    """Alerts that fire on their own account, and whose worst queries were not looked up yet."""
    found = {each.alert.episode: each.alert for each in events if each.change in _BEGINNINGS}
    return [
        alert
        for alert in found.values()
        if not alert.inhibited_by and alert.evidence and not alert.evidence.worst
    ]


def _with_worst(alert: Alert, worst: Mapping[str, tuple[WorstQuery, ...]]) -> Alert:
    found = worst.get(alert.episode)
    if not found or alert.evidence is None:
        return alert
    return replace(alert, evidence=replace(alert.evidence, worst=found))
