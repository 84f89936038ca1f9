"""Detection in the running daemon: fed by commits, moved by the schedule, saved turn by turn."""

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress

import structlog
from msgspec import Struct

from ragmon.alerts import Alert, AlertEvent, WorstQuery
from ragmon.alerts.machine import AlertBook
from ragmon.alerts.silences import Silence
from ragmon.alerts.timeline import AlertTimeline, unexplained
from ragmon.daemon.alerting.build import build_detection, build_maintenance, build_timing
from ragmon.daemon.alerting.worst_queries import WorstQueries
from ragmon.daemon.component import Context
from ragmon.daemon.ingest.committer import Counted
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.notify.routing import notifications
from ragmon.detectors import MINUTE_S, Finding
from ragmon.detectors.detection import Detection
from ragmon.detectors.intake import ObservationBuffer
from ragmon.errors import StoreError
from ragmon.exposition.alerts import AlertMetrics
from ragmon.records import Position
from ragmon.stores import Restatement, Turn
from ragmon.windows.observations import unpack

_EVERY_S = 1.0
_TURN_S = 0.8
_STEP_S = 0.01  # on the writer's thread, before commits have their turn
_MOST_RECORDS = 20_000  # that are gathered before they are counted at once
_FORGET_EVERY_S = 3_600.0
Findings = Callable[[float], Sequence[Finding]]
"""By the end of a minute, in unix seconds."""

_LOUD = ("firing", "notified", "renotified")


class _Work(Struct):
    """A turn under way."""

    steps: Iterator[None]
    position: Position


