"""Alerts for the HTTP API: open ones and ended ones, notifications, and silences."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec.structs import asdict

from ragmon.alerts import LABELS, Alert
from ragmon.alerts.as_json import (
    AlertView,
    IncidentView,
    describe,
    describe_incident,
    transition,
)
from ragmon.alerts.incidents import incidents
from ragmon.alerts.message import Links
from ragmon.alerts.notices import Acknowledgement, IncidentNotice
from ragmon.alerts.silences import MOST_EXPRESSIONS, MOST_VALUE, Matcher, Silence
from ragmon.api_schema import AlertDetail, LostNotification, NotificationQueue
from ragmon.clock import Clock
from ragmon.config.units import seconds
from ragmon.daemon.alerting.loop import Alerting
from ragmon.daemon.ingest.engine import Engine
from ragmon.detectors import StreamKey
from ragmon.detectors.arrays import Ints
from ragmon.detectors.expected_band import ExpectedBand
from ragmon.errors import OverloadedError
from ragmon.silence_schema import SilenceRequest, SilenceView
from ragmon.stores.protocols import DeadLetter

_LONGEST_S = 366 * 86_400.0
_MOST_SILENCES = 1_000
_MOST_LOOKED_AT = 1_000  # ended alerts, when some may not be read
_LONGEST_INCIDENT_S = 7 * 86_400.0
_SAVED_S = 10.0  # that an acknowledgement waits to be durable
_FINGERPRINT = 16  # characters

_decode = msgspec.msgpack.Decoder(IncidentNotice).decode


class AlertApi:
    """Implements ``ragmon.web.alerts.AlertSource``."""

    def __init__(self, alerting: Alerting, engine: Engine, clock: Clock, links: Links) -> None:
        self._alerting = alerting
        self._thread = engine.thread
        self._alerts = engine.thread.bind(engine.state.alert_log())
        self._outbox = engine.thread.bind(engine.state.outbox())
        self._clock = clock
        self._links = links

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def expected(self, key: StreamKey, tens: Ints) -> ExpectedBand | None:
        """The losses of a stream that are ordinary; only on the writer's thread."""
        return self._alerting.detection.expected(key, tens)

    def judged_until(self) -> float | None:
        """Unix seconds up to which everything is judged; None before there was anything."""
        return self._alerting.judged_until

    def open(self, pipeline: str = "") -> list[AlertView]:
        """Alerts that fire or are pending; those by which an incident is known first."""
        alerts = [alert for alert in self._alerting.book.open if _of(alert, pipeline)]
        alerts.sort(key=_leading_first)
        return [describe(alert, self._links) for alert in alerts]

    async def alerts(
        self,
        state: str,
        pipeline: str,
        since: float,
        limit: int,
        readable: Callable[[str], bool] | None = None,
    ) -> list[AlertView]:
        """Alerts of the pipelines that may be read, what fires first, then the newest."""
        shown = [] if state == "resolved" else _readable(self.open(pipeline), readable)[:limit]
        if state != "open":
            most = limit - len(shown) if readable is None else _MOST_LOOKED_AT
            ended = await self._alerts.ask_async(lambda log: log.ended(since, most, pipeline))
            views = [describe(event.alert, self._links) for event in ended]
            shown += _readable(views, readable)[: limit - len(shown)]
        return shown

    async def incidents(
        self,
        state: str,
        pipeline: str,
        since: float,
        limit: int,
        readable: Callable[[str], bool] | None = None,
    ) -> list[IncidentView]:
        """Incidents of the pipelines that may be read, what is open first, then the newest."""
        book = self._alerting.book
        # Alerts of an incident end one after another: those that ended long before it are of it.
        earlier = since - _LONGEST_INCIDENT_S
        ended = await self._alerts.ask_async(
            lambda log: log.ended(earlier, _MOST_LOOKED_AT, pipeline)
        )
        alerts = {event.alert.episode: event.alert for event in ended}
        alerts |= {alert.episode: alert for alert in (*book.recent, *book.open)}
        of_pipeline = [alert for alert in alerts.values() if _of(alert, pipeline)]
        chosen = [
            one
            for one in incidents(of_pipeline, self._clock.now())
            if (one.ended_at is None or one.ended_at >= since)
            and state in ("all", "open" if one.ended_at is None else "resolved")
            and (readable is None or readable(one.pipeline))
        ]
        names = [one.id for one in chosen[:limit]]
        notices: dict[str, list[IncidentNotice]] = {name: [] for name in names}
        for notice in await self._alerts.ask_async(lambda log: log.notices(names)):
            notices[notice.incident_id].append(notice)
        return [describe_incident(one, notices[one.id]) for one in chosen[:limit]]

    async def acknowledge(self, name: str, by: str, note: str) -> IncidentView:
        """Have an incident known as somebody's work; returns it as it is then.

        Raises:
            KeyError: nobody was notified of such an incident, or it is over.
            OverloadedError: alerts are far behind, so it is not saved in time.
        """
        word = Acknowledgement(at=self._clock.now(), by=by, note=note)
        return await self._settled(name, word)

    async def unacknowledge(self, name: str) -> IncidentView:
        """Have an incident known as nobody's work again.

        Raises:
            KeyError: nobody was notified of such an incident, or it is over.
            OverloadedError: alerts are far behind, so it is not saved in time.
        """
        return await self._settled(name, None)

    async def _settled(self, name: str, word: Acknowledgement | None) -> IncidentView:
        saved = asyncio.wrap_future(self._alerting.acknowledge(name, word))
        try:
            async with asyncio.timeout(_SAVED_S):
                await saved
        except TimeoutError:
            raise OverloadedError(
                "alerts are far behind the records: this was not saved in time, but may be later",
                retry_after_s=5,
            ) from None
        known = await self.incidents("all", "", 0.0, _MOST_LOOKED_AT)
        return next(one for one in known if one.id == name)

    async def alert(self, name: str) -> AlertDetail:
        """One alert by id or fingerprint, with its transitions.

        Raises:
            KeyError: there is none.
        """
        book = self._alerting.book
        known = [
            alert
            for alert in (*book.open, *book.recent)
            if name in (alert.episode, alert.fingerprint)
        ]
        episode = known[0].episode if known and len(name) == _FINGERPRINT else name
        events = await self._alerts.ask_async(lambda log: log.episode(episode))
        if not events and not known:
            raise KeyError(name)
        newest = next((alert for alert in known if alert.episode == episode), None)
        shown = describe(newest or events[-1].alert, self._links)
        return AlertDetail(**asdict(shown), transitions=[transition(event) for event in events])

    async def undelivered(self, limit: int) -> NotificationQueue:
        """Count of notifications that wait, and the newest that were given up, with the reason."""
        count, dead = await self._outbox.ask_async(
            lambda outbox: (outbox.undelivered(), outbox.dead(limit))
        )
        return NotificationQueue(
            waiting=count.length,
            oldest_at=count.oldest_at,
            given_up=count.dead,
            dead_letters=[_lost(letter) for letter in dead],
        )

    async def silences(self) -> list[SilenceView]:
        """Every silence, with its state."""
        now = self._clock.now()
        silences = await self._alerts.ask_async(lambda log: log.silences())
        return [_shown(silence, now) for silence in reversed(silences)]

    async def silence(self, request: SilenceRequest) -> SilenceView:
        """Keep a silence.

        Raises:
            ValueError: its duration or a condition makes no sense, or there are too many.
        """
        now = self._clock.now()
        length = seconds(request.duration)
        if not isinstance(length, float) or not 0 < length <= _LONGEST_S:
            raise ValueError(f"duration: {request.duration!r} is not between 1s and 366d")
        for matcher in request.matchers:
            _check(matcher)
        starts_at = now if request.starts_at is None else request.starts_at
        silence = Silence(
            id=secrets.token_hex(8),
            matchers=request.matchers,
            starts_at=starts_at,
            ends_at=starts_at + length,
            created_by=request.created_by,
            comment=request.comment,
        )
        self._check_room(silence)
        await self._thread.ask_async(lambda: self._alerting.silence(silence))
        return _shown(silence, now)

    def _check_room(self, silence: Silence) -> None:
        kept = self._alerting.timeline.silences
        if len(kept) >= _MOST_SILENCES:
            raise ValueError(f"there are {_MOST_SILENCES} silences already; delete some")
        expressions = sum(matcher.regex for each in (*kept, silence) for matcher in each.matchers)
        if expressions > MOST_EXPRESSIONS:
            raise ValueError(
                f"matchers: all silences together would have {expressions} regular expressions, "
                f"the most is {MOST_EXPRESSIONS}; name values without regex, or delete silences"
            )

    async def unsilence(self, name: str) -> None:
        """Delete a silence.

        Raises:
            KeyError: there is none.
        """
        if not await self._thread.ask_async(lambda: self._alerting.unsilence(name)):
            raise KeyError(name)


