"""An alert as plain data, for the API, the report and the page."""

from typing import Any

from msgspec import to_builtins

from ragmon.alerts import Alert, AlertEvent, Evidence
from ragmon.alerts.message import Links
from ragmon.detectors import Measured
from ragmon.detectors.losses import INDEX, LOSSES


def describe(alert: Alert, links: Links) -> dict[str, Any]:
    """All fields of an alert; shares are good shares such as a hit rate, not losses."""
    stream, finding = alert.key.stream, alert.finding
    loss = LOSSES[INDEX[stream.metric]]
    good = bool(loss.good)
    tolerated = 1.0 - finding.tolerated if good else finding.tolerated
    return {
        "id": alert.episode,
        "fingerprint": alert.fingerprint,
        "name": alert.name,
        "state": alert.state,
        "severity": alert.severity,
        "pipeline": stream.pipeline,
        "metric": stream.metric,
        "type": alert.key.kind,
        "rule": alert.key.rule,
        "dimension": stream.dimension,
        "value": stream.value,
        "labels": alert.labels,
        "began_at": alert.began_at,
        "fired_at": alert.fired_at,
        "ended_at": alert.ended_at,
        "notified_at": alert.notified_at,
        "inhibited_by": alert.inhibited_by,
        "silenced_by": alert.silenced_by,
        "what": loss.good or loss.bad,
        "observed": _measured(finding.observed, good=good),
        "reference": _measured(finding.reference, good=good),
        "reference_text": finding.reference_text,
        "tolerated": tolerated,
        "changed_at": finding.changed_at,
        "window_seconds": finding.window_s,
        "likelihood_ratio": finding.evidence,
        "threshold": finding.threshold,
        "guarantee": finding.guarantee,
        "evidence": _evidence(alert.evidence, alert, links),
    }


def transition(event: AlertEvent) -> dict[str, Any]:
    """One step of an alert's life."""
    return {"id": event.id, "at": event.at, "change": event.change, "notified": event.notify}


def _measured(measured: Measured | None, *, good: bool) -> dict[str, Any] | None:
    """Estimate, limits and samples; of a good share rather than of its loss."""
    if measured is None:
        return None
    lower, mean, upper = measured.lower, measured.mean, measured.upper
    if good:
        lower, mean, upper = 1.0 - upper, 1.0 - mean, 1.0 - lower
    return {"estimate": mean, "lower": lower, "upper": upper, "samples": measured.n}


def _evidence(evidence: Evidence | None, alert: Alert, links: Links) -> dict[str, Any] | None:
    if evidence is None:
        return None
    worst = [{**to_builtins(each), "url": links.query(each.query_id)} for each in evidence.worst]
    plain: dict[str, Any] = to_builtins(evidence)
    more = {"runbook": links.runbook(alert), "failing_queries": links.failing(alert)}
    return plain | {"worst": worst} | more
