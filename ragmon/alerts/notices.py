"""Notices: the notifications of an incident, from its opening to its end.

One when it opens, one when it becomes graver, one when it grows by something that what people know
does not explain (at most every quarter of an hour), a reminder while nothing changes, one when its
last alert ends. So for whatever fires and is not silenced somebody was notified of its incident,
at a severity that is at least its own. Somebody who works on it acknowledges it: everybody is told,
and reminders stop until it becomes graver.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, graver
from ragmon.alerts.incidents import AlertIncident, IncidentCause, summary, suspect
from ragmon.alerts.inhibition import causal_order
from ragmon.detectors import AlertKey, Severity

UPDATE_EVERY_S = 900.0
"""From one notification of an incident to the next one that says that it grew."""

_MOST_SYMPTOMS = 10

IncidentChange = Literal[
    "opened",
    "grew",
    "escalated",
    "renotified",
    "acknowledged",
    "unacknowledged",
    "resolved",
]

_RELABELLING = ("opened", "escalated")


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """Somebody's word that they work on an incident."""

    at: float  # unix seconds
    by: str
    note: str = ""


class OpenIncident(Struct, frozen=True, kw_only=True):
    """Public knowledge of an incident: the last notification, and what is no news any more."""

    id: str
    opened_at: float  # unix seconds of its first notification
    notified_at: float  # of the last one
    severity: Severity  # that the last one named
    labels: dict[str, str]  # by which receivers know it
    lead: AlertKey  # the alert that they took the labels of
    pipelines: tuple[str, ...]  # of the alerts that notifications spoke of
    known: tuple[str, ...]  # fingerprints of alerts that are no news any more
    unsent: tuple[str, ...] = ()  # fingerprints of news since the last notification
    acknowledged: Acknowledgement | None = None


class IncidentNotice(Struct, frozen=True, kw_only=True):
    """A notification. Its id is the same if it is made again, so receivers may drop repeats."""

    id: str
    at: float
    change: IncidentChange
    incident_id: str
    severity: Severity  # the gravest that a notification of it named
    headline: str
    cause: IncidentCause
    symptoms: tuple[str, ...]  # sentences of its alerts, causes before their effects
    alerts: int  # number of them
    pipelines: tuple[str, ...]
    labels: dict[str, str]  # by which receivers know it
    former_labels: dict[str, str] = {}  # by which they knew it until now; empty: the same
    opened_at: float
    ended_at: float | None = None
    alert: Alert  # that leads it
    sinks: tuple[str, ...] = ()  # that it goes to
    acknowledged: Acknowledgement | None = None

    @property
    def status(self) -> Literal["firing", "resolved"]:
        """As receivers name it."""
        return "resolved" if self.change == "resolved" else "firing"


class Noted(NamedTuple):
    """Outcome of one minute."""

    alerts: tuple[Alert, ...]
    incidents: tuple[OpenIncident, ...]
    notices: tuple[IncidentNotice, ...]


class _Members(Struct, frozen=True):
    """Alerts of one incident."""

    id: str
    open: list[Alert]  # that fired, causes before their effects
    ended: list[Alert]

    @property
    def firing(self) -> list[Alert]:
        """Alerts that somebody must know of."""
        return [alert for alert in self.open if alert.state == "firing" and alert.is_loud]


def notify(
    known: Iterable[OpenIncident],
    alerts: Sequence[Alert],
    ended: Iterable[Alert],
    now: float,
    renotify_s: float,
) -> Noted:
    """Decide what people are notified of in one minute.

    Args:
        known: incidents that were notified and were open a minute ago.
        alerts: open ones, causes before their effects, with what explains and silences them.
        ended: alerts that are over, the newest first.
        now: unix seconds.
        renotify_s: from one notification of an incident to its reminder.
    """
    incidents = {incident.id: incident for incident in known}
    members = _members(incidents, alerts, ended)
    after: dict[AlertKey, Alert] = {alert.key: alert for alert in alerts}
    still: list[OpenIncident] = []
    notices: list[IncidentNotice] = []
    for name in sorted(members):
        before, group = incidents.get(name), members[name]
        change = _change(before, group, now, renotify_s)
        current = _with_news(before or _unknown(group, now), group, now)
        if change is not None:
            current = _notified(current, group, change, now)
            former = before.labels if before and before.labels != current.labels else {}
            notices.append(_notice(current, group, change, now, former))
        if group.open and (before or change):
            lead = _lead(current, group)
            still.append(replace(current, lead=lead.key))
            leading = lead.key if change in _RELABELLING else None
            news = {alert.key for alert in _news(before, group, now)} | {leading}
            after |= {alert.key: _renewed(alert, lead, news, now) for alert in group.open}
        else:
            after |= {alert.key: replace(alert, leads=False) for alert in group.open}
    return Noted(tuple(after[alert.key] for alert in alerts), tuple(still), tuple(notices))


