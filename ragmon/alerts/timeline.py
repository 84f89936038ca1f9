"""Detectors and alerts moved through time: by the records that come in, and by the clock.

``AlertTimeline.advance`` is the only loop over minutes: the daemon calls it once a second,
``ragmon backtest`` once for a whole log, the scenario tests once a minute.

Records of a store that has seen nothing yet may be a backfill. Then the minute under judgement
follows the records instead of the clock, and no notification is sent of what is long over. The
state after a restart is the same as without one, since the daemon saves a turn as a whole or
makes it again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import (
    Alert,
    AlertEvent,
    DrivingTopic,
    LookUp,
    MissingDocuments,
    WorstQuery,
    machine,
)
from ragmon.alerts.evidence import explain
from ragmon.alerts.machine import DEFAULT_TIMING, AlertBook, MinuteOutcome, Suppressions, Timing
from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.silences import Maintenance, Silence
from ragmon.detectors import MINUTE_S, AlertKey, Finding, StreamKey
from ragmon.detectors.detection import FORGET_DAYS, Closed, Detection
from ragmon.detectors.hour_errors import SLOTS
from ragmon.detectors.intake import ObservationBatch, no_later
from ragmon.detectors.minutes import RECENT, TEN, TENS, SavedMinute

HISTORY = Maintenance(name="history", start_s=0.0, duration_s=86_400.0)
"""Suppresses notifications while a backfill is judged; what still fires after it is notified."""


def silenced_text(by: str) -> str:
    """Reason why no notification was sent.

    Args:
        by: id of a silence, or name of a maintenance window.
    """
    return "backfilled, no notification sent" if by == HISTORY.name else f"silenced by {by}"


_AHEAD = 60  # minutes beyond the one under judgement that may be counted
_ABSENT = 3  # minutes without a turn, after which the monitor itself was away
_LATE = 60  # minutes before now, from which the first record is history
_NEAR = 10  # minutes before now, at which history ends
_BEGINNINGS = ("firing", "notified", "escalated")
_IDLE_S = 30.0  # without a record, after which history ends
_STRAY = 1_440  # minutes ahead of the clock, which then was wrong before
_FORGOTTEN = FORGET_DAYS * 1_440  # minutes without a record, after which no stream is left


class Examples(NamedTuple):
    """Evidence of one alert that is looked up in the store."""

    worst: tuple[WorstQuery, ...] = ()
    missing: MissingDocuments | None = None
    lookup: LookUp = "done"
    topics: tuple[DrivingTopic, ...] = ()


ExamplesByEpisode = Mapping[str, Examples]


class Notice(Struct, frozen=True):
    """An event for the log of the daemon."""

    event: str
    values: dict[str, float | str] = {}
    warning: bool = False


class Step(Struct, frozen=True):
    """One piece of ``advance``: at most one minute of work."""

    closed: Closed | None = None  # the minute that was judged
    events: tuple[AlertEvent, ...] = ()
    incident_notices: tuple[IncidentNotice, ...] = ()  # notifications to deliver
    trial_events: tuple[AlertEvent, ...] = ()  # of rules on trial
    notices: tuple[Notice, ...] = ()


class AlertTimeline:
    """Detection and the alert book; owned by one thread, in the daemon the writer's.

    ``book`` is replaced as a whole and may be read from any thread.
    """

    def __init__(
        self,
        build: Callable[[], Detection],
        timing: Timing = DEFAULT_TIMING,
        maintenance: tuple[Maintenance, ...] = (),
        *,
        other_findings: Callable[[float], Sequence[Finding]] = lambda _now: (),
        on_trial: Callable[[AlertKey], bool] | None = None,
        finished_log: bool = False,
    ) -> None:
        """Begin with nothing.

        Args:
            build: makes detectors that have seen nothing.
            timing: delays of alerts.
            maintenance: weekly windows without notifications.
            other_findings: findings from elsewhere, by the end of a minute in unix seconds.
            on_trial: true for alerts that neither explain others nor are explained by them;
                they have a book of their own.
            finished_log: all records come in one batch and the first one begins the log, however
                old; every event is what a daemon running at that time would have sent.
        """
        self.detection = build()
        self.book = AlertBook()
        self.silences: tuple[Silence, ...] = ()
        self.catching_up = False
        self.begun_anew = False  # the detectors, since they were saved
        self._build = build
        self._timing = timing
        self._maintenance = maintenance
        self._other_findings = other_findings
        self._on_trial = on_trial
        self._finished_log = finished_log
        self._trial_book = AlertBook()
        self._newest = -1  # minute of a record
        self._last_record_at: float | None = None  # by the clock; after a restart, the first turn

    @property
    def begun(self) -> bool:
        """True once a record was seen: before, there is nothing to judge."""
        return self.detection.log.frontier >= 0

    @property
    def oldest(self) -> tuple[int, ...]:
        """Saved buckets of each tier below these are of no use any more."""
        frontier = self.detection.log.frontier
        return frontier - RECENT, frontier // TEN - TENS, frontier // 60 - SLOTS

    def advance(self, batch: ObservationBatch, now: float) -> Iterator[Step]:
        """Count a batch and judge every minute that is due.

        Args:
            batch: records since the last call; may be empty.
            now: unix seconds.

        Returns:
            Steps, between which the thread may do other work. All of them must be taken before
            the next call.
        """
        span = batch.span
        if span is not None:
            self._newest = max(self._newest, int(min(span[1], now) // MINUTE_S))
        if span is not None or self._last_record_at is None:
            self._last_record_at = now
        if not self.begun:
            if span is None:
                return
            yield from self._begin(span[0], now)
        if self.catching_up:
            yield from self._follow_records(batch, now)
        else:
            self._count(batch)
            self._count_arrivals(batch.arrivals, now)
            yield Step()
            yield from self._follow_clock(now)

    def load(
        self, state: bytes, book: bytes, buckets: Iterator[SavedMinute], *, catching_up: bool
    ) -> Notice | None:
        """Continue where it was saved.

        Returns:
            None, or why the detectors' state could not be read; they begin anew then, while
            alerts go on.
        """
        self.book = AlertBook.load(book)
        self.catching_up = catching_up
        try:
            self.detection.load(state, list(buckets))
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
            self._begin_anew()
            return Notice("detection_state_unreadable", {"error": str(error)}, warning=True)
        return None

    def use_silences(self, silences: tuple[Silence, ...]) -> None:
        """Apply these silences from the next minute on."""
        self.silences = silences

    def attach(self, examples: ExamplesByEpisode) -> None:
        """Add what was looked up of alerts, by episode, to their evidence."""
        if examples:
            self.book = self.book.changed(lambda alert: with_examples(alert, examples))

    def _begin(self, first: float, now: float) -> Iterator[Step]:
        self.catching_up = self._finished_log or now - first > _LATE * MINUTE_S
        # A process that ended before it had saved a turn has begun with the same minute.
        is_new = now - first < _ABSENT * MINUTE_S
        self.detection.begin(min(first, now) if self.catching_up or is_new else now)
        if self.catching_up:
            yield Step(notices=(Notice("backfill_started", {"since": first}),))

    def _begin_anew(self) -> None:
        """Forget all streams: what was saved of them has rows that mean other streams from now."""
        self.detection = self._build()
        self.begun_anew = True

    def _follow_records(self, batch: ObservationBatch, now: float) -> Iterator[Step]:
        """Judge history: the minute under judgement follows the records."""
        due = self.detection.due(now)
        for block in batch.blocks():
            span = block.span
            assert span is not None
            yield from self._skip_gap(min(span[0], now))
            # What lies further ahead than an hour is not counted yet.
            yield from self._judge(min(due, int(span[0] // MINUTE_S) - _AHEAD + TEN))
            # Judges read history later than it came: that they are late is no reason for an alert.
            self._count(block.unread(self.detection.columns))
            # The last minute is the present's, so that what still fires is notified with it.
            yield from self._judge(min(due - 1, self.detection.due(span[1])))
        frontier = self.detection.log.frontier
        idle = self._last_record_at is not None and now - self._last_record_at >= _IDLE_S
        if self._finished_log or idle or due - frontier <= _NEAR:
            self.catching_up = False
            yield Step(notices=(Notice("backfill_finished", {"until": frontier * MINUTE_S}),))
            yield from self._follow_clock(now)

    def _skip_gap(self, first: float) -> Iterator[Step]:
        """Judge no minute of a gap in history once every stream is forgotten."""
        forgotten = self.detection.log.frontier + _FORGOTTEN
        if first > forgotten * MINUTE_S:
            yield from self._judge(forgotten)
            self.detection.resume(first)

    def _follow_clock(self, now: float) -> Iterator[Step]:
        """Judge the present: the minute under judgement follows the clock."""
        log = self.detection.log
        due = self.detection.due(now)
        if log.frontier - due > _STRAY:
            ahead_s = (log.frontier - due) * MINUTE_S
            yield Step(notices=(Notice("clock_was_wrong", {"ahead_s": ahead_s}, warning=True),))
            baseline = self.detection.baseline
            self._begin_anew()
            self.detection.use_baseline(baseline)
            self.detection.begin(now)
        elif due - log.frontier > _ABSENT:
            yield from self._judge(min(due, self._newest + 1))
            if due - log.frontier > _ABSENT:
                yield Step(
                    notices=(Notice("downtime_not_judged", {"since": log.frontier * MINUTE_S}),)
                )
                self.detection.resume(now)
        else:
            yield from self._judge(due)

    def _judge(self, until: int) -> Iterator[Step]:
        for closed in self.detection.advance(until):
            findings: Sequence[Finding] = (*closed.findings, *self._other_findings(closed.now))
            trial_events: tuple[AlertEvent, ...] = ()
            if self._on_trial is not None:
                trial = [each for each in findings if self._on_trial(each.alert)]
                findings = [each for each in findings if not self._on_trial(each.alert)]
                on_trial = self._step(self._trial_book, trial, closed.now)
                self._trial_book, trial_events = on_trial.book, on_trial.events
            moved = self._step(self.book, findings, closed.now)
            self.book = moved.book
            yield Step(closed, moved.events, moved.notices, trial_events)

    def _step(self, book: AlertBook, findings: Sequence[Finding], now: float) -> MinuteOutcome:
        if not findings and not book.open:
            return MinuteOutcome(book)  # most minutes
        backfill = (HISTORY,) if self.catching_up and not self._finished_log else ()
        return machine.step(
            book,
            findings,
            now,
            lambda finding: explain(finding, self.detection, now),
            timing=self._timing,
            suppressions=Suppressions(self.silences, (*self._maintenance, *backfill)),
        )

    def _count(self, batch: ObservationBatch) -> None:
        limit = (self.detection.log.frontier + _AHEAD) * MINUTE_S
        if batch.logged is not None:
            self.detection.fold(no_later(batch.logged, limit))
        if batch.before is not None and batch.after is not None:
            self.detection.restate(no_later(batch.before, limit), no_later(batch.after, limit))

    def _count_arrivals(self, arrivals: Mapping[str, int], now: float) -> None:
        """Count by source, so that one of several is missed when it stops.

        These are not in the store: a crash forgets those since the last turn that was saved.
        """
        minute = np.array([min(int(now // MINUTE_S), self.detection.log.frontier + _AHEAD)])
        for source, records in arrivals.items():
            key = StreamKey("", "traffic", "source", source)
            self.detection.add(key, minute, np.array([[float(records), 0.0, 0.0]]))


def unexplained(
    events: Sequence[AlertEvent], notices: Sequence[IncidentNotice] = ()
) -> list[Alert]:
    """Alerts whose examples were not looked up: those that fire unexplained, or lead."""
    begun = {event.alert.episode: event.alert for event in events if event.change in _BEGINNINGS}
    shown = [alert for alert in begun.values() if not alert.inhibited_by]
    leading = [notice.alert for notice in notices if notice.status == "firing"]
    wanting = {alert.episode: alert for alert in (*shown, *leading)}
    return [
        alert
        for alert in wanting.values()
        if alert.evidence is not None and alert.evidence.lookup == "none"
    ]


def awaited(book: AlertBook) -> list[Alert]:
    """Alerts whose examples are still being looked up, the newest first."""
    known = (*book.open, *book.recent)
    waiting = [each for each in known if each.evidence and each.evidence.lookup == "waiting"]
    return sorted(waiting, key=lambda alert: -alert.bad_at)


def with_examples(alert: Alert, examples: ExamplesByEpisode) -> Alert:
    """The alert with what was looked up of it, by episode."""
    known = examples.get(alert.episode)
    if known is None or alert.evidence is None:
        return alert
    evidence = replace(
        alert.evidence,
        worst=known.worst,
        missing=known.missing,
        topics=known.topics,
        lookup=known.lookup,
    )
    return replace(alert, evidence=evidence)
