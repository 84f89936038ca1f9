"""An alert as the API, the report and the pages show it, with links in place of paths."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict

from ragmon.alerts import SEVERITIES, Alert, AlertEvent, Change, Evidence, State, WorstQuery
from ragmon.alerts.incidents import AlertIncident, IncidentCause
from ragmon.alerts.message import Links
from ragmon.alerts.notices import Acknowledgement, IncidentChange, IncidentNotice
from ragmon.detectors import Measured, Severity
from ragmon.detectors.losses import loss_of


class LevelEstimate(Struct, frozen=True, kw_only=True):
    """A mean with its 95 % interval and the samples behind it."""

    estimate: float
    lower: float
    upper: float
    samples: float


class LinkedQuery(WorstQuery, frozen=True, kw_only=True):
    """A query that shows what is wrong, with its address."""

    url: str


class LinkedEvidence(Evidence, frozen=True, kw_only=True):
    """Evidence whose runbook and queries are addresses."""

    worst: tuple[LinkedQuery, ...] = ()
    failing_queries: str | None  # address of the queries behind the number


class AlertView(Struct, frozen=True, kw_only=True):
    """Everything known of an alert; times are unix seconds.

    Levels are the shares that people speak of, such as a hit rate, not the losses that detectors
    count.
    """

    id: str  # of this episode
    fingerprint: str  # the same for every episode
    name: str
    state: State
    severity: Severity
    pipeline: str
    metric: str
    type: str  # kind of the detector
    rule: str
    dimension: str  # of a slice; empty: the pipeline as a whole
    value: str
    labels: dict[str, str]
    began_at: float
    fired_at: float | None
    ended_at: float | None
    notified_at: float | None  # since when notifications of its incident name it; null: none does
    inhibited_by: str  # fingerprint of the cause
    explained_by: str  # the same cause, in words
    silenced_by: str  # id of the silence, or name of the maintenance window
    what: str  # the metric in words
    observed: LevelEstimate | None
    reference: LevelEstimate | None
    reference_text: str
    tolerated: float  # level beyond which a minute counts as bad
    changed_at: float | None  # estimated
    window_seconds: float | None
    likelihood_ratio: float | None
    threshold: float | None
    guarantee: str
    evidence: LinkedEvidence | None
    incident_id: str  # empty while it is pending
    leads: bool  # its incident is known by it: one of the open alerts of each is


class IncidentAlert(Struct, frozen=True, kw_only=True):
    """One alert of an incident; `/v1/alerts/{id}` has its evidence."""

    id: str  # of this episode
    fingerprint: str
    name: str
    state: State
    severity: Severity
    metric: str
    type: str  # kind of the detector
    dimension: str  # of a slice; empty: the pipeline as a whole
    value: str
    sentence: str
    fired_at: float | None
    ended_at: float | None
    notified_at: float | None  # since when notifications name it; null: none does
    inhibited_by: str  # fingerprint of the alert that explains it
    explained_by: str  # the same alert, in words
    silenced_by: str
    leads: bool  # the incident is known by it


class NotificationView(Struct, frozen=True, kw_only=True):
    """One notification of an incident."""

    id: str
    at: float  # unix seconds
    change: IncidentChange
    severity: Severity
    headline: str
    sinks: tuple[str, ...]  # it was sent to; empty: none took it
    acknowledged: Acknowledgement | None  # as it stood then


class IncidentView(Struct, frozen=True, kw_only=True):
    """Alerts that were open together, began within minutes and share a cause."""

    id: str
    pipeline: str
    state: Literal["open", "resolved"]
    severity: Severity  # the gravest of its alerts
    notified_severity: Severity | None  # the gravest that a notification named; null: none was sent
    headline: str
    cause: IncidentCause
    began_at: float  # estimated; times are unix seconds
    detected_at: float  # the first alert fired
    ended_at: float | None  # null while an alert of it is open
    acknowledged: Acknowledgement | None  # null: nobody said that they work on it
    bad_queries: float | None  # beyond what was expected, about; of the alert with the most
    alerts: list[IncidentAlert]  # causes before their effects
    notifications: list[NotificationView]  # in order


class TransitionView(Struct, frozen=True, kw_only=True):
    """One step of an alert's life."""

    id: str
    at: float  # unix seconds
    change: Change
    notified: bool


