"""Retry loop of one sink."""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import structlog
from msgspec import Struct

from ragmon.alerts.notices import IncidentNotice
from ragmon.alerts.sentences import length
from ragmon.clock import Clock
from ragmon.daemon.notify.outbox_writer import OutboxWriter
from ragmon.daemon.notify.routing import Route
from ragmon.errors import SettingsError, SinkError, StoreError
from ragmon.loops import Loop, LoopOptions, beat
from ragmon.sinks import Repeating
from ragmon.stores.protocols import Outbox, PendingNotification, Settled, Undelivered
from ragmon.threads import OnWriter

FIRST_WAIT_S = 0.5
GROWTH = 1.5
LONGEST_WAIT_S = 300.0
_LONGEST_ASKED_S = 3_600.0  # of a Retry-After
_LONGEST_PAUSE_S = 60.0  # of a sink, so that a receiver that is back is soon found to be
_FAILURES_TO_PAUSE = 5  # in a row; then the whole sink waits, not only the notification
_BATCH = 256
_LOOK_EVERY_S = 5.0
_STORE_WAIT_S = 1.0
_LOOP = LoopOptions(stall_s=300.0, is_vital=False)  # its receiver is somebody else's

_decode = msgspec.msgpack.Decoder(IncidentNotice).decode
# What a defect of ours in one message would raise: it must not end the worker.
_DEFECTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class DeliveryCounters(Protocol):
    """Counters of delivery."""

    def notified(self, sink: str, outcome: str, count: int = 1) -> None:
        """Attempts ended: delivered, retried or dead."""
        ...


def wait_s(event_id: str, attempts: int) -> float:
    """Seconds until the next attempt: half as long again each time, up to five minutes.

    The jitter, between half and all of it, is made from the id, so that notifications which
    failed together do not come back together.

    Args:
        event_id: of the notification.
        attempts: how many failed so far, at least 1.
    """
    longest = min(FIRST_WAIT_S * GROWTH ** min(attempts - 1, 50), LONGEST_WAIT_S)
    digest = hashlib.blake2b(f"{event_id} {attempts}".encode(), digest_size=4).digest()
    return longest * (0.5 + int.from_bytes(digest) / 2.0**33)


def settle(
    row: PendingNotification,
    error: SinkError,
    give_up_after_s: float,
    now: float,
    *,
    is_doubted: bool = False,
) -> Settled:
    """The outcome of an attempt that was not accepted: tried again, or given up.

    Args:
        row: the notification.
        error: of the attempt.
        give_up_after_s: age at which it is given up.
        now: unix seconds.
        is_doubted: the clock may have jumped ahead, so that its age is not known.
    """
    if not error.retryable:
        return Settled(row.number, "dead", now, str(error), is_doubted)
    if now - row.at > give_up_after_s and not is_doubted:
        reason = f"given up after {length(give_up_after_s)}: {error}"
        return Settled(row.number, "dead", now, reason)
    asked = min(error.retry_after_s, _LONGEST_ASKED_S)
    again = now + max(asked, wait_s(row.event_id, row.attempts + 1))
    return Settled(row.number, "retried", again, str(error))


class DeliveryContext(Struct, frozen=True, kw_only=True):
    """Services that all sink workers share."""

    outbox: OnWriter[Outbox]
    clock: Clock
    counters: DeliveryCounters
    open_incidents: Callable[[], Sequence[IncidentNotice]]
    is_doubted: Callable[[], bool]  # the clock may have jumped ahead


