"""What an alert says: sentence, slices, remedies, group."""

import numpy as np
import pytest

from ragmon.alerts import Alert, event
from ragmon.alerts.evidence import explain
from ragmon.alerts.grouping import groups
from ragmon.alerts.lines import line
from ragmon.alerts.remedies import REMEDIES, name_of, runbook_of
from ragmon.alerts.sentences import sentence
from ragmon.detectors import AlertKey, Finding, Measured, StreamKey, rules
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.losses import DETECTED

NOW = 1_740_000_000.0  # 2025-02-19 21:20 UTC


def finding(metric="hit", kind="anomaly", **more):
    known = {
        "observed": Measured(0.121, 0.094, 0.154, 412),
        "reference": Measured(0.07, 0.06, 0.08, 23_410),
        "reference_text": "at this hour (7 days)",
        "changed_at": NOW - 3_600.0,
        "evidence": 51_000.0,
        "threshold": 43_200.0,
        "guarantee": "one false alarm in 30 days",
    }
    alert = AlertKey(kind, StreamKey("docs", metric))
    return Finding(alert=alert, status="bad", **(known | more))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            finding(),
            (
                "docs hit rate 87.9% (84.6–90.6, n=412) since 20:20 UTC, expected 93.0% "
                "(92.0–94.0, n=23,410) at this hour (7 days); evidence 51,000 : 1, threshold "
                "43,200: one false alarm in 30 days"
            ),
        ),
        (
            finding(
                "slow",
                "threshold",
                reference=None,
                reference_text="by a limit of 0.2",
                changed_at=None,
                window_s=900.0,
                evidence=None,
                tolerated=0.2,
            ),
            (
                "docs slow rate 12.1% (9.4–15.4, n=412) over the last 15 min, at most 20.0% by a "
                "limit of 0.2"
            ),
        ),
        (
            finding(
                "traffic",
                "no_data",
                changed_at=NOW - 300.0,
                reference=Measured(310.0, 310.0, 310.0, 310.0),
                reference_text="expected meanwhile",
            ),
            "docs: no query since 21:15 UTC, about 310 expected meanwhile",
        ),
    ],
    ids=["anomaly", "threshold", "no data"],
)
def test_sentences(found, expected):
    assert sentence(found, NOW) == expected


def test_every_metric_that_is_watched_has_remedies():
    assert set(DETECTED) <= set(REMEDIES)
    assert all(len(each.tries) >= 2 for each in REMEDIES.values())
    names = [each.name for each in REMEDIES.values()]
    assert len(set(names)) == len(names)


def test_silence_of_ratings_is_another_alert_than_bad_ratings():
    keys = [AlertKey(kind, StreamKey("docs", "positive_feedback")) for kind in ("no_data", "slo")]
    assert [name_of(key) for key in keys] == ["RagmonNoFeedback", "RagmonFeedback"]
    assert runbook_of(keys[0]) == "runbooks/RagmonNoFeedback.md"


def test_evidence_names_the_slice_and_the_stage():
    detection = Detection([], rules.build([{"kind": "anomaly"}]), DetectionOptions(lag_s=0.0))
    start = 29_000_160
    detection.begin(start * 60.0)
    whole, mode = StreamKey("docs", "hit"), StreamKey("docs", "mode_retrieval")
    acme, rest = (StreamKey("docs", "hit", "tenant", name) for name in ("acme", "other"))
    found = ()
    for minute in range(start, start + 1_460):
        bad = minute >= start + 1_450
        cells = {whole: 40, rest: 30, acme: 10, mode: 40}
        lost = {whole: 10 if bad else 3, rest: 2, acme: 8 if bad else 1, mode: 9 if bad else 1}
        for key, n in cells.items():
            cell = np.array([[n, lost[key], lost[key]]], dtype=float)
            detection.add(key, np.array([minute]), cell)
        (closed,) = detection.advance(minute + 1)
        found = closed.findings
    alert = next(each for each in found if each.alert.stream == whole)
    evidence = explain(alert, detection, closed.now)
    assert [(each.value, round(each.share, 1)) for each in evidence.slices] == [("acme", 1.0)]
    assert evidence.excess == pytest.approx(70.0, abs=7.0)
    assert evidence.modes[0].mode == "retrieval"
    assert evidence.modes[0].since > 3 * evidence.modes[0].before
    assert "docs hit rate 75.0%" in evidence.sentence
    assert evidence.runbook == "runbooks/RagmonHitRate.md"


@pytest.mark.parametrize(
    ("change", "notify", "expected"),
    [
        ("firing", True, "open"),
        ("notified", True, "open"),
        ("resolved", True, "resolve"),
        ("renotified", True, None),
        ("firing", False, None),
        ("pending", False, None),
    ],
)
def test_lines_are_what_was_heard(change, notify, expected):
    key = AlertKey("canary", StreamKey("docs", "latency_p50", "version", "v2"))
    alert = Alert(
        key=key,
        name=name_of(key),
        state="firing",
        severity="critical",
        began_at=NOW,
        bad_at=NOW,
        finding=finding("latency_p50"),
    )
    found = line(event(change, alert, NOW, notify=notify))
    assert (found and found["event"]) == expected
    if found:
        assert found == {
            "ts": "2025-02-19T21:20:00Z",
            "pipeline": "docs",
            "metric": "latency",
            "alert": "RagmonLatencyMedian",
            "type": "canary",
            "version": "v2",
            "event": expected,
        }


def test_one_message_a_pipeline_the_cause_first():
    def alert(pipeline, metric, severity, inhibited_by=""):
        key = AlertKey("anomaly", StreamKey(pipeline, metric))
        return Alert(
            key=key,
            name=name_of(key),
            state="firing",
            severity=severity,
            began_at=NOW,
            bad_at=NOW,
            inhibited_by=inhibited_by,
            finding=finding(metric),
        )

    found = groups(
        [
            alert("docs", "hit", "critical", inhibited_by="x"),
            alert("docs", "zero_result", "warning"),
            alert("shop", "slow", "info"),
        ]
    )
    assert [each.title for each in found] == [
        "RagmonZeroResults in docs and 1 more",
        "RagmonSlow in shop",
    ]
    assert found[0].severity == "critical"
