"""Incidents: alerts that are open together, began within minutes and share a cause.

An alert joins an incident in the minute in which it fires, so each is in exactly one. It joins that
of the alert which explains it, else one that began within a quarter of an hour and has an alert
that is its cause or effect, or that blames the same slice; else it begins one. It stays there,
unless nobody was notified of it and an alert of another incident begins to explain it.
"""

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, graver
from ragmon.alerts.inhibition import causal_order, is_effect
from ragmon.alerts.sentences import moment, symptom
from ragmon.detectors import AlertKey, Severity

NEAR_S = 900.0
_SURE = 0.5  # probability from which a slice is named as the cause
_MOST_SYMPTOMS = 5


class IncidentCause(Struct, frozen=True):
    """The slice that most likely holds the cause; without a dimension no slice does."""

    text: str  # ``version 2026.2-fast``, or the pipeline
    dimension: str = ""
    value: str = ""
    probability: float | None = None  # that the change is this slice's, not the whole pipeline's


class AlertIncident(Struct, frozen=True, kw_only=True):
    """Alerts with one cause, from the first that fired to the end of the last."""

    id: str
    pipeline: str
    severity: Severity  # the gravest of its alerts
    notified_severity: Severity | None  # the gravest that somebody was notified of
    began_at: float  # unix seconds, estimated
    detected_at: float  # its first alert fired
    ended_at: float | None  # None while one of its alerts is open
    cause: IncidentCause
    headline: str
    alerts: tuple[Alert, ...]  # causes before their effects


def with_incident(alert: Alert, others: Iterable[Alert]) -> Alert:
    """The alert in its incident; one that is pending has none yet.

    Args:
        alert: an open alert.
        others: all other open alerts.
    """
    if alert.state == "pending":
        return alert
    members = [each for each in others if each.incident_id]
    explaining = [each for each in members if each.fingerprint == alert.inhibited_by]
    if alert.incident_id and (alert.notified_at is not None or not explaining):
        return alert
    related = explaining or [each for each in members if _is_related(each, alert)]
    first = min(related, key=lambda each: (_fired_at(each), each.key), default=None)
    return replace(alert, incident_id=first.incident_id if first else _new_id(alert))


def incidents(alerts: Iterable[Alert], now: float) -> list[AlertIncident]:
    """Alerts by incident: what is open first, then the newest.

    Args:
        alerts: open and ended ones.
        now: unix seconds; times of the same day are written without their date.
    """
    members: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.incident_id:
            members.setdefault(alert.incident_id, []).append(alert)
    unordered = [_incident(name, group, now) for name, group in members.items()]
    return sorted(unordered, key=lambda one: (one.ended_at is not None, -one.detected_at, one.id))


def open_incidents(alerts: Iterable[Alert]) -> dict[Severity, int]:
    """Number of incidents by their gravest alert that is not silenced, for open alerts."""
    gravest: dict[str, Severity] = {}
    for alert in alerts:
        if alert.incident_id and not alert.silenced_by:
            known = gravest.setdefault(alert.incident_id, alert.severity)
            gravest[alert.incident_id] = max(known, alert.severity, key=SEVERITIES.index)
    return {severity: list(gravest.values()).count(severity) for severity in SEVERITIES}


def suspect(alert: Alert) -> IncidentCause:
    """The slice that one alert blames: its own, or the most likely of its pipeline's."""
    stream = alert.key.stream
    if stream.dimension:
        return _slice(stream.dimension, stream.value, None)
    parts = alert.evidence.slices if alert.evidence else ()
    best = max(parts, key=lambda part: part.probability, default=None)
    if best is None or best.probability < _SURE:
        return IncidentCause(stream.pipeline)
    return _slice(best.dimension, best.value, best.probability)


def _slice(dimension: str, value: str, probability: float | None) -> IncidentCause:
    return IncidentCause(f"{dimension} {value}", dimension, value, probability)


def _new_id(alert: Alert) -> str:
    return hashlib.blake2b(alert.episode.encode(), digest_size=8).hexdigest()


