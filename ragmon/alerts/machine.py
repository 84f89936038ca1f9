"""The state machine: findings of a minute in, transitions out.

inactive → pending → firing → resolved. A finding that is absent means the stream is fine; one
that is unknown neither fires nor resolves. The book is all the machine remembers: stored in the
transaction that stores its events, it lets a restart neither repeat nor forget.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ragmon.alerts import Alert, AlertEvent, Change, Evidence, event
from ragmon.alerts.inhibition import cause_of
from ragmon.alerts.remedies import name_of
from ragmon.alerts.silences import Maintenance, Silence, silenced_by
from ragmon.detectors import AlertKey, Finding

MOST_RECENT = 200
_MOSTLY = 0.5  # of the evidence that ends an incident; less comes and goes while it lasts

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
    minute = _Minute(now, timing, explain, _continuing(book, by_key))
    open_alerts = {alert.key: alert for alert in book.open}
    events: list[AlertEvent] = []
    moved: list[Alert] = []
    for key in sorted(by_key.keys() | open_alerts.keys()):
        alert, changes = _advance(open_alerts.get(key), by_key.get(key), minute)
        events += changes
        if alert is not None:
            moved.append(alert)
    causes = (*moved, *book.recent)
    open_now = [
        _suppress(alert, causes, suppressions, now) for alert in moved if alert.state != "resolved"
    ]
    return _notify(book, moved, open_now, events, minute)


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
    alert = replace(alert, finding=finding, bad_at=minute.now)
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


def _absent(alert: Alert, minute: _Minute) -> tuple[Alert | None, list[AlertEvent]]:
    now = minute.now
    if alert.state == "pending":
        return None, [event("inactive", alert, now, notify=False)]
    if now - alert.bad_at < minute.timing.keep.get(alert.key.kind, 0.0):
        return alert, []
    if alert.fingerprint in minute.continuing:
        return replace(alert, bad_at=now), []
    alert = replace(alert, state="resolved", ended_at=now)
    # Its end is notified to whoever was notified of its beginning, silenced meanwhile or not.
    return alert, [event("resolved", alert, now, notify=alert.notified_at is not None)]


def _suppress(
    alert: Alert, others: Sequence[Alert], suppressions: Suppressions, now: float
) -> Alert:
    cause = cause_of(alert, others)
    silence = silenced_by(alert.labels, suppressions.silences, suppressions.maintenance, now)
    by = cause.fingerprint if cause is not None else ""
    if (by, silence) == (alert.inhibited_by, alert.silenced_by):
        return alert
    return replace(alert, inhibited_by=by, silenced_by=silence)


def _notify(
    book: AlertBook,
    moved: Sequence[Alert],
    open_now: Sequence[Alert],
    events: Sequence[AlertEvent],
    minute: _Minute,
) -> tuple[AlertBook, tuple[AlertEvent, ...]]:
    """Mark the events to notify, and add notifications that are due without a transition."""
    now = minute.now
    marked = [_mark_notified(alert, now, minute.timing.renotify) for alert in open_now]
    after = {alert.key: alert for alert in marked}
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
    for old, new in zip(open_now, marked, strict=True):
        if new.notified_at == now and new.key not in fresh:
            change: Change = "notified" if old.notified_at is None else "renotified"
            transitions.append(event(change, new, now, notify=True))
    over = [alert for alert in moved if alert.state == "resolved"]
    recent = (*over, *book.recent)[:MOST_RECENT]
    return AlertBook(tuple(marked), recent), tuple(transitions)


def _mark_notified(alert: Alert, now: float, renotify_s: float) -> Alert:
    if alert.state != "firing" or not alert.is_notifying:
        return alert
    if alert.notified_at is not None and now - alert.notified_at < renotify_s:
        return alert
    return replace(alert, notified_at=now)


def _notified_now(made: AlertEvent, after: dict[AlertKey, Alert], now: float) -> bool:
    alert = after.get(made.alert.key)
    return made.change == "firing" and alert is not None and alert.notified_at == now
