"""The state machine: findings of a minute in, transitions and notices out.

inactive → pending → firing → resolved. A finding that is absent means the stream is fine; one
that is unknown neither fires nor resolves. The book is all the machine remembers: stored in the
transaction that stores its events, it lets a restart neither repeat nor forget.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, AlertEvent, Evidence, event, graver
from ragmon.alerts.incidents import with_incident
from ragmon.alerts.inhibition import causal_order, cause_of
from ragmon.alerts.notices import (
    Acknowledgement,
    IncidentNotice,
    OpenIncident,
    acknowledge,
    notify,
)
from ragmon.alerts.remedies import name_of
from ragmon.alerts.silences import Maintenance, Silence, silenced_by
from ragmon.detectors import AlertKey, Finding

MOST_RECENT = 200

Explain = Callable[[Finding], Evidence]


class Timing(Struct, frozen=True, kw_only=True):
    """Delays until an alert fires, repeats and ends; seconds."""

    wait: dict[str, float] = field(default_factory=lambda: {"threshold": 120.0})
    """By kind: bad for so long before it fires."""
    keep: dict[str, float] = field(
        default_factory=lambda: {"threshold": 300.0, "slo": 300.0, "repeats": 300.0}
    )
    """By kind: fine for so long before it ends."""
    renotify: float = 4 * 3_600.0
    """From one notification of an incident to the next, while nothing changes."""


class Suppressions(Struct, frozen=True):
    """Silences and maintenance windows: no notification names alerts that match."""

    silences: tuple[Silence, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()


DEFAULT_TIMING = Timing()
NO_SUPPRESSIONS = Suppressions()


class _Minute(Struct, frozen=True):
    """Inputs of every transition of one step."""

    now: float
    timing: Timing
    explain: Explain


class AlertBook(Struct, frozen=True):
    """Every alert that is not over, the last that are, and what people know of incidents."""

    open: tuple[Alert, ...] = ()
    recent: tuple[Alert, ...] = ()  # resolved, the newest first
    incidents: tuple[OpenIncident, ...] = ()  # that were notified and are not over

    def dump(self) -> bytes:
        """As bytes."""
        return msgspec.msgpack.encode(self)

    def changed(self, change: Callable[[Alert], Alert]) -> "AlertBook":
        """The book with every alert changed."""
        alerts, ended = tuple(map(change, self.open)), tuple(map(change, self.recent))
        return AlertBook(alerts, ended, self.incidents)

    def acknowledged(
        self, name: str, word: Acknowledgement | None, now: float
    ) -> "tuple[AlertBook, IncidentNotice]":
        """The book once somebody took an incident on, and the notification of it.

        Raises:
            KeyError: nobody was notified of such an incident, or it is over.
        """
        known = {incident.id: incident for incident in self.incidents}
        taken, notice = acknowledge(known[name], self.open, self.recent, word, now)
        known[name] = taken
        return AlertBook(self.open, self.recent, tuple(known.values())), notice

    @staticmethod
    def load(data: bytes) -> "AlertBook":
        """The book from the bytes of ``dump``."""
        return msgspec.msgpack.decode(data, type=AlertBook)


class MinuteOutcome(Struct, frozen=True):
    """The book after one minute, and the events of that minute."""

    book: AlertBook
    events: tuple[AlertEvent, ...] = ()  # in the order of what they are about
    notices: tuple[IncidentNotice, ...] = ()  # to be delivered, in the order of their incidents


def step(
    book: AlertBook,
    findings: Sequence[Finding],
    now: float,
    explain: Explain,
    *,
    timing: Timing = DEFAULT_TIMING,
    suppressions: Suppressions = NO_SUPPRESSIONS,
) -> MinuteOutcome:
    """One minute further.

    Args:
        book: every alert known so far.
        findings: of every detector in this minute.
        now: the end of the minute, unix seconds.
        explain: gathers the evidence of a finding; called when an alert fires or becomes graver.
        timing: delays.
        suppressions: silences and maintenance windows.
    """
    by_key = {finding.alert: finding for finding in findings}
    minute = _Minute(now, timing, explain)
    before = {alert.key: alert for alert in book.open}
    events: list[AlertEvent] = []
    moved: list[Alert] = []
    for key in sorted(by_key.keys() | before.keys()):
        alert, changes = _advance(before.get(key), by_key.get(key), minute)
        events += changes
        if alert is not None:
            moved.append(alert)
    over = [alert for alert in moved if alert.state == "resolved"]
    recent = (*over, *book.recent)
    marked = _marked(moved, recent, suppressions, now)
    noted = notify(book.incidents, marked, recent, now, timing.renotify)
    after = {alert.key: alert for alert in sorted(noted.alerts, key=lambda alert: alert.key)}
    transitions = _transitions(events, before, after, now)
    left = AlertBook(tuple(after.values()), recent[:MOST_RECENT], noted.incidents)
    return MinuteOutcome(left, transitions, noted.notices)


def _advance(
    alert: Alert | None, finding: Finding | None, minute: _Minute
) -> tuple[Alert | None, list[AlertEvent]]:
    """The next state of one alert; None when there is none."""
    if alert is None:
        if finding is None or finding.status == "unknown":
            return None, []
        return _begin(finding, minute)
    if finding is None:
        return _absent(alert, minute)
    if finding.status == "unknown":
        return _unknown(alert, minute.now)
    return _present(alert, finding, minute)


def _begin(finding: Finding, minute: _Minute) -> tuple[Alert, list[AlertEvent]]:
    alert = Alert(
        key=finding.alert,
        name=name_of(finding.alert),
        state="pending",
        severity=finding.severity,
        began_at=minute.now,
        bad_at=minute.now,
        finding=finding,
    )
    if minute.timing.wait.get(finding.alert.kind, 0.0) > 0.0:
        return alert, [event("pending", alert, minute.now)]
    return _fire(alert, minute)


def _present(alert: Alert, finding: Finding, minute: _Minute) -> tuple[Alert, list[AlertEvent]]:
    severity = max(alert.severity, finding.severity, key=SEVERITIES.index)
    if severity != alert.severity and alert.evidence is not None:
        alert = replace(alert, evidence=_renewed(alert.evidence, minute.explain(finding)))
    alert = replace(alert, finding=finding, bad_at=minute.now, severity=severity)
    if alert.state == "pending":
        if minute.now - alert.began_at >= minute.timing.wait.get(alert.key.kind, 0.0):
            return _fire(alert, minute)
        return alert, []
    if alert.state == "no_data":
        alert = replace(alert, state="firing")
        return alert, [event("firing", alert, minute.now)]
    return alert, []


def _fire(alert: Alert, minute: _Minute) -> tuple[Alert, list[AlertEvent]]:
    evidence = minute.explain(alert.finding)
    alert = replace(alert, state="firing", fired_at=minute.now, evidence=evidence)
    return alert, [event("firing", alert, minute.now)]


def _renewed(old: Evidence, new: Evidence) -> Evidence:
    """The new evidence, with what was looked up for the old."""
    return replace(new, worst=old.worst, missing=old.missing, topics=old.topics, lookup=old.lookup)


def _unknown(alert: Alert, now: float) -> tuple[Alert, list[AlertEvent]]:
    alert = replace(alert, bad_at=now)
    if alert.state != "firing":
        return alert, []
    alert = replace(alert, state="no_data")
    return alert, [event("no_data", alert, now)]


def _absent(alert: Alert, minute: _Minute) -> tuple[Alert | None, list[AlertEvent]]:
    now = minute.now
    if alert.state == "pending":
        return None, [event("inactive", alert, now)]
    keep = minute.timing.keep.get(alert.key.kind, 0.0)
    if now - alert.bad_at < keep:
        return alert, []
    alert = replace(alert, state="resolved", leads=False, ended_at=now)
    return alert, [event("resolved", alert, now)]


def _suppress(
    alert: Alert, causes: Sequence[Alert], suppressions: Suppressions, now: float
) -> Alert:
    cause = cause_of(alert, causes)
    silence = silenced_by(alert.labels, suppressions.silences, suppressions.maintenance, now)
    by = cause.fingerprint if cause is not None else ""
    if (by, silence) == (alert.inhibited_by, alert.silenced_by):
        return alert
    explained = f"{cause.name}, {_place(cause)}" if cause is not None else ""
    return replace(alert, inhibited_by=by, explained_by=explained, silenced_by=silence)


def _place(alert: Alert) -> str:
    stream = alert.key.stream
    return " ".join(filter(None, (stream.pipeline, stream.dimension, stream.value)))


def _marked(
    moved: Sequence[Alert], recent: Sequence[Alert], suppressions: Suppressions, now: float
) -> list[Alert]:
    """Open alerts with what explains and silences them and their incidents, causes first."""
    is_open = [alert for alert in sorted(moved, key=causal_order) if alert.state != "resolved"]
    last = {alert.incident_id for alert in is_open}
    ended = [alert for alert in recent if alert.incident_id in last and alert.incident_id]
    marked: list[Alert] = []
    for at, alert in enumerate(is_open):
        suppressed = _suppress(alert, marked, suppressions, now)
        marked.append(with_incident(suppressed, (*marked, *is_open[at + 1 :]), ended))
    return marked


def _transitions(
    events: Sequence[AlertEvent],
    before: Mapping[AlertKey, Alert],
    after: Mapping[AlertKey, Alert],
    now: float,
) -> tuple[AlertEvent, ...]:
    """The events with their alerts as they are now, and those of alerts in the same state."""
    final = [event(made.change, after.get(made.alert.key, made.alert), made.at) for made in events]
    fired = {made.alert.key for made in events if made.change == "firing"}
    for key, new in after.items():
        old = before.get(key)
        if old is None or key in fired:
            continue
        if new.notified_at == now and old.notified_at is None:
            final.append(event("notified", new, now))
        elif new.fired_at is not None and graver(new.severity, old.severity):
            final.append(event("escalated", new, now))
    return tuple(final)
