"""Alerts as Prometheus sees them: what people were told of, and what is kept from them."""

import pytest

from ragmon.alerts.machine import AlertBook
from ragmon.detectors.detection import Detection
from ragmon.detectors.rules import DEFAULT_RULES, build
from ragmon.exposition.alerts import AlertMetrics
from tests.support.alerts import alert, finding


def states(*alerts):
    """Value by state of every alert that is not at 0."""
    metrics = AlertMetrics()
    metrics.show(AlertBook(open=alerts), Detection(("error",), build(DEFAULT_RULES)))
    (family,) = (each for each in metrics.collect() if each.name == "ragmon_alert_state")
    return {each.labels["state"]: each.value for each in family.samples if each.value}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"leads": True}, {"active": 2.0}, id="its incident is known by it"),
        pytest.param({"state": "pending", "notified_at": None}, {"active": 1.0}, id="pending"),
        pytest.param({"silenced_by": "s1"}, {"suppressed": 2.0}, id="named, then silenced"),
        pytest.param({"inhibited_by": "f00d", "notified_at": None}, {"suppressed": 2.0},
                     id="explained and never told"),
        pytest.param({}, {"suppressed": 2.0}, id="named, but another one leads"),
    ],
)  # fmt: skip
def test_heard_and_muted_are_told_apart(given, expected):
    assert states(alert(**given)) == expected


def test_of_alerts_with_the_same_labels_each_state_has_its_gravest():
    muted = alert(finding(part=("tenant", "acme")), inhibited_by="f00d", notified_at=None)
    assert states(alert(leads=True), muted) == {"active": 2.0, "suppressed": 2.0}


def test_searches_for_evidence_that_ended_are_counted_by_outcome():
    metrics = AlertMetrics()
    metrics.count_lookups(["done", "waiting", "skipped", "skipped", "none"])
    (family,) = (each for each in metrics.collect() if each.name == "ragmon_evidence_lookups")
    assert {each.labels["outcome"]: each.value for each in family.samples} == {
        "done": 1.0, "part": 0.0, "skipped": 2.0,
    }  # fmt: skip


def test_open_incidents_by_severity():
    metrics = AlertMetrics()
    one = alert(incident_id="a")
    book = AlertBook(open=(one, alert(finding("slow"), incident_id="b", silenced_by="s1")))
    metrics.show(book, Detection(("error",), build(DEFAULT_RULES)))
    (family,) = (each for each in metrics.collect() if each.name == "ragmon_incident_open")
    assert {each.labels["severity"]: each.value for each in family.samples} == {
        "info": 0.0, "warning": 1.0, "critical": 0.0,
    }  # fmt: skip
