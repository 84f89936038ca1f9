"""Detection in the running daemon: fed by commits, moved by the schedule, saved turn by turn."""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import structlog
from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import Alert, AlertEvent
from ragmon.alerts.machine import AlertBook
from ragmon.alerts.notices import Acknowledgement, IncidentNotice, standing
from ragmon.alerts.silences import Silence
from ragmon.alerts.timeline import (
    AlertTimeline,
    ExamplesByEpisode,
    Notice,
    Step,
    awaited,
    unexplained,
    with_examples,
)
from ragmon.daemon.alerting.acknowledgements import AcknowledgementQueue
from ragmon.daemon.alerting.build import build_detection, build_maintenance, build_timing
from ragmon.daemon.alerting.example_search import build_examples
from ragmon.daemon.alerting.feed import feed
from ragmon.daemon.component import Context
from ragmon.daemon.ingest.group_parts import Counted
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.notify.routing import addressed, notifications
from ragmon.detectors import MINUTE_S, Finding
from ragmon.detectors.detection import Detection
from ragmon.detectors.intake import ObservationBuffer
from ragmon.exposition.alerts import AlertMetrics
from ragmon.records import Positions
from ragmon.stores.protocols import Turn

_EVERY_S = 1.0
_TURN_S = 0.8
_STEP_S = 0.01  # on the writer's thread, before commits have their turn
_MOST_RECORDS = 20_000  # that are buffered before they are counted at once
_MANY_RECORDS = 8_000  # that are worth counting although no minute is due
_WAIT_S = 5.0  # for them
_FORGET_EVERY_S = 3_600.0
Findings = Callable[[float], Sequence[Finding]]
"""By the end of a minute, in unix seconds."""


class _Turn(Struct):
    """A turn under way."""

    steps: Iterator[Step]
    positions: Positions  # with all records of the turn


