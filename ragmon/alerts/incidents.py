"""Incidents: alerts that are open together, began within minutes and share a cause.

An alert joins an incident in the minute in which it fires and stays there, so each is in exactly
one. It joins that of a version that it blames; else that of the alert which explains it; else one
that it was in minutes ago; else one with an alert that is its cause or effect, or blames the same
slice, or is on the same metric of the pipeline and not of a rival slice, or on the same outage, or
on the answers of the same place, and that began within a quarter of an hour; or during which it
began as an effect; or in which a slice is worse on the metric that is worse in the whole now; else
one that it was in before. Once all that is left of an incident are effects that have not recovered
yet, nothing new joins it. Else an alert begins one.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, graver
from ragmon.alerts.inhibition import ANSWERS, DRIFT, causal_order, is_effect
from ragmon.alerts.sentences import MOST_SENTENCE, moment, shorten, symptom
from ragmon.alerts.suspects import SURE
from ragmon.detectors import Severity
from ragmon.detectors.losses import family
from ragmon.windows.series import VERSION

NEAR_S = 900.0
_NEAR_DRIFTS_S = 2 * 86_400.0
_AT_ONCE_S = 300.0  # between the beginnings of an outage in two metrics
_FLAP_S = 600.0  # between the end of an alert and its return as the same one
_UNANSWERED = frozenset({"error", "zero_result"})
_MOST_SYMPTOMS = 5
_PLAIN = ("no_data", "repeats", "test")  # kinds of alerts that compare no levels


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
    began_at: float  # unix seconds, estimated
    detected_at: float  # its first alert fired
    ended_at: float | None  # None while one of its alerts is open
    cause: IncidentCause
    headline: str
    alerts: tuple[Alert, ...]  # causes before their effects


def with_incident(alert: Alert, others: Iterable[Alert], ended: Iterable[Alert]) -> Alert:
    """The alert in its incident; one that is pending has none yet.

    Args:
        alert: an open alert.
        others: all other open alerts.
        ended: alerts that are over, of incidents that are open.
    """
    if alert.state == "pending" or alert.incident_id:
        return alert
    is_open = [each for each in others if each.incident_id]
    members = [*is_open, *ended]
    lasting = {each.incident_id for each in is_open if _is_news(each, alert)}
    explaining = [each for each in is_open if each.fingerprint == alert.inhibited_by]
    earlier = [each for each in ended if each.fingerprint == alert.fingerprint]
    related = (
        [each for each in is_open if _is_one_release(each, alert)]
        or [each for each in explaining if _began_at(alert) >= _began_at(each) - NEAR_S]
        or [each for each in earlier if _ended_at(each) >= _fired_at(alert) - _FLAP_S]
        or [each for each in members if each.incident_id in lasting and _is_related(each, alert)]
        or [each for each in members if _has_left(each, alert)]
        or explaining
        or [each for each in earlier if each.incident_id in lasting]
    )
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
    unordered = [summary(name, group, now) for name, group in members.items()]
    return sorted(unordered, key=lambda one: (one.ended_at is not None, -one.detected_at, one.id))


def summary(name: str, alerts: Sequence[Alert], now: float) -> AlertIncident:
    """Some alerts of one incident, with their cause and a headline.

    Args:
        name: id of the incident.
        alerts: at least one.
        now: unix seconds.
    """
    ordered = tuple(sorted(alerts, key=causal_order))
    ends = [alert.ended_at for alert in ordered if alert.ended_at is not None]
    cause, began_at = _cause(ordered), min(map(_began_at, _named(ordered)))
    return AlertIncident(
        id=name,
        pipeline=ordered[0].key.stream.pipeline,
        severity=max((alert.severity for alert in ordered), key=SEVERITIES.index),
        began_at=began_at,
        detected_at=min(map(_fired_at, ordered)),
        ended_at=max(ends) if len(ends) == len(ordered) else None,
        cause=cause,
        headline=_headline(cause, ordered, began_at, now),
        alerts=ordered,
    )


def _named(alerts: Sequence[Alert]) -> Sequence[Alert]:
    """Those that notifications name, or will: an effect may have a past of its own."""
    return (
        [alert for alert in alerts if alert.notified_at is not None]
        or [alert for alert in alerts if not alert.inhibited_by]
        or alerts
    )


def open_incidents(alerts: Iterable[Alert]) -> dict[Severity, int]:
    """Number of incidents by their gravest alert that is not silenced, for open alerts."""
    gravest: dict[str, Severity] = {}
    for alert in alerts:
        if alert.incident_id and not alert.silenced_by:
            known = gravest.setdefault(alert.incident_id, alert.severity)
            gravest[alert.incident_id] = max(known, alert.severity, key=SEVERITIES.index)
    return {severity: list(gravest.values()).count(severity) for severity in SEVERITIES}


def suspect(alert: Alert) -> IncidentCause:
    """The slice that one alert blames: the most likely of its pipeline's, else its own."""
    stream = alert.key.stream
    parts = alert.evidence.slices if alert.evidence else ()
    best = max(parts, key=lambda part: part.probability, default=None)
    if best is not None and best.probability >= SURE:
        return _slice(best.dimension, best.value, best.probability)
    if stream.dimension:
        return _slice(stream.dimension, stream.value, None)
    return IncidentCause(stream.pipeline)