def _is_related(one: Alert, other: Alert) -> bool:
    """True for alerts that began within minutes and share a cause."""
    if not _is_near(one, other):
        return False
    if is_effect(one, other) or is_effect(other, one):
        return True
    blamed, accused = suspect(one), suspect(other)
    if not blamed.dimension or one.key.stream.pipeline != other.key.stream.pipeline:
        return False
    return (blamed.dimension, blamed.value) == (accused.dimension, accused.value)


def _is_near(one: Alert, other: Alert) -> bool:
    apart = (_began_at(one) - _began_at(other), _fired_at(one) - _fired_at(other))
    return min(map(abs, apart)) <= NEAR_S


def _began_at(alert: Alert) -> float:
    changed = alert.finding.changed_at
    return changed if changed is not None else alert.began_at


def _fired_at(alert: Alert) -> float:
    return alert.fired_at if alert.fired_at is not None else alert.began_at


def _incident(name: str, alerts: list[Alert], now: float) -> AlertIncident:
    ordered = tuple(sorted(alerts, key=causal_order))
    ends = [alert.ended_at for alert in ordered if alert.ended_at is not None]
    cause, began_at = _cause(ordered), min(map(_began_at, ordered))
    known = [alert.known_severity for alert in ordered if alert.known_severity is not None]
    return AlertIncident(
        id=name,
        pipeline=ordered[0].key.stream.pipeline,
        severity=max((alert.severity for alert in ordered), key=SEVERITIES.index),
        notified_severity=max(known, key=SEVERITIES.index, default=None),
        began_at=began_at,
        detected_at=min(map(_fired_at, ordered)),
        ended_at=max(ends) if len(ends) == len(ordered) else None,
        cause=cause,
        headline=_headline(cause, ordered, began_at, now),
        alerts=ordered,
    )


def _cause(alerts: Sequence[Alert]) -> IncidentCause:
    """The slice with the largest probability, weighted by the excess that each alert explains."""
    weights: dict[tuple[str, str], float] = {}
    total = 0.0
    for alert in alerts:
        evidence = alert.evidence
        if alert.key.stream.dimension or evidence is None or not evidence.excess:
            continue
        total += evidence.excess
        for part in evidence.slices:
            key = (part.dimension, part.value)
            weights[key] = weights.get(key, 0.0) + part.probability * evidence.excess
    pipeline = alerts[0].key.stream.pipeline
    if total > 0.0:
        best = max(sorted(weights), key=lambda key: weights[key], default=None)
        if best is None or weights[best] < _SURE * total:
            return IncidentCause(pipeline)
        return _slice(*best, weights[best] / total)
    slices = {alert.key.stream[2:] for alert in alerts}
    dimension, value = slices.pop() if len(slices) == 1 else ("", "")
    return _slice(dimension, value, None) if dimension else IncidentCause(pipeline)


def _headline(cause: IncidentCause, alerts: Sequence[Alert], began_at: float, now: float) -> str:
    """``version 2026.2-fast is worse since 22:11 UTC: hit rate 48 % (82 %), …``."""
    chosen: dict[str, Alert] = {}
    for alert in alerts:
        metric = alert.key.stream.metric
        if metric not in chosen or _says_more(alert, chosen[metric], cause):
            chosen[metric] = alert
    symptoms = [symptom(alert.finding) for alert in chosen.values()]
    more = f" and {len(symptoms) - _MOST_SYMPTOMS} more" if len(symptoms) > _MOST_SYMPTOMS else ""
    words = ", ".join(symptoms[:_MOST_SYMPTOMS]) + more
    pipeline = alerts[0].key.stream.pipeline
    where = f"{cause.text} of {pipeline}" if cause.dimension else pipeline
    alone = "" if cause.dimension else " (no single slice explains it)"
    return f"{where} is worse since {moment(began_at, now)}{alone}: {words}"


def _says_more(alert: Alert, other: Alert, cause: IncidentCause) -> bool:
    """True when the first of two alerts on a metric was measured on the cause, or is graver."""
    blamed = (cause.dimension, cause.value)
    here, there = (_place(each.key) == blamed for each in (alert, other))
    return graver(alert.severity, other.severity) if here == there else here


def _place(key: AlertKey) -> tuple[str, str]:
    return key.stream.dimension, key.stream.value