def _readable(views: list[AlertView], readable: Callable[[str], bool] | None) -> list[AlertView]:
    return views if readable is None else [view for view in views if readable(view.pipeline)]


def _leading_first(alert: Alert) -> tuple[bool, bool, bool, float]:
    return alert.state == "pending", not alert.leads, not alert.is_loud, -alert.began_at


def _of(alert: Alert, pipeline: str) -> bool:
    return pipeline in ("", alert.key.stream.pipeline)


def _lost(letter: DeadLetter) -> LostNotification:
    notice = _decode(letter.body)
    return LostNotification(
        sink=letter.sink,
        reason=letter.reason,
        attempts=letter.attempts,
        given_up_at=letter.buried_at,
        incident=notice.incident_id,
        headline=notice.headline,
        labels=notice.labels,
        id=notice.id,
        at=notice.at,
        change=notice.change,
    )


def _check(matcher: Matcher) -> None:
    """A label that no alert has would silence nothing, or everything if its value is empty."""
    if matcher.name not in LABELS:
        raise ValueError(
            f"matchers: no alert has a label {matcher.name!r}; use {', '.join(LABELS)}"
        )
    if len(matcher.value) > MOST_VALUE:
        raise ValueError(
            f"matchers: the value for {matcher.name} has {len(matcher.value)} characters, "
            f"the most is {MOST_VALUE}; use several silences"
        )
    if problem := matcher.problem():
        raise ValueError(
            f"matchers: {matcher.value!r} is no regular expression (RE2 syntax): {problem}"
        )


def _shown(silence: Silence, now: float) -> SilenceView:
    state: Literal["active", "pending", "expired"]
    state = "active" if silence.active(now) else "pending" if now < silence.starts_at else "expired"
    return SilenceView(**asdict(silence), state=state)