def _slice(dimension: str, value: str, probability: float | None) -> IncidentCause:
    return IncidentCause(f"{dimension} {value}", dimension, value, probability)


def _new_id(alert: Alert) -> str:
    return hashlib.blake2b(alert.episode.encode(), digest_size=8).hexdigest()


def _is_news(one: Alert, other: Alert) -> bool:
    """True for an open alert that people know of, or will when another one fires.

    An incident without one has lost its cause: after an outage ratings stay low for a while, and
    an average over a quarter of an hour is bad for as long. What begins then is another incident,
    and people are told of it.
    """
    return one.notified_at is not None or bool(one.silenced_by) or one.fired_at == other.fired_at


def _has_left(cause: Alert, other: Alert) -> bool:
    """True for an effect that began while the cause was there, and is found after it."""
    near, begins = _near_s(cause, other), _began_at(other)
    return is_effect(other, cause) and _began_at(cause) - near <= begins <= cause.bad_at


def _lasts_until(alert: Alert) -> float:
    """Latest beginning of what may share the cause of an alert.

    The average of a window is bad for as long after the end.
    """
    return alert.bad_at - (alert.finding.window_s or 0.0) + _near_s(alert, alert)


def _is_related(one: Alert, other: Alert) -> bool:
    """True for an alert and another that fires now, if they share a cause."""
    began, begins, near = _began_at(one), _began_at(other), _near_s(one, other)
    if is_effect(other, one) and began - near <= begins <= _lasts_until(one):
        return True
    if is_effect(one, other) and begins - near <= began <= other.bad_at:
        return True  # no effect is older than its cause
    if _is_one_release(one, other) or _widens(one, other):
        return True
    if not _is_near(one, other):
        return False
    return (
        _is_one_change(one, other)
        or _is_one_outage(one, other)
        or _is_one_stage(one, other)
        or _blames_the_same(one, other)
    )


def _blames_the_same(one: Alert, other: Alert) -> bool:
    blamed, accused = suspect(one), suspect(other)
    if not blamed.dimension or one.key.stream.pipeline != other.key.stream.pipeline:
        return False
    return (blamed.dimension, blamed.value) == (accused.dimension, accused.value)


def _is_one_release(one: Alert, other: Alert) -> bool:
    """True where both blame one version: what a release broke is found at any time."""
    return suspect(one).dimension == VERSION and _blames_the_same(one, other)


def _widens(one: Alert, other: Alert) -> bool:
    """True where a metric of a slice became worse, and now that of the whole pipeline does.

    A bad version and a drift go on for days, and are no reason for a sudden change.
    """
    here, there = one.key.stream, other.key.stream
    if one.ended_at is not None or not here.dimension or there.dimension:
        return False
    lasting = one.key.kind == "canary" or (one.key.kind == DRIFT != other.key.kind)
    if lasting or here[:2] != there[:2]:
        return False
    blamed = suspect(other)
    return not blamed.dimension or _slice_blamed(other) in (_slice_of(one), _slice_blamed(one))


def _is_one_change(one: Alert, other: Alert) -> bool:
    """True where one metric of a pipeline changed at once, seen in the whole and in its parts.

    Two values of one tag are two causes: nothing says that they share one.
    """
    here, there = one.key.stream, other.key.stream
    if (here.pipeline, here.metric) != (there.pipeline, there.metric):
        return False
    rivals = here.dimension == there.dimension and here.value != there.value
    return not rivals and abs(_began_at(one) - _began_at(other)) <= _near_s(one, other)


