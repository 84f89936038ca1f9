"""Prometheus Alertmanager, API v2. For a cluster configure one such sink for each of its peers."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ragmon.alerts.message import annotations, rfc3339
from ragmon.alerts.notices import IncidentNotice
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
    """One Alertmanager, which knows an incident by its set of labels."""

    repeat_every_s = _REPEAT_EVERY_S

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._url = options.url.rstrip("/") + "/api/v2/alerts"
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, notice: IncidentNotice) -> None:
        """Open the incident, or end it."""
        now = self._context.clock.now()
        over: list[IncidentNotice] = []
        if notice.former_labels:  # another alert to Alertmanager; the severity is one of them
            over = [replace(notice, labels=notice.former_labels, ended_at=now)]
        first = notice.change in ("opened", "escalated")
        # What begins before group_wait is notified at once, without the rest of its group.
        self._post([notice, *over], now if first else None)

    def repeat(self, notices: Sequence[IncidentNotice]) -> None:
        """Keep these open for the next four minutes."""
        self._post(notices)

    def _post(self, notices: Sequence[IncidentNotice], begins: float | None = None) -> None:
        until = self._context.clock.now() + _FADES_AFTER_S
        posted = [to_alert(notice, until, self._context, begins) for notice in notices]
        self._poster.post(self._url, msgspec.json.encode(posted), {})


def to_alert(
    notice: IncidentNotice, until: float, context: SinkContext, begins: float | None = None
) -> dict[str, Any]:
    """One incident as it is posted.

    Args:
        notice: the incident as it stands.
        until: unix seconds when it ends unless it is posted again.
        context: addresses for people and external labels.
        begins: unix seconds, where it should not be when it opened.
    """
    began = begins or notice.opened_at
    ended = until if notice.ended_at is None else max(notice.ended_at, began)
    links = context.links
    return {
        "labels": {**context.labels, **notice.labels},
        # Again when it is over: the notification of the end has what the last post had.
        "annotations": annotations(notice, links),
        "startsAt": rfc3339(began),
        "endsAt": rfc3339(ended),
        "generatorURL": links.incident(notice.incident_id),
    }