def standing(
    known: Iterable[OpenIncident], alerts: Iterable[Alert], ended: Iterable[Alert], now: float
) -> list[IncidentNotice]:
    """Open incidents as they stand, for receivers that forget."""
    incidents = {incident.id: incident for incident in known}
    ordered = sorted(alerts, key=causal_order)
    groups = _members(incidents, ordered, ended)
    return [
        _notice(incident, groups[name], "renotified", now, {})
        for name, incident in sorted(incidents.items())
    ]


def acknowledge(
    incident: OpenIncident,
    alerts: Iterable[Alert],
    ended: Iterable[Alert],
    word: Acknowledgement | None,
    now: float,
) -> tuple[OpenIncident, IncidentNotice]:
    """An open incident once somebody took it on, and the notification of it.

    Args:
        incident: that was notified and is not over.
        alerts: open ones.
        ended: alerts that are over, the newest first.
        word: of whoever works on it; None: they no longer do.
        now: unix seconds.
    """
    members = _members({incident.id: incident}, sorted(alerts, key=causal_order), ended)
    taken = replace(incident, acknowledged=word)
    change: IncidentChange = "unacknowledged" if word is None else "acknowledged"
    notice = _notice(taken, members[incident.id], change, now, {})
    # Two people may do so within a second.
    return taken, replace(notice, id=f"{incident.id}-{change}-{int(now * 1_000)}")


def _members(
    known: dict[str, OpenIncident], alerts: Iterable[Alert], ended: Iterable[Alert]
) -> dict[str, _Members]:
    """Alerts by incident; incidents that ended in this minute have ended alerts alone."""
    groups = {name: _Members(name, [], []) for name in known}
    for alert in alerts:
        if alert.incident_id:
            groups.setdefault(alert.incident_id, _Members(alert.incident_id, [], []))
            groups[alert.incident_id].open.append(alert)
    for alert in ended:
        if alert.incident_id in groups:
            groups[alert.incident_id].ended.append(alert)
    return groups


def _change(
    before: OpenIncident | None, group: _Members, now: float, renotify_s: float
) -> IncidentChange | None:
    """Reason for a notification; None without one."""
    if before is None:
        return "opened" if group.firing else None
    if not group.open:
        return "resolved"
    if not group.firing:
        return None
    if graver(_gravest(group.firing), before.severity):
        return "escalated"
    waited = now - before.notified_at
    if waited >= UPDATE_EVERY_S and _with_news(before, group, now).unsent:
        return "grew"
    return "renotified" if waited >= renotify_s and before.acknowledged is None else None


def _news(before: OpenIncident | None, group: _Members, now: float) -> list[Alert]:
    """Alerts that nothing that is known explains; one that comes back soon is none.

    Nor is a metric that is known to be worse in the slice that is blamed again. One of another
    pipeline is news, since it may have receivers of its own.
    """
    known = set(before.known) if before else set()
    pipelines = before.pipelines if before else ()
    known |= {alert.fingerprint for alert in group.ended if _is_fresh(alert, now)}
    places = {_place(alert) for alert in group.firing if alert.fingerprint in known}
    unknown = [alert for alert in group.firing if alert.fingerprint not in known]
    return [
        alert
        for alert in unknown
        if (not alert.inhibited_by and _place(alert) not in places - {None})
        or (pipelines and alert.key.stream.pipeline not in pipelines)
    ]


def _place(alert: Alert) -> tuple[str, str, str, str] | None:
    """The metric and the slice that is blamed; None where it is the whole pipeline."""
    stream, blamed = alert.key.stream, suspect(alert)
    if not blamed.dimension:
        return None
    return stream.pipeline, stream.metric, blamed.dimension, blamed.value


def _is_fresh(alert: Alert, now: float) -> bool:
    return alert.ended_at is not None and now - alert.ended_at < UPDATE_EVERY_S


