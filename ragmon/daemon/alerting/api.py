"""What the API asks of the alerts: open ones and ended ones, notifications, and silences."""

import secrets
from typing import Any

import msgspec
from msgspec import to_builtins

from ragmon.alerts import LABELS, Alert, AlertEvent
from ragmon.alerts.as_json import describe, transition
from ragmon.alerts.message import Links
from ragmon.alerts.silences import Matcher, Silence
from ragmon.clock import Clock
from ragmon.config.units import seconds
from ragmon.daemon.alerting.loop import Alerting
from ragmon.daemon.ingest.engine import Engine
from ragmon.stores.protocols import DeadLetter
from ragmon.web.alerts import SilenceRequest

_LONGEST_S = 366 * 86_400.0
_MOST_SILENCES = 1_000
_FINGERPRINT = 16  # characters

_decode = msgspec.msgpack.Decoder(AlertEvent).decode


class AlertApi:
    """Implements ``ragmon.web.alerts.Book``."""

    def __init__(self, alerting: Alerting, engine: Engine, clock: Clock, links: Links) -> None:
        self._alerting = alerting
        self._thread = engine.thread
        self._alerts = engine.thread.bind(engine.store.alert_log())
        self._outbox = engine.thread.bind(engine.store.outbox())
        self._clock = clock
        self._links = links

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def judged_until(self) -> float | None:
        """Unix seconds up to which everything is judged; None before there was anything."""
        return self._alerting.judged_until

    def open(self, pipeline: str = "") -> list[dict[str, Any]]:
        """What fires, or is about to; heard ones first."""
        found = [each for each in self._alerting.book.open if _of(each, pipeline)]
        found.sort(key=lambda each: (each.state == "pending", not each.heard, -each.began_at))
        return [describe(each, self._links) for each in found]

    async def alerts(
        self, state: str, pipeline: str, since: float, limit: int
    ) -> list[dict[str, Any]]:
        """Alerts with their evidence, what fires first, then the newest."""
        found = [] if state == "resolved" else self.open(pipeline)[:limit]
        if state != "open":
            most = limit - len(found)
            ended = await self._alerts.ask_async(lambda log: log.ended(since, most, pipeline))
            found += [describe(each.alert, self._links) for each in ended]
        return found

    async def alert(self, name: str) -> dict[str, Any]:
        """One alert by id or fingerprint, with its transitions.

        Raises:
            KeyError: there is none.
        """
        book = self._alerting.book
        held = [
            each for each in (*book.open, *book.recent) if name in (each.episode, each.fingerprint)
        ]
        episode = held[0].episode if held and len(name) == _FINGERPRINT else name
        events = await self._alerts.ask_async(lambda log: log.episode(episode))
        if not events and not held:
            raise KeyError(name)
        newest = next((each for each in held if each.episode == episode), None)
        shown = describe(newest or events[-1].alert, self._links)
        return shown | {"transitions": [transition(each) for each in events]}

    async def undelivered(self, limit: int) -> dict[str, Any]:
        """How many notifications wait, and the newest that were given up, with the reason."""
        count, dead = await self._outbox.ask_async(
            lambda outbox: (outbox.undelivered(), outbox.dead(limit))
        )
        return {
            "waiting": count.length,
            "oldest_at": count.oldest_at,
            "given_up": count.dead,
            "dead_letters": [_letter(each) for each in dead],
        }

    async def silences(self) -> list[dict[str, Any]]:
        """Every silence, with its state."""
        now = self._clock.now()
        held = await self._alerts.ask_async(lambda log: log.silences())
        return [_shown(each, now) for each in reversed(held)]

    async def silence(self, wanted: SilenceRequest) -> dict[str, Any]:
        """Keep a silence.

        Raises:
            ValueError: its duration or a condition makes no sense, or there are too many.
        """
        now = self._clock.now()
        length = seconds(wanted.duration)
        if not isinstance(length, float) or not 0 < length <= _LONGEST_S:
            raise ValueError(f"duration: {wanted.duration!r} is not between 1s and 366d")
        for matcher in wanted.matchers:
            _check(matcher)
        starts_at = now if wanted.starts_at is None else wanted.starts_at
        silence = Silence(
            id=secrets.token_hex(8),
            matchers=wanted.matchers,
            starts_at=starts_at,
            ends_at=starts_at + length,
            created_by=wanted.created_by,
            comment=wanted.comment,
        )
        if len(self._alerting.timeline.silences) >= _MOST_SILENCES:
            raise ValueError(f"there are {_MOST_SILENCES} silences already")
        await self._thread.ask_async(lambda: self._alerting.silence(silence))
        return _shown(silence, now)

    async def unsilence(self, name: str) -> None:
        """Delete a silence.

        Raises:
            KeyError: there is none.
        """
        if not await self._thread.ask_async(lambda: self._alerting.unsilence(name)):
            raise KeyError(name)


def _of(alert: Alert, pipeline: str) -> bool:
    return pipeline in ("", alert.key.stream.pipeline)


def _letter(dead: DeadLetter) -> dict[str, Any]:
    event = _decode(dead.body)
    return {
        "sink": dead.sink,
        "reason": dead.reason,
        "attempts": dead.attempts,
        "given_up_at": dead.buried_at,
        "alert": event.alert.episode,
        "labels": event.alert.labels,
        **transition(event),
    }


def _check(matcher: Matcher) -> None:
    """A label that no alert has would silence nothing, or everything if its value is empty."""
    if matcher.name not in LABELS:
        raise ValueError(
            f"matchers: no alert has a label {matcher.name!r}; use {', '.join(LABELS)}"
        )
    if problem := matcher.problem():
        raise ValueError(
            f"matchers: {matcher.value!r} is no regular expression (RE2 syntax): {problem}"
        )


def _shown(silence: Silence, now: float) -> dict[str, Any]:
    state = "active" if silence.active(now) else "pending" if now < silence.starts_at else "expired"
    plain: dict[str, Any] = to_builtins(silence)
    return plain | {"state": state}