def _is_one_outage(one: Alert, other: Alert) -> bool:
    """True where queries of a pipeline get no answer, and one of its slices failed with it.

    Clients differ in how they fail: an index that is gone is an error to one of them and an empty
    result to another. Where the whole blames another slice, there are two causes.
    """
    here, there = one.key.stream, other.key.stream
    if here.pipeline != there.pipeline or not {here.metric, there.metric} <= _UNANSWERED:
        return False
    if bool(here.dimension) == bool(there.dimension):
        return False
    whole, part = (other, one) if here.dimension else (one, other)
    blamed = suspect(whole)
    elsewhere = blamed.dimension and _slice_of(part) != (blamed.dimension, blamed.value)
    return not elsewhere and abs(_began_at(one) - _began_at(other)) <= _AT_ONCE_S


def _is_one_stage(one: Alert, other: Alert) -> bool:
    """True where answers of one place became worse in two metrics, and neither blames a slice.

    What spoils an answer shows in its citations, its grounding and what users think of it.
    """
    here, there = one.key.stream, other.key.stream
    if not {family(here.metric), family(there.metric)} <= ANSWERS:
        return False
    alike = here.pipeline == there.pipeline and here[2:] == there[2:]
    return alike and _slice_blamed(one) == _slice_blamed(other)


def _slice_blamed(alert: Alert) -> tuple[str, str]:
    blamed = suspect(alert)
    return blamed.dimension, blamed.value


def _is_near(one: Alert, other: Alert) -> bool:
    apart = (_began_at(one) - _began_at(other), _fired_at(one) - _fired_at(other))
    return min(map(abs, apart)) <= _near_s(one, other)


def _near_s(one: Alert, other: Alert) -> float:
    """Seconds apart that two beginnings may be; that of a drift is known to a day or two."""
    return _NEAR_DRIFTS_S if one.key.kind == other.key.kind == DRIFT else NEAR_S


def _began_at(alert: Alert) -> float:
    changed = alert.finding.changed_at
    return changed if changed is not None else alert.began_at


def _ended_at(alert: Alert) -> float:
    return alert.ended_at if alert.ended_at is not None else math.inf


def _fired_at(alert: Alert) -> float:
    return alert.fired_at if alert.fired_at is not None else alert.began_at


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
        if best is None or weights[best] < SURE * total:
            return IncidentCause(pipeline)
        return _slice(*best, weights[best] / total)
    slices = {_slice_blamed(alert) for alert in alerts}
    dimension, value = slices.pop() if len(slices) == 1 else ("", "")
    return _slice(dimension, value, None) if dimension else IncidentCause(pipeline)


def _headline(cause: IncidentCause, alerts: Sequence[Alert], began_at: float, now: float) -> str:
    """``version 2026.2-fast of docs is worse since 22:11 UTC: hit rate 48 % (82 %), …``.

    As many symptoms as fit into the first line of a notification.
    """
    evidence = alerts[0].evidence
    if evidence is not None and all(alert.key.kind in _PLAIN for alert in alerts):
        return evidence.sentence  # there is nothing to compare
    symptoms = _symptoms(cause, alerts)
    pipeline = alerts[0].key.stream.pipeline
    names = f"{cause.text} of {pipeline}" if cause.dimension else pipeline
    where = " ".join(names.split())
    alone = "" if cause.dimension else " (no single slice explains it)"
    for count in range(min(len(symptoms), _MOST_SYMPTOMS), 0, -1):
        more = f" and {len(symptoms) - count} more" if len(symptoms) > count else ""
        words = ", ".join(symptoms[:count]) + more
        since = moment(began_at, now)
        text = f"{where} is worse since {since}{alone}: {words}"
        if len(text) <= MOST_SENTENCE:
            return text
    most = max(1, len(where) - (len(text) - MOST_SENTENCE))
    return f"{shorten(where, most)} is worse since {since}{alone}: {words}"


def _symptoms(cause: IncidentCause, alerts: Sequence[Alert]) -> list[str]:
    """Each metric once, as measured on the cause where it was."""
    chosen: dict[str, Alert] = {}
    for alert in alerts:
        metric = alert.key.stream.metric
        if metric not in chosen or _says_more(alert, chosen[metric], cause):
            chosen[metric] = alert
    return [symptom(alert.finding) for alert in chosen.values()]


def _says_more(alert: Alert, other: Alert, cause: IncidentCause) -> bool:
    """True when the first of two alerts on a metric was measured on the cause, or is graver."""
    blamed = (cause.dimension, cause.value)
    here, there = (_slice_of(each) == blamed for each in (alert, other))
    return graver(alert.severity, other.severity) if here == there else here


def _slice_of(alert: Alert) -> tuple[str, str]:
    return alert.key.stream.dimension, alert.key.stream.value