def describe(alert: Alert, links: Links) -> AlertView:
    """Everything known of an alert, for readers."""
    stream, finding = alert.key.stream, alert.finding
    loss = loss_of(stream.metric)
    good = bool(loss.good)
    return AlertView(
        id=alert.episode,
        fingerprint=alert.fingerprint,
        name=alert.name,
        state=alert.state,
        severity=alert.severity,
        pipeline=stream.pipeline,
        metric=stream.metric,
        type=alert.key.kind,
        rule=alert.key.rule,
        dimension=stream.dimension,
        value=stream.value,
        labels=alert.labels,
        began_at=alert.began_at,
        fired_at=alert.fired_at,
        ended_at=alert.ended_at,
        notified_at=alert.notified_at,
        inhibited_by=alert.inhibited_by,
        explained_by=alert.explained_by,
        silenced_by=alert.silenced_by,
        what=loss.good or loss.bad,
        observed=_level(finding.observed, good=good),
        reference=_level(finding.reference, good=good),
        reference_text=finding.reference_text,
        tolerated=1.0 - finding.tolerated if good else finding.tolerated,
        changed_at=finding.changed_at,
        window_seconds=finding.window_s,
        likelihood_ratio=finding.evidence,
        threshold=finding.threshold,
        guarantee=finding.guarantee,
        evidence=_linked(alert.evidence, alert, links),
        incident_id=alert.incident_id,
        leads=alert.leads,
    )


def describe_incident(
    incident: AlertIncident, notices: Sequence[IncidentNotice] = ()
) -> IncidentView:
    """An incident with its notifications, for readers."""
    named = [notice.severity for notice in notices]
    beyond = [_beyond(alert) for alert in incident.alerts]
    return IncidentView(
        id=incident.id,
        pipeline=incident.pipeline,
        state="open" if incident.ended_at is None else "resolved",
        severity=incident.severity,
        notified_severity=max(named, key=SEVERITIES.index, default=None),
        headline=incident.headline,
        cause=incident.cause,
        began_at=incident.began_at,
        detected_at=incident.detected_at,
        ended_at=incident.ended_at,
        acknowledged=notices[-1].acknowledged if notices else None,
        bad_queries=max((excess for excess in beyond if excess is not None), default=None),
        alerts=[_of_incident(alert) for alert in incident.alerts],
        notifications=[notification(notice) for notice in notices],
    )


def notification(notice: IncidentNotice) -> NotificationView:
    """A notification, for readers."""
    return NotificationView(
        id=notice.id,
        at=notice.at,
        change=notice.change,
        severity=notice.severity,
        headline=notice.headline,
        sinks=notice.sinks,
        acknowledged=notice.acknowledged,
    )


def _of_incident(alert: Alert) -> IncidentAlert:
    stream = alert.key.stream
    return IncidentAlert(
        id=alert.episode,
        fingerprint=alert.fingerprint,
        name=alert.name,
        state=alert.state,
        severity=alert.severity,
        metric=stream.metric,
        type=alert.key.kind,
        dimension=stream.dimension,
        value=stream.value,
        sentence=alert.evidence.sentence if alert.evidence else "",
        fired_at=alert.fired_at,
        ended_at=alert.ended_at,
        notified_at=alert.notified_at,
        inhibited_by=alert.inhibited_by,
        explained_by=alert.explained_by,
        silenced_by=alert.silenced_by,
        leads=alert.leads,
    )


def _beyond(alert: Alert) -> float | None:
    """Losses beyond what was expected, since the change or over the rule's window."""
    observed, reference = alert.finding.observed, alert.finding.reference
    if observed is None or reference is None or alert.key.kind == "no_data":
        return None
    return max(0.0, observed.n * (observed.mean - reference.mean))


def transition(event: AlertEvent) -> TransitionView:
    """One step of an alert's life, for readers."""
    return TransitionView(id=event.id, at=event.at, change=event.change, notified=event.is_named)


def _level(measured: Measured | None, *, good: bool) -> LevelEstimate | None:
    """A mean loss as a report would state it."""
    if measured is None:
        return None
    lower, mean, upper = measured.lower, measured.mean, measured.upper
    if good:
        lower, mean, upper = 1.0 - upper, 1.0 - mean, 1.0 - lower
    return LevelEstimate(estimate=mean, lower=lower, upper=upper, samples=measured.n)


def _linked(evidence: Evidence | None, alert: Alert, links: Links) -> LinkedEvidence | None:
    if evidence is None:
        return None
    worst = tuple(
        LinkedQuery(**asdict(query), url=links.query(query.query_id)) for query in evidence.worst
    )
    paths = {"worst": worst, "runbook": links.runbook(alert)}
    return LinkedEvidence(**asdict(evidence) | paths, failing_queries=links.failing(alert))
