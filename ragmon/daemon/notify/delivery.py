"""Delivery: from the outbox to the sinks, at least once, in order per incident.

Each sink has a worker with a thread of its own, so that none waits for another. It takes what is
due, tries it, and writes down how that ended; a crash in between means that it is tried again,
with the same id.
"""

from collections.abc import Callable, Sequence
from typing import get_args

import structlog

from ragmon.alerts.notices import IncidentNotice
from ragmon.clock import Clock
from ragmon.daemon.component import Context
from ragmon.daemon.notify.routing import Route, build_routes
from ragmon.daemon.notify.sink_worker import DeliveryContext, DeliveryCounters, SinkWorker
from ragmon.errors import StoreError
from ragmon.loops import Loop
from ragmon.stores.protocols import Fate, Outbox, Undelivered
from ragmon.threads import OnWriter

_STOP_S = 2.0
_OUTCOMES = get_args(Fate)


def build_delivery(context: Context, port: int) -> "Delivery":
    """The configured sinks with their workers and metrics.

    Args:
        context: of the daemon.
        port: on which ragmon listens.

    Raises:
        SettingsError: a sink cannot be used as configured.
    """
    engine, own = context.engine, context.own
    routes = build_routes(context.settings, context.clock, port)
    outbox = engine.thread.bind(engine.state.outbox())
    delivery = Delivery(
        outbox, routes, context.clock, counters=own, is_doubted=engine.ages.is_doubted
    )
    for route in routes:
        for outcome in _OUTCOMES:
            own.notified(route.name, outcome, 0)  # there from the first scrape on
    own.watch(
        "ragmon_notification_queue_length",
        "Notifications that no receiver has accepted yet.",
        lambda: delivery.undelivered.length,
    )
    own.watch(
        "ragmon_notification_oldest_age_seconds",
        "Seconds that the oldest undelivered notification has waited.",
        delivery.oldest_s,
    )
    own.watch(
        "ragmon_notification_dead_letters",
        "Notifications given up in the last 30 days; GET /v1/notifications has the reasons.",
        lambda: delivery.undelivered.dead,
    )
    return delivery


class Delivery:
    """The workers of all sinks."""

    def __init__(
        self,
        outbox: OnWriter[Outbox],
        routes: Sequence[Route],
        clock: Clock,
        *,
        counters: DeliveryCounters,
        is_doubted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.routes = tuple(routes)
        self._open_incidents: Callable[[], Sequence[IncidentNotice]] = tuple  # nothing is known yet
        self._outbox = outbox
        self._clock = clock
        self._counters = counters
        self._log = structlog.get_logger("delivery")
        common = DeliveryContext(
            outbox=outbox,
            clock=clock,
            counters=counters,
            open_incidents=self._standing,
            is_doubted=is_doubted,
        )
        self._workers = [SinkWorker(route, common) for route in routes]

    @property
    def loops(self) -> Sequence[Loop]:
        """One for each sink."""
        return [worker.loop for worker in self._workers]

    def start(self) -> None:
        """Begin, without waiting."""
        self._outbox.submit(self._abandon)
        for worker in self._workers:
            worker.start()

    def repeat(self, open_incidents: Callable[[], Sequence[IncidentNotice]]) -> None:
        """Remind receivers that forget of these incidents.

        Args:
            open_incidents: those that were notified; called on the sinks' threads.
        """
        self._open_incidents = open_incidents

    def wake(self) -> None:
        """There is something new in the outbox."""
        for worker in self._workers:
            worker.wake()

    def stop(self) -> None:
        """End after the attempts under way; one that hangs is made again after the restart."""
        until = self._clock.monotonic() + _STOP_S
        for worker in self._workers:
            worker.stop(0.0)
        for worker in self._workers:
            worker.stop(max(0.0, until - self._clock.monotonic()))

    @property
    def undelivered(self) -> Undelivered:
        """The outbox in numbers, some seconds old."""
        newest = max(self._workers, key=lambda worker: worker.looked_at, default=None)
        return newest.undelivered if newest else Undelivered(0, None, 0)

    def oldest_s(self) -> float:
        """Seconds that the oldest notification has waited; 0 without one."""
        oldest = self.undelivered.oldest_at
        return 0.0 if oldest is None else max(0.0, self._clock.now() - oldest)

    def _standing(self) -> Sequence[IncidentNotice]:
        return self._open_incidents()

    def _abandon(self, outbox: Outbox) -> None:
        """Give up what waits for sinks that are no longer configured."""
        names = [route.name for route in self.routes]
        try:
            dead = outbox.abandon(names, self._clock.now(), "the sink was removed")
        except StoreError as error:
            self._log.warning("cannot_reach_outbox", error=str(error))
            return
        for sink, count in dead.items():
            self._counters.notified(sink, "dead", count)
        if dead:
            self._log.error(
                "notifications_of_removed_sinks", dead=sum(dead.values()), configured=names
            )
