"""The state machine: findings of a minute in, transitions out.

inactive → pending → firing → resolved. A finding that is absent means the stream is fine; one
that is unknown neither fires nor resolves. The book is all the machine remembers: stored in the
transaction that stores its events, it lets a restart neither repeat nor forget.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, AlertEvent, Change, Evidence, event, graver
from ragmon.alerts.incidents import with_incident
from ragmon.alerts.inhibition import causal_order, cause_of
from ragmon.alerts.remedies import name_of
from ragmon.alerts.silences import Maintenance, Silence, silenced_by
from ragmon.detectors import AlertKey, Finding

MOST_RECENT = 200
_MOSTLY = 0.5  # of the evidence that ends an incident; less comes and goes while it lasts
# After its own end a cause waits so long for its symptoms, or for as long as their window is wide.
_AFTERMATH_S = 900.0
_FADING_S = 3_600.0  # while they recover: few queries take long to show that it is over

Explain = Callable[[Finding], Evidence]


class Timing(Struct, frozen=True, kw_only=True):
    """Delays until an alert fires, repeats and ends; seconds."""

    wait: dict[str, float] = field(default_factory=lambda: {"threshold": 120.0})
    """By kind: bad for so long before it fires."""
    keep: dict[str, float] = field(default_factory=lambda: {"threshold": 300.0, "slo": 300.0})
    """By kind: fine for so long before it ends."""
    renotify: float = 4 * 3_600.0
    """From one notification of an alert to the next."""


class Suppressions(Struct, frozen=True):
    """Silences and maintenance windows: alerts that match are not notified."""

    silences: tuple[Silence, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()


DEFAULT_TIMING = Timing()
NO_SUPPRESSIONS = Suppressions()


class _Minute(Struct, frozen=True):
    """Inputs of every transition of one step."""

    now: float
    timing: Timing
    explain: Explain
    continuing: frozenset[str]  # fingerprints of alerts whose stream another detector finds bad
    lingering: Mapping[str, float]  # by fingerprint of a cause, seconds to wait for its symptoms


class AlertBook(Struct, frozen=True):
    """Every alert that is not over, and the last that are."""

    open: tuple[Alert, ...] = ()
    recent: tuple[Alert, ...] = ()  # resolved, the newest first

    def dump(self) -> bytes:
        """As bytes."""
        return msgspec.msgpack.encode(self)

    def changed(self, change: Callable[[Alert], Alert]) -> "AlertBook":
        """The book with every alert changed."""
        return AlertBook(tuple(map(change, self.open)), tuple(map(change, self.recent)))

    @staticmethod
    def load(data: bytes) -> "AlertBook":
        """The book from the bytes of ``dump``."""
        return msgspec.msgpack.decode(data, type=AlertBook)


def step(
    book: AlertBook,
    findings: Sequence[Finding],
    now: float,
    explain: Explain,
    *,
    timing: Timing = DEFAULT_TIMING,
    suppressions: Suppressions = NO_SUPPRESSIONS,
) -> tuple[AlertBook, tuple[AlertEvent, ...]]:
    """One minute further.

    Args:
        book: every alert known so far.
        findings: of every detector in this minute.
        now: the end of the minute, unix seconds.
        explain: gathers the evidence of a finding; called once an alert, when it fires.
        timing: delays.
        suppressions: silences and maintenance windows.

    Returns:
        The new book, and the transitions in the order of what they are about.
    """
    by_key = {finding.alert: finding for finding in findings}
    lingering = _lingering(book, by_key, now, timing)
    minute = _Minute(now, timing, explain, _continuing(book, by_key), lingering)
    open_alerts = {alert.key: alert for alert in book.open}
    events: list[AlertEvent] = []
    moved: list[Alert] = []
    for key in sorted(by_key.keys() | open_alerts.keys()):
        alert, changes = _advance(open_alerts.get(key), by_key.get(key), minute)
        events += changes
        if alert is not None:
            moved.append(alert)
    return _notify(book, moved, events, suppressions, minute)


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
        return alert, [event("pending", alert, minute.now, notify=False)]
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
        return alert, [event("firing", alert, minute.now, notify=False)]
    return alert, []


def _fire(alert: Alert, minute: _Minute) -> tuple[Alert, list[AlertEvent]]:
    evidence = minute.explain(alert.finding)
    alert = replace(alert, state="firing", fired_at=minute.now, evidence=evidence)
    return alert, [event("firing", alert, minute.now, notify=False)]


def _renewed(old: Evidence, new: Evidence) -> Evidence:
    """The new evidence, with the queries that were looked up for the old."""
    return replace(new, worst=old.worst)


def _unknown(alert: Alert, now: float) -> tuple[Alert, list[AlertEvent]]:
    alert = replace(alert, bad_at=now)
    if alert.state != "firing":
        return alert, []
    alert = replace(alert, state="no_data")
    return alert, [event("no_data", alert, now, notify=False)]


def _continuing(book: AlertBook, findings: Mapping[AlertKey, Finding]) -> frozenset[str]:
    """Fingerprints of alerts that go on: another detector still finds their stream as bad.

    Windows are left out, as they are bad for as long as they are wide.
    """
    streams = {alert.fingerprint: alert.key.stream for alert in book.open}
    return frozenset(
        alert.inhibited_by
        for alert in book.open
        if streams.get(alert.inhibited_by) == alert.key.stream
        and (finding := findings.get(alert.key)) is not None
        and finding.window_s is None
        and finding.recovered < _MOSTLY
    )


def _lingering(
    book: AlertBook, findings: Mapping[AlertKey, Finding], now: float, timing: Timing
) -> dict[str, float]:
    """Seconds to wait with the end of each cause whose symptoms still fire, by its fingerprint."""
    lingering: dict[str, float] = {}
    for alert in book.open:
        finding = findings.get(alert.key)
        kept = now - alert.bad_at < timing.keep.get(alert.key.kind, 0.0)
        if not alert.inhibited_by or alert.state == "pending" or (finding is None and not kept):
            continue
        longest = max(_AFTERMATH_S, alert.finding.window_s or 0.0)
        if finding is None or finding.recovered > 0.0:
            longest = max(longest, _FADING_S)
        cause = alert.inhibited_by
        lingering[cause] = min(lingering.get(cause, longest), longest)
    return lingering


def _absent(alert: Alert, minute: _Minute) -> tuple[Alert | None, list[AlertEvent]]:
    now = minute.now
    if alert.state == "pending":
        return None, [event("inactive", alert, now, notify=False)]
    keep = minute.timing.keep.get(alert.key.kind, 0.0)
    if now - alert.bad_at < keep:
        return alert, []
    if alert.fingerprint in minute.continuing:
        return replace(alert, bad_at=now), []
    # Its symptoms are known by its notification: it ends with them, or they speak for themselves.
    if now - alert.bad_at < keep + minute.lingering.get(alert.fingerprint, 0.0):
        return alert, []
    alert = replace(alert, state="resolved", ended_at=now)
    # Its end is notified to whoever was notified of its beginning, silenced meanwhile or not.
    return alert, [event("resolved", alert, now, notify=alert.notified_at is not None)]


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
    moved: Sequence[Alert], suppressions: Suppressions, minute: _Minute
) -> dict[AlertKey, Alert]:
    """Open alerts, marked with what suppresses them and when they were notified.

    Causes come first: only one that is known to people suppresses its symptoms.
    """
    marked: list[Alert] = []
    is_open = [alert for alert in sorted(moved, key=causal_order) if alert.state != "resolved"]
    for at, alert in enumerate(is_open):
        suppressed = _suppress(alert, marked, suppressions, minute.now)
        joined = with_incident(suppressed, (*marked, *is_open[at + 1 :]))
        marked.append(_mark_notified(joined, minute.now, minute.timing.renotify))
    return {alert.key: alert for alert in sorted(marked, key=lambda alert: alert.key)}


def _notify(
    book: AlertBook,
    moved: Sequence[Alert],
    events: Sequence[AlertEvent],
    suppressions: Suppressions,
    minute: _Minute,
) -> tuple[AlertBook, tuple[AlertEvent, ...]]:
    """Mark the events to notify, and add notifications that are due without a transition."""
    now = minute.now
    after = _marked(moved, suppressions, minute)
    transitions = [
        event(
            made.change,
            after.get(made.alert.key, made.alert),
            made.at,
            notify=made.notify or _notified_now(made, after, now),
        )
        for made in events
    ]
    fresh = {made.alert.key for made in transitions if made.notify}
    before = {alert.key: alert for alert in moved}
    for key, new in after.items():
        if new.notified_at == now and key not in fresh:
            transitions.append(event(_news(before[key], new), new, now, notify=True))
    over = [alert for alert in moved if alert.state == "resolved"]
    recent = (*over, *book.recent)[:MOST_RECENT]
    return AlertBook(tuple(after.values()), recent), tuple(transitions)


def _news(old: Alert, new: Alert) -> Change:
    """Reason of a notification without a transition."""
    if old.known_severity is None:
        return "notified"
    return "escalated" if graver(new.severity, old.known_severity) else "renotified"


def _mark_notified(alert: Alert, now: float, renotify_s: float) -> Alert:
    if alert.state != "firing" or not alert.is_notifying:
        return alert
    known = alert.known_severity
    escalated = known is not None and graver(alert.severity, known)
    if alert.notified_at is not None and now - alert.notified_at < renotify_s and not escalated:
        return alert
    before = known if escalated else None
    return replace(alert, notified_at=now, notified_severity=alert.severity, escalated_from=before)


def _notified_now(made: AlertEvent, after: dict[AlertKey, Alert], now: float) -> bool:
    alert = after.get(made.alert.key)
    return made.change == "firing" and alert is not None and alert.notified_at == now