class Alerting:
    """A part of the daemon; what it holds lives on the writer's thread."""

    def __init__(self, shell: Context, delivery: Delivery) -> None:
        settings, engine = shell.settings, shell.engine
        feed = ObservationBuffer(engine.pipeline.columns)
        build = functools.partial(build_detection, settings, feed.columns)
        self._others: Findings = lambda _now: ()
        self.live = AlertTimeline(
            build,
            build_timing(settings),
            structlog.get_logger("detection"),
            build_maintenance(settings),
            also=self._found_by_others,
        )
        self.book = AlertBook()  # as it was saved; what nobody could forget may be shown
        self.metrics = AlertMetrics()
        shell.own.registry.register(self.metrics)
        self._shell = shell
        self._engine = engine
        self._feed = feed
        self._delivery = delivery
        self._alerts = engine.store.alert_log()
        self._worst = WorstQueries(engine.store.reader, engine.pipeline, settings.alerts.texts)
        self._ending = False
        self._several = bool(settings.sources)  # else a pipeline's silence says it all
        self._work: _Work | None = None
        self._counted = Position()  # what the detectors have seen
        self._saved = (-1, False)  # the minute under judgement and the mode that were saved
        self._restored: Future[None] | None = None
        self._replaying: Iterator[None] = iter(())
        self._log = structlog.get_logger("alert")
        delivery.repeat(self.heard)

    @property
    def detection(self) -> Detection:
        """The detectors; to be touched on the writer's thread only."""
        return self.live.detection

    @property
    def judged_until(self) -> float | None:
        """Unix seconds up to which ``book`` tells everything; None before there was anything."""
        return self._saved[0] * MINUTE_S if self._saved[0] >= 0 else None

    def heard(self) -> Sequence[Alert]:
        """What fires and should be heard of; for any thread."""
        return [
            alert
            for alert in self.book.open
            if alert.state != "pending" and alert.notified_at is not None and alert.heard
        ]

    def listen(self, others: Findings) -> None:
        """Take in what others find, such as golden probes; asked once a minute."""
        self._others = others

    def _found_by_others(self, now: float) -> Sequence[Finding]:
        return self._others(now)

    def start(self) -> None:
        """Begin, without waiting."""
        self._restored = self._engine.thread.submit(self.restore)
        self._shell.schedule.every(_EVERY_S, "detect", self.turn)
        self._shell.schedule.every(_FORGET_EVERY_S, "forget_alerts", self.forget)

    def stop(self) -> None:
        """End; what is not saved is judged again after the restart."""
        self._ending = True

    def restore(self) -> None:
        """Continue after the last turn that was saved; on the writer's thread.

        What was committed since may be days of it: the turns to come replay what is left.
        """
        saved = self._alerts.load()
        if saved is not None:
            self.live.load(saved.state, saved.book, saved.buckets)
            self.live.catching_up = saved.catching_up
            self._counted = saved.position
            self.book = self.live.book
            self._saved = (self.detection.log.frontier, saved.catching_up)
        self.live.silences = tuple(self._alerts.silences())
        self._replaying = self._replay(self._counted)
        self._some_replayed()
        self.metrics.show(self.live.book, self.detection)

    def counted(self, commit: Counted) -> None:
        """Take what a commit added; on the writer's thread, so it only gathers."""
        if commit.logged is not None:
            self._feed.log(commit.logged)
        if commit.restated.old is not None and commit.restated.new is not None:
            self._feed.restate(commit.restated.old, commit.restated.new)
        for source, records in commit.arrivals if self._several else ():
            self._feed.arrive(source, records)
        self._bound()

    def turn(self) -> None:
        """Count what was gathered and judge what is due; off the writer's thread."""
        if self._restored is not None:
            self._restored.result()
        ask = self._engine.thread.ask
        until = self._shell.clock.monotonic() + _TURN_S
        while ask(self._go_on):
            if self._ending or self._shell.clock.monotonic() >= until:
                return  # the next turn goes on: half a turn cannot be saved
        opened = ask(lambda: unexplained(self.live.events))
        worst = {}
        for alert in opened:
            if self._ending:
                return
            worst[alert.episode] = self._look_up(alert)
        if ask(lambda: self._save(worst)):
            self._delivery.wake()

    def forget(self) -> None:
        """Delete what retention no longer covers."""
        before = self._shell.clock.now() - self._shell.settings.retention.windows
        self._engine.thread.ask(lambda: self._alerts.expire(before))

    def silence(self, silence: Silence) -> None:
        """Keep a silence; it holds from the next minute on. On the writer's thread."""
        self._alerts.add_silence(silence)
        self.live.silences = tuple(self._alerts.silences())
        self._log.info("silenced", id=silence.id, until=silence.ends_at, by=silence.created_by)

    def unsilence(self, name: str) -> bool:
        """Delete a silence; False when there is none. On the writer's thread."""
        found = self._alerts.delete_silence(name)
        self.live.silences = tuple(self._alerts.silences())
        if found:
            self._log.info("unsilenced", id=name)
        return found

    def _replay(self, after: Position) -> Iterator[None]:
        """Gather what was committed after a position, in steps between which others may work."""
        columns = self._engine.pipeline.columns
        for each in self._engine.store.replay(after):
            if isinstance(each, Restatement):
                self._feed.restate(*(unpack(body, columns) for body in each))
            else:
                self._feed.log(unpack(each, columns))
            yield
            while self._feed.records >= _MOST_RECORDS:
                self._step()
                yield
        self._engine.committer.listen(self.counted)
        while self._work is not None:  # it holds less than its position says: never to be saved
            self._step()
            yield

    def _some_replayed(self) -> bool:
        """Some of what was committed unseen; whether there is more."""
        clock = self._shell.clock
        started = clock.monotonic()
        return any(clock.monotonic() - started >= _STEP_S for _ in self._replaying)

    def _go_on(self) -> bool:
        """Some of what a restart left to do, or else of the turn; whether there is more."""
        return self._some_replayed() or self._step()

    def _step(self) -> bool:
        """Some of the turn; whether there is more to do."""
        clock = self._shell.clock
        if self._work is None:
            store = self._engine.store
            position = Position(store.next_sequence, store.last_restatement)
            steps = self.live.turn(self._feed.take(position), clock.now())
            self._work = _Work(steps, position)
        started = clock.monotonic()
        done = all(clock.monotonic() - started < _STEP_S for _ in self._work.steps)
        self.metrics.spent(clock.monotonic() - started)
        if not done:
            return True
        self._counted = self._work.position
        self._work = None
        return False

    def _bound(self) -> None:
        """Whoever sends faster than it can be judged waits for it: memory has an end."""
        if self._feed.records >= _MOST_RECORDS:
            for _ in range(2):  # the turn under way, and what was gathered since
                while self._step():
                    pass

    def _look_up(self, alert: Alert) -> tuple[WorstQuery, ...]:
        with suppress(StoreError):  # an alert without examples is still an alert
            return self._worst.of(alert)
        return ()

    def _save(self, worst: dict[str, tuple[WorstQuery, ...]]) -> bool:
        """Everything since the last turn in one transaction; whether something is to be told."""
        live, log = self.live, self.detection.log
        self.metrics.show(live.book, self.detection)
        if self._saved == (log.frontier, live.catching_up) and not live.events:
            return False
        live.attach(worst)
        events = tuple(live.events)
        rows = notifications(events, self._delivery.routes)
        buckets = list(log.dump_dirty())
        turn = Turn(
            state=self.detection.dump(),
            buckets=buckets,
            oldest=live.oldest,
            book=live.book.dump(),
            catching_up=live.catching_up,
            position=self._counted,
            events=events,
            notifications=rows,
        )
        try:
            self._alerts.save(turn)
        except BaseException:
            log.mark_dirty(buckets)
            raise
        live.events.clear()
        self.book = live.book  # before the time up to which it tells everything
        self._saved = (log.frontier, live.catching_up)
        self._tell(events)
        return bool(rows)

    def _tell(self, events: Sequence[AlertEvent]) -> None:
        """One line a transition, one vocabulary."""
        for each in events:
            alert = each.alert
            loud = each.change in _LOUD and alert.heard
            say = self._log.warning if loud else self._log.info
            say(
                f"alert_{each.change}",
                alert=alert.name,
                fingerprint=alert.fingerprint,
                severity=alert.severity,
                heard=alert.heard,
                said=alert.evidence.sentence if alert.evidence else "",
                **{k: v for k, v in alert.labels.items() if k not in ("alertname", "severity")},
            )
            self.metrics.tell(each)
