"""Prometheus Alertmanager, API v2. For a cluster configure one such sink for each of its peers."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ragmon.alerts import Alert, AlertEvent
from ragmon.alerts.message import annotations, known_labels, rfc3339
from ragmon.http_client import Access, Poster, Url
from ragmon.sinks import SinkContext

_REPEAT_EVERY_S = 60.0
_FADES_AFTER_S = 4 * _REPEAT_EVERY_S  # as Prometheus does: a dead ragmon's alerts end by themselves


class Options(Access):
    """``sinks: [{kind: alertmanager, url: http://localhost:9093}]``."""

    url: Url
    """Base URL of Alertmanager; a path prefix may be part of it."""


def build(options: Options, context: SinkContext) -> "Alertmanager":
    """A sink that posts to one Alertmanager."""
    return Alertmanager(options, context)


class Alertmanager:
    """One Alertmanager, which knows an alert by its set of labels."""

    repeat_every_s = _REPEAT_EVERY_S

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._url = options.url.rstrip("/") + "/api/v2/alerts"
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, event: AlertEvent) -> None:
        """Open the alert, or end it."""
        alert, now = event.alert, self._context.clock.now()
        over: list[Alert] = []
        if event.change == "escalated" and alert.escalated_from is not None:
            # Severity is one of the labels by which Alertmanager knows it.
            known = replace(alert, notified_severity=alert.escalated_from)
            over = [replace(known, state="resolved", ended_at=now)]
        first = event.change in ("firing", "notified", "escalated")
        # What begins before group_wait is notified at once, without the rest of its group.
        self._post([alert, *over], now if first else None)

    def repeat(self, alerts: Sequence[Alert]) -> None:
        """Keep these open for the next four minutes."""
        self._post(alerts)

    def _post(self, alerts: Sequence[Alert], begins: float | None = None) -> None:
        until = self._context.clock.now() + _FADES_AFTER_S
        posted = [to_alert(alert, until, self._context, begins) for alert in alerts]
        self._poster.post(self._url, msgspec.json.encode(posted), {})


def to_alert(
    alert: Alert, until: float, context: SinkContext, begins: float | None = None
) -> dict[str, Any]:
    """One alert as it is posted.

    Args:
        alert: as it stands.
        until: unix seconds when it ends unless it is posted again.
        context: addresses for people and external labels.
        begins: unix seconds, where it should not be when it fired.
    """
    began = begins or alert.fired_at or alert.began_at
    ended = until if alert.ended_at is None else max(alert.ended_at, began)
    links = context.links
    return {
        "labels": {**context.labels, **known_labels(alert)},
        # Again when it is over: the notification of the end has what the last post had.
        "annotations": annotations(alert, links),
        "startsAt": rfc3339(began),
        "endsAt": rfc3339(ended),
        "generatorURL": links.alert(alert),
    }