class SinkWorker:
    """One sink's notifications; ``step`` runs on one thread."""

    def __init__(self, route: Route, context: DeliveryContext) -> None:
        self.name = route.name
        self.undelivered = Undelivered(0, None, 0)
        self.looked_at = float("-inf")  # monotonic seconds
        self._route = route
        self._context = context
        self._clock = context.clock
        self._outbox = context.outbox
        self._outcomes = OutboxWriter(context.outbox)
        self._failures = 0  # in a row
        self._paused_until = self._repeat_at = context.clock.monotonic()
        self._log = structlog.get_logger("delivery").bind(sink=route.name)
        self.loop = Loop(
            f"sink-{route.name}", self.step, self._log, options=_LOOP, finish=self._finish
        )

    def start(self) -> None:
        """Begin, without waiting."""
        self.loop.start()

    def wake(self) -> None:
        """Look into the outbox now."""
        self.loop.wake()

    def stop(self, timeout_s: float) -> None:
        """End after the attempt under way, and wait for that so long."""
        self.loop.stop(timeout_s)

    def step(self) -> float:
        """Try what is due; returns the seconds until there may be more to do."""
        try:
            self._outcomes.flush()
            pause = self._paused_until - self._clock.monotonic()
            if pause > 0.0:
                return pause
            wait = self._repeat()
            until = self._clock.monotonic() + _LOOK_EVERY_S  # then it may be time to repeat
            due = self._outbox.ask(
                lambda outbox: outbox.due(self._route.name, self._clock.now(), _BATCH)
            )
            for row in due.rows:
                beat()
                now = self._clock.monotonic()
                if self.loop.stopping.is_set() or now < self._paused_until or now > until:
                    break
                self._outcomes.add(self._try(row))
            self._outcomes.flush()
            self._look()
        except StoreError as error:
            self._log.warning("cannot_reach_outbox", error=str(error))
            return _STORE_WAIT_S
        if due.next_at is not None:
            wait = min(wait, max(0.0, due.next_at - self._clock.now()))
        return 0.0 if due.rows else wait

    def _finish(self) -> None:
        with contextlib.suppress(StoreError):  # then it is delivered once more after the restart
            self._outcomes.flush()

    def _look(self) -> None:
        self.undelivered = self._outbox.ask(lambda outbox: outbox.undelivered())
        self.looked_at = self._clock.monotonic()

    def _try(self, row: PendingNotification) -> Settled:
        """One attempt, and how it ended."""
        try:
            self._route.sink.deliver(_decode(row.body))
        except SinkError as error:
            return self._failed(row, error)
        except SettingsError as error:
            return self._failed(row, SinkError(str(error), retryable=True))
        except _DEFECTS as error:
            self._log.exception("notification_defect", event_id=row.event_id)
            reason = f"internal error ({type(error).__name__}); see the log"
            return self._failed(row, SinkError(reason, retryable=False))
        self._failures = 0
        self._context.counters.notified(self._route.name, "delivered")
        self._log.debug("notification_delivered", event_id=row.event_id)
        return Settled(row.number, "delivered", self._clock.now())

    def _failed(self, row: PendingNotification, error: SinkError) -> Settled:
        settled = settle(
            row,
            error,
            self._route.give_up_after_s,
            self._clock.now(),
            is_doubted=self._context.is_doubted(),
        )
        if error.retryable:
            self._pause(error)
        else:
            self._failures = 0  # the receiver is there, and wants something else
        self._context.counters.notified(self._route.name, settled.fate)
        event = {"event_id": row.event_id, "attempt": row.attempts + 1, "error": settled.error}
        if settled.fate == "dead":
            self._log.error("notification_dead", **event)
        else:
            again_s = round(settled.at - self._clock.now(), 1)
            self._log.warning("notification_failed", **event, again_s=again_s)
        return settled

    def _pause(self, error: SinkError) -> None:
        """Leave the receiver alone for as long as it asked, or when nothing gets through."""
        self._failures += 1
        pause = min(error.retry_after_s, _LONGEST_ASKED_S)
        if self._failures >= _FAILURES_TO_PAUSE:
            beyond = self._failures - _FAILURES_TO_PAUSE + 1
            pause = max(pause, min(wait_s(self._route.name, beyond), _LONGEST_PAUSE_S))
        self._paused_until = self._clock.monotonic() + pause

    def _repeat(self) -> float:
        """Remind a receiver that forgets of what is open; returns seconds until the next look."""
        sink = self._route.sink
        if not isinstance(sink, Repeating):
            return _LOOK_EVERY_S
        now = self._clock.monotonic()
        if now >= self._repeat_at:
            # Asked for on this thread: an end that was delivered before is not opened again.
            open_ones = self._context.open_incidents()
            notices = [notice for notice in open_ones if self._route.takes(notice)]
            if not notices:  # or not restored yet
                return _LOOK_EVERY_S
            self._repeat_at = now + sink.repeat_every_s
            try:
                sink.repeat(notices)
            except (SinkError, SettingsError) as error:
                self._log.warning("cannot_repeat", incidents=len(notices), error=str(error))
            except _DEFECTS:
                self._log.exception("repeat_defect", incidents=len(notices))
        return min(_LOOK_EVERY_S, self._repeat_at - now)