def _with_news(incident: OpenIncident, group: _Members, now: float) -> OpenIncident:
    """The incident with what is news in this minute, and without what ended."""
    news = {alert.fingerprint for alert in _news(incident, group, now)}
    names = {alert.fingerprint for alert in group.open}
    unsent = (set(incident.unsent) & names) | news
    known = (set(incident.known) & names) | {alert.fingerprint for alert in group.firing}
    return replace(incident, unsent=tuple(sorted(unsent)), known=tuple(sorted(known)))


def _unknown(group: _Members, now: float) -> OpenIncident:
    """An incident that nobody knows of yet."""
    first = group.open[0]
    return OpenIncident(
        id=group.id,
        opened_at=now,
        notified_at=now,
        severity=first.severity,
        labels={},
        lead=first.key,
        pipelines=(),
        known=(),
    )


def _notified(
    incident: OpenIncident, group: _Members, change: IncidentChange, now: float
) -> OpenIncident:
    """The incident once the notification is sent."""
    pipelines = {alert.key.stream.pipeline for alert in group.firing} | {*incident.pipelines}
    incident = replace(incident, notified_at=now, unsent=(), pipelines=tuple(sorted(pipelines)))
    if change not in _RELABELLING:
        return incident  # its labels stay: receivers would take another set for another alert
    severity = _gravest(group.firing)
    lead = min(group.firing, key=_grave_first)
    cause = _summary(group, now).cause.text
    labels = lead.labels | {"severity": severity, "incident_id": group.id, "cause": cause}
    is_new = change == "escalated"  # what was acknowledged was less grave
    acknowledged = None if is_new else incident.acknowledged
    return replace(
        incident, severity=severity, lead=lead.key, labels=labels, acknowledged=acknowledged
    )


def _lead(incident: OpenIncident, group: _Members) -> Alert:
    """The alert that stands for the incident; while it lasts the same one."""
    by_key = {alert.key: alert for alert in group.open}
    lead = by_key.get(incident.lead)
    if lead is not None and lead.is_loud:
        return lead
    return min(group.open, key=lambda alert: (not alert.is_loud, *_grave_first(alert)))


def _renewed(alert: Alert, lead: Alert, news: set[AlertKey | None], now: float) -> Alert:
    """An open alert with whether it leads, and since when notifications name it."""
    since = alert.notified_at
    if since is None and alert.key in news and alert.state == "firing" and alert.is_loud:
        since = now
    return replace(alert, leads=alert.key == lead.key and alert.is_loud, notified_at=since)


def _notice(
    incident: OpenIncident,
    group: _Members,
    change: IncidentChange,
    now: float,
    former_labels: dict[str, str],
) -> IncidentNotice:
    about = _summary(group, now)
    sentences = list(_sentences(about.alerts))
    more = len(sentences) - _MOST_SYMPTOMS
    symptoms = (*sentences[:_MOST_SYMPTOMS], *([f"and {more} more"] if more > 0 else ()))
    return IncidentNotice(
        id=f"{incident.id}-{change}-{int(now)}",
        at=now,
        change=change,
        incident_id=incident.id,
        severity=incident.severity,
        headline=about.headline,
        cause=about.cause,
        symptoms=symptoms,
        alerts=len(about.alerts),
        pipelines=incident.pipelines,
        labels=incident.labels,
        former_labels=former_labels,
        opened_at=incident.opened_at,
        ended_at=now if change == "resolved" else None,
        alert=_shown_lead(incident, group),
        acknowledged=incident.acknowledged,
    )


def _shown_lead(incident: OpenIncident, group: _Members) -> Alert:
    """The alert whose evidence the notification has."""
    if group.open:
        return _lead(incident, group)
    return min(group.ended, key=lambda alert: (alert.notified_at is None, *_grave_first(alert)))


def _summary(group: _Members, now: float) -> AlertIncident:
    """The incident in words; of its open alerts, or of all once it is over."""
    alerts = group.open or group.ended
    loud = [alert for alert in alerts if not alert.silenced_by] or alerts
    return summary(group.id, loud, now)


def _sentences(alerts: Iterable[Alert]) -> Iterator[str]:
    for alert in alerts:
        if alert.evidence is not None and alert.evidence.sentence:
            yield alert.evidence.sentence


def _gravest(alerts: Iterable[Alert]) -> Severity:
    return max((alert.severity for alert in alerts), key=SEVERITIES.index)


def _grave_first(alert: Alert) -> tuple[int, tuple[bool, int, bool, float, AlertKey]]:
    return -SEVERITIES.index(alert.severity), causal_order(alert)
