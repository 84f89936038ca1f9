"""Alerts as the state machine makes them, from their numbers to their worst queries."""

from typing import Any

from msgspec.structs import replace

from ragmon.alerts import (
    Alert,
    Evidence,
    MissingDocuments,
    ModeShift,
    SliceShare,
    WorstQuery,
)
from ragmon.alerts.incidents import summary
from ragmon.alerts.message import Links
from ragmon.alerts.notices import IncidentChange, IncidentNotice
from ragmon.alerts.sentences import detail, sentence
from ragmon.detectors import AlertKey, Finding, Measured, StreamKey

NOW = 1_740_000_000.0  # 2025-02-19 21:20 UTC
LINKS = Links("https://ragmon.example.org/", "https://docs.example.org/runbooks/")


def finding(metric: str = "hit", kind: str = "anomaly", **given: Any) -> Finding:
    """A fall of the hit rate, unless something else is asked for."""
    stream = StreamKey(given.pop("pipeline", "docs"), metric, *given.pop("part", ("", "")))
    known: dict[str, Any] = {
        "severity": "warning",
        "observed": Measured(0.121, 0.094, 0.154, 412),
        "reference": Measured(0.07, 0.06, 0.08, 23_410),
        "reference_text": "at this hour (7 days)",
        "changed_at": NOW - 1_080.0,
        "evidence": 51_000.0,
        "threshold": 43_200.0,
        "guarantee": "one false alarm in 30 days",
    }
    return Finding(alert=AlertKey(kind, stream), status="bad", **(known | given))


def alert(found: Finding | None = None, name: str = "RagmonHitRate", **given: Any) -> Alert:
    """A firing alert."""
    found = found or finding()
    known: dict[str, Any] = {
        "state": "firing",
        "began_at": NOW,
        "fired_at": NOW,
        "bad_at": NOW,
        "notified_at": NOW,
        "evidence": Evidence(
            sentence=sentence(found, NOW), detail=detail(found), runbook=f"runbooks/{name}.md"
        ),
    }
    return Alert(
        key=found.alert, name=name, severity=found.severity, finding=found, **(known | given)
    )


def rich_alert(**given: Any) -> Alert:
    """One with everything an alert can carry, and texts that try to break out of a message."""
    plain = alert(**given)
    assert plain.evidence is not None
    evidence = replace(
        plain.evidence,
        excess=57.4,
        slices=(
            SliceShare("tenant", "acme & <sons>", 131, 0.31, 0.08, 0.62),
            SliceShare("version", "2026.2-fast", 205, 0.2, 0.07, 0.48),
        ),
        modes=(ModeShift("retrieval", 0.021, 0.14), ModeShift("ranking", 0.03, 0.031)),
        remedies=(
            "Check index coverage: were documents removed, or not embedded again after a change?",
            "If relevant chunks are found but rank low: the reranker, query expansion",
        ),
        worst=(
            WorstQuery("q-17", "How do I reset <my|password> & token?\nnow", "no relevant chunk"),
            WorstQuery("4bf92f3577b34da6a3ce929d0e0e4736:00f067aa0ba902b7"),
        ),
        missing=MissingDocuments(2, 340, ("kb-17 <b>", "kb|18"), NOW - 600.0),
    )
    return replace(plain, evidence=evidence)


def notice(
    change: IncidentChange = "opened", of: Alert | None = None, at: float = NOW, **given: Any
) -> IncidentNotice:
    """A notification of an incident of one alert."""
    of = of or alert()
    if change == "resolved":
        of = replace(of, state="resolved", ended_at=at)
    incident_id = of.incident_id or of.fingerprint
    about = summary(incident_id, [of], at)
    known: dict[str, Any] = {
        "id": f"{incident_id}-{change}-{int(at)}",
        "at": at,
        "change": change,
        "incident_id": incident_id,
        "severity": of.severity,
        "headline": about.headline,
        "cause": about.cause,
        "symptoms": (of.evidence.sentence if of.evidence else "",),
        "alerts": 1,
        "pipelines": (of.key.stream.pipeline,),
        "labels": of.labels | {"incident_id": incident_id, "cause": about.cause.text},
        "opened_at": of.fired_at or of.began_at,
        "ended_at": of.ended_at,
        "alert": of,
    }
    return IncidentNotice(**(known | given))


def story(number: int, changes: int = 2, pipeline: str = "docs") -> list[IncidentNotice]:
    """Notifications of one incident, a minute apart; the last one is of its end."""
    of = alert(finding(pipeline=pipeline, part=("tenant", f"t{number}")))
    named: list[IncidentChange] = ["opened", *(["renotified"] * (changes - 2)), "resolved"]
    return [notice(change, of, NOW + 60.0 * at) for at, change in enumerate(named[:changes])]