class Alerting:
    """A component of the daemon; its state is owned by the writer's thread."""

    def __init__(
        self,
        context: Context,
        delivery: Delivery,
        *,
        other_findings: Findings = lambda _now: (),
    ) -> None:
        """Begin with no alerts; ``restore`` brings back the saved ones.

        Args:
            context: of the daemon.
            delivery: is woken when notifications wait, and reminds receivers of open incidents.
            other_findings: findings of others, such as golden probes; asked once a minute.
        """
        settings, engine = context.settings, context.engine
        buffer = ObservationBuffer(engine.pipeline.columns)
        self.timeline = AlertTimeline(
            functools.partial(build_detection, settings, buffer.columns),
            build_timing(settings),
            build_maintenance(settings),
            other_findings=other_findings,
        )
        self.book = AlertBook()  # as it was saved: only what a crash cannot undo is shown
        self.metrics = AlertMetrics()
        context.own.registry.register(self.metrics)
        self._context = context
        self._engine = engine
        self._buffer = buffer
        self._delivery = delivery
        self._alerts = engine.thread.bind(engine.state.alert_log())
        self._examples = build_examples(engine, settings.alerts.texts, context.clock)
        self._ending = False
        self.is_listening = False  # to commits: what was committed before is buffered
        self._several = bool(
            settings.sources
        )  # with one source, the silence of a pipeline is enough
        self._turn: _Turn | None = None
        self._taken_at = float("-inf")  # monotonic seconds: the buffer
        self._events: list[AlertEvent] = []  # not saved yet
        self._notices: list[IncidentNotice] = []
        self._words = AcknowledgementQueue(context.clock)
        self._counted: Positions = {}  # by the detectors
        self._saved = (-1, False)  # the minute under judgement and the mode that were saved
        self._unwatched = 0  # streams refused before this process began, or since it said so
        self._replaying: Iterator[None] = iter(())
        self._log = structlog.get_logger("alert")
        self._detection_log = structlog.get_logger("detection")
        delivery.repeat(self.standing)

    @property
    def detection(self) -> Detection:
        """The detectors; for the writer's thread only."""
        return self.timeline.detection

    @property
    def judged_until(self) -> float | None:
        """Unix seconds up to which ``book`` is complete; None before the first record."""
        return self._saved[0] * MINUTE_S if self._saved[0] >= 0 else None

    def standing(self) -> Sequence[IncidentNotice]:
        """Incidents that were notified and are not over, as they stand; for any thread.

        Those that were silenced since are among them: a receiver that were no longer reminded of
        them would call them resolved.
        """
        book = self.book
        return standing(book.incidents, book.open, book.recent, self._context.clock.now())

    def start(self) -> None:
        """Begin, without waiting; what was saved has been restored."""
        self._context.schedule.every(_EVERY_S, "detect", self.turn)
        self._context.schedule.every(_FORGET_EVERY_S, "forget_alerts", self.forget)

    def stop(self) -> None:
        """End; what is not saved is judged again after the restart."""
        self._ending = True

    def restore(self) -> None:
        """Continue after the last turn that was saved; on the writer's thread.

        What was committed since may be days of it: the turns to come replay what is left.
        """
        saved = self._alerts.ask(lambda alerts: alerts.load())
        if saved is not None:
            notice = self.timeline.load(
                saved.state, saved.book, saved.buckets, catching_up=saved.catching_up
            )
            if notice is not None:
                self._log_notice(notice)
            self._counted = saved.positions
            self._unwatched = self.detection.streams.dropped
            refused = self._examples.add(awaited(self.timeline.book))
            self.metrics.count_lookups(each.lookup for each in refused.values())
            self.timeline.attach(refused)
            self.book = self.timeline.book
            self._saved = (self.detection.log.frontier, saved.catching_up)
        self._reload_silences()
        self._replaying = self._replay(self._counted)
        self._replay_some()
        self.metrics.show(self.timeline.book, self.detection)

    def on_commit(self, commit: Counted) -> None:
        """Buffer the records of a commit; on the writer's thread."""
        if commit.logged is not None:
            self._buffer.log(commit.logged)
        if commit.restated.old is not None and commit.restated.new is not None:
            self._buffer.restate(commit.restated.old, commit.restated.new)
        for source, records in commit.arrivals if self._several else ():
            self._buffer.arrive(source, records)
        self._bound()

    def turn(self) -> None:
        """Count what was buffered and judge what is due; off the writer's thread."""
        ask = self._engine.thread.ask
        until = self._context.clock.monotonic() + _TURN_S
        while ask(self._go_on):
            if self._ending or self._context.clock.monotonic() >= until:
                return  # the next turn goes on: half a turn cannot be saved
        opened = ask(lambda: unexplained(self._events, self._notices))
        examples = self._examples.look_up(opened, lambda: self._ending)
        self.metrics.count_lookups(each.lookup for each in examples.values())
        if ask(lambda: self._save(examples)):
            self._delivery.wake()

    def forget(self) -> None:
        """Delete alerts that retention no longer covers."""
        now = self._engine.ages.now(self._engine.windows.watermark)
        if now is None:
            return  # the clock has jumped ahead
        before = now - self._context.settings.retention.windows
        self._alerts.ask(lambda alerts: alerts.expire(before))

    def silence(self, silence: Silence) -> None:
        """Keep a silence; it applies from the next minute on. On the writer's thread."""
        self._alerts.ask(lambda alerts: alerts.add_silence(silence))
        self._reload_silences()
        self._log.info("silenced", id=silence.id, until=silence.ends_at, by=silence.created_by)

    def unsilence(self, name: str) -> bool:
        """Delete a silence; False when there is none. On the writer's thread."""
        deleted = self._alerts.ask(lambda alerts: alerts.delete_silence(name))
        self._reload_silences()
        if deleted:
            self._log.info("unsilenced", id=name)
        return deleted

    def acknowledge(self, name: str, word: Acknowledgement | None) -> Future[None]:
        """Have an incident acknowledged, or no longer, with the turn that is saved next.

        The future is done once it is durable; it holds KeyError for an incident that nobody was
        notified of, or that is over. For any thread.
        """
        return self._words.add(name, word)

    def change_alerts(self, change: Callable[[Alert], Alert]) -> None:
        """Change every alert in memory, because queries were erased. On the writer's thread."""
        self.timeline.book = self.timeline.book.changed(change)
        self.book = self.book.changed(change)
        self._events = [replace(event, alert=change(event.alert)) for event in self._events]
        self._notices = [replace(each, alert=change(each.alert)) for each in self._notices]

    def _reload_silences(self) -> None:
        silences = self._alerts.ask(lambda alerts: alerts.silences())
        self.timeline.use_silences(tuple(silences))

    def _replay(self, after: Positions) -> Iterator[None]:
        """Buffer what was committed after some positions, in steps between which others work."""
        columns = self._engine.pipeline.columns
        for entry in self._engine.state.follow(after):
            if self._engine.has_counted(entry):  # the rest comes with the commits of others
                feed(self._buffer, entry.change, columns)
            yield
            while self._buffer.records >= _MOST_RECORDS:
                self._advance()
                yield
        self._engine.committer.listen(self.on_commit)
        self.is_listening = True
        while self._turn is not None:  # incomplete for its position: must not be saved
            self._advance()
            yield

    def _replay_some(self) -> bool:
        """Replay for one time slice; True when there is more to replay."""
        clock = self._context.clock
        started = clock.monotonic()
        return any(clock.monotonic() - started >= _STEP_S for _ in self._replaying)

    def _go_on(self) -> bool:
        """Spend one time slice on the replay, then on the turn; True when there is more to do."""
        return self._replay_some() or self._advance()

    def _advance(self) -> bool:
        """Spend one time slice on the turn; True when there is more to do."""
        clock = self._context.clock
        if self._turn is None:
            positions = self._engine.positions
            now = min(clock.now(), self._engine.frontier)  # a lag is no outage
            if self._may_wait(now):
                return False
            self._taken_at = clock.monotonic()
            steps = self.timeline.advance(self._buffer.take(), now)
            self._turn = _Turn(steps, positions)
        started = clock.monotonic()
        done = all(self._take(step) < started + _STEP_S for step in self._turn.steps)
        self.metrics.add_seconds(clock.monotonic() - started)
        if not done:
            return True
        self._counted = self._turn.positions
        self._turn = None
        return False

    def _may_wait(self, now: float) -> bool:
        """True while no minute is due and records of the present may wait for others.

        Counting costs by the batch more than by the record, where there are hundreds of streams.
        """
        if self._several or self.timeline.catching_up or not self.timeline.begun:
            return False
        waited_s = self._context.clock.monotonic() - self._taken_at
        if self._buffer.records >= _MANY_RECORDS or waited_s >= _WAIT_S:
            return False
        return self.detection.due(now) == self.detection.log.frontier

    def _take(self, step: Step) -> float:
        """Keep the events of a step for ``_save``; returns the monotonic time."""
        self._events += step.events
        self._notices += step.incident_notices
        for notice in step.notices:
            self._log_notice(notice)
        return self._context.clock.monotonic()

    def _bound(self) -> None:
        """Make senders that are faster than detection wait for it, so that memory is bounded."""
        if self._buffer.records >= _MOST_RECORDS:
            for _ in range(2):  # the turn under way, and what was buffered since
                while self._advance():
                    pass

    def _save(self, examples: ExamplesByEpisode) -> bool:
        """Save the turn in one transaction; True when there are notifications to send."""
        timeline, log = self.timeline, self.detection.log
        timeline.book, taken = self._words.apply(timeline.book)
        self._notices += taken
        self.metrics.show(timeline.book, self.detection)
        self._warn_of_unwatched()
        is_news = bool(self._events or self._notices or examples)
        if self._saved == (log.frontier, timeline.catching_up) and not is_news:
            return False
        timeline.attach(examples)
        self._attach(examples)
        events, notices = tuple(self._events), tuple(self._notices)
        rows = notifications(notices, self._delivery.routes)
        dirty = log.dirty()
        turn = Turn(
            state=self.detection.dump(),
            begun_anew=timeline.begun_anew,
            buckets=log.dump_dirty(),
            oldest=timeline.oldest,
            book=timeline.book.dump(),
            catching_up=timeline.catching_up,
            positions=self._counted,
            events=events,
            notices=notices,
            notifications=rows,
        )
        try:
            self._alerts.ask(lambda alerts: alerts.save(turn))
        except BaseException:
            log.mark_dirty(dirty)
            raise
        timeline.begun_anew = False
        self._events.clear()
        self._notices.clear()
        self.book = timeline.book  # before ``judged_until``, which promises it
        self._saved = (log.frontier, timeline.catching_up)
        self._words.settle()
        for event in events:
            self._log_event(event)
            self.metrics.count(event)
        for notice in notices:
            self._log_incident(notice)
        return bool(rows)

    def _attach(self, examples: ExamplesByEpisode) -> None:
        """Add what was looked up to what is not saved yet, and the sinks to notices."""
        routes = self._delivery.routes
        self._events = [
            replace(event, alert=with_examples(event.alert, examples)) for event in self._events
        ]
        self._notices = [
            addressed(replace(notice, alert=with_examples(notice.alert, examples)), routes)
            for notice in self._notices
        ]

    def _warn_of_unwatched(self) -> None:
        """Say once that some streams are not watched; the counter tells that it goes on."""
        if self.detection.streams.dropped > self._unwatched:
            self._unwatched = sys.maxsize
            self._detection_log.warning(
                "streams_not_watched",
                limit=self.detection.streams.limit,
                remedy="raise detectors.max_streams or name fewer tags in slices; "
                "`ragmon check-config` says how many streams there are",
            )

    def _log_event(self, event: AlertEvent) -> None:
        alert = event.alert
        self._log.info(
            f"alert_{event.change}",
            alert=alert.name,
            fingerprint=alert.fingerprint,
            severity=alert.severity,
            incident=alert.incident_id,
            explained_by=alert.explained_by,
            silenced_by=alert.silenced_by,
            sentence=alert.evidence.sentence if alert.evidence else "",
            **{k: v for k, v in alert.labels.items() if k not in ("alertname", "severity")},
        )

    def _log_incident(self, notice: IncidentNotice) -> None:
        is_good = notice.change in ("acknowledged", "resolved")
        log = self._log.info if is_good else self._log.warning
        log(
            f"incident_{notice.change}",
            incident=notice.incident_id,
            severity=notice.severity,
            headline=notice.headline,
            alerts=notice.alerts,
            sinks=list(notice.sinks),
        )

    def _log_notice(self, notice: Notice) -> None:
        log = self._detection_log.warning if notice.warning else self._detection_log.info
        log(notice.event, **notice.values)
