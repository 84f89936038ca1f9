"""Words of an alert: its two lines, slices, remedies, group."""

import re

import numpy as np
import pytest

from ragmon.alerts import Alert, Evidence, event
from ragmon.alerts.evidence import explain
from ragmon.alerts.lines import line
from ragmon.alerts.message import Links, annotations, message, plain
from ragmon.alerts.remedies import REMEDIES, name_of, runbook_of
from ragmon.alerts.sentences import detail, sentence, share, shorten
from ragmon.detectors import AlertKey, Finding, Measured, StreamKey, rules
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.detectors.losses import DETECTED, INDEX
from tests.support.alerts import notice

NOW = 1_740_000_000.0  # 2025-02-19 21:20 UTC


def finding(metric="hit", kind="anomaly", pipeline="docs", part=("", ""), **more):
    known = {
        "observed": Measured(0.121, 0.094, 0.154, 412),
        "reference": Measured(0.07, 0.06, 0.08, 23_410),
        "reference_text": "at this hour (7 days)",
        "changed_at": NOW - 3_600.0,
        "evidence": 51_000.0,
        "threshold": 43_200.0,
        "guarantee": "one false alarm in 30 days",
    }
    alert = AlertKey(kind, StreamKey(pipeline, metric, *part))
    return Finding(alert=alert, status="bad", **(known | more))


LIMIT = {
    "reference": None,
    "reference_text": "(limit of the rule)",
    "changed_at": None,
    "window_s": 900.0,
    "evidence": None,
    "tolerated": 0.1,
    "guarantee": "none: a fixed limit",
}
OBJECTIVE = LIMIT | {
    "reference_text": "by an objective of 0.99",
    "guarantee": "the error budget of 30 days is used up in 5.0 days",
}
SILENCE = {
    "observed": Measured(0.0, 0.0, 0.0, 0.0),
    "changed_at": NOW - 300.0,
    "reference": Measured(310.0, 310.0, 310.0, 310.0),
    "reference_text": "at the rate of the same hour on past days",
    "guarantee": "at most 1 times in 30 days by chance",
}
STABLE = {"part": ("version", "2026.2-fast"), "reference_text": "in version 2026.1"}


@pytest.mark.parametrize(
    ("alerting", "first", "second"),
    [
        pytest.param(
            finding(),
            "hit rate of docs fell to 88 % (expected 93 %) since 20:20 UTC",
            "measured on 412 queries, the true rate is likely 85–91 %; "
            "93 % is the level at this hour (7 days)"
            "; a false alarm this strong is expected at most about once in 35 days",
            id="anomaly",
        ),
        pytest.param(
            finding("zero_result", evidence=9e29, changed_at=NOW - 100_000.0),
            "zero-result rate of docs rose to 12 % (expected 7 %) since 2025-02-18 17:33 UTC",
            "measured on 412 queries, the true rate is likely 9–15 %; "
            "7 % is the level at this hour (7 days); "
            "a false alarm this strong is expected less than once in 100 years",
            id="anomaly that began yesterday and is beyond doubt",
        ),
        pytest.param(
            finding("grounding", "regression", reference_text="in baseline may", evidence=8e5),
            "grounding of docs fell to 88 % (expected 93 %) since 20:20 UTC",
            "measured on 412 answers, the true rate is likely 85–91 %; "
            "93 % is the level in baseline may; "
            "a false alarm this strong is expected at most about once in 19 months",
            id="regression",
        ),
        pytest.param(
            finding("hit", "drift", reference_text="of the same hours a week before"),
            "hit rate of docs has drifted from 93 % to 88 % since about 2025-02-19",
            "measured on 412 queries, the true rate is likely 85–91 %; "
            "93 % is the level of the same hours a week before; "
            "a false alarm this strong is expected at most about once in 35 days",
            id="drift",
        ),
        pytest.param(
            finding(
                "latency_p50",
                "drift",
                typical_ms=(900.0, 1_420.0),
                part=("tenant", "acme"),
                reference_text="of the same hours a week before",
            ),
            "latency of docs has drifted from 900 ms to 1.4 s in tenant acme "
            "since about 2025-02-19",
            "typical of 412 queries; 12 % of the last day's took longer than 900 ms; "
            "900 ms is the level of the same hours a week before; "
            "a false alarm this strong is expected at most about once in 35 days",
            id="drift of a latency",
        ),
        pytest.param(
            finding("hit", "canary", **STABLE),
            "hit rate of docs fell to 88 % (expected 93 %) in version 2026.2-fast since 20:20 UTC",
            "measured on 412 queries, the true rate is likely 85–91 %; "
            "93 % is the level in version 2026.1; "
            "a version that is no worse looks this bad in at most 1 of 51,000 comparisons",
            id="canary",
        ),
        pytest.param(
            finding("slow", "threshold", **LIMIT),
            "slow-query rate of docs is 12 % (at most 10 % allowed) over the last 15 min",
            "measured on 412 queries, the true rate is likely 9–15 %; "
            "this is a fixed limit, which chance "
            "alone can exceed: `ragmon backtest` shows how often it would have fired",
            id="threshold",
        ),
        pytest.param(
            finding("hit", "slo", **OBJECTIVE),
            "hit rate of docs is 88 % (at least 90 % required) over the last 15 min",
            "measured on 412 queries, the true rate is likely 85–91 %; "
            "at least 90 % by an objective of 0.99; "
            "the error budget of 30 days is used up in 5.0 days",
            id="slo",
        ),
        pytest.param(
            finding("traffic", "no_data", **SILENCE),
            "no query of docs since 21:15 UTC (about 310 expected)",
            "about 310 queries expected meanwhile at the rate of the same hour on past days; "
            "at most 1 times in 30 days by chance",
            id="no data",
        ),
        pytest.param(
            finding("traffic", "no_data", pipeline="", part=("source", "kafka"), **SILENCE),
            "no query from source kafka since 21:15 UTC (about 310 expected)",
            "about 310 queries expected meanwhile at the rate of the same hour on past days; "
            "at most 1 times in 30 days by chance",
            id="no data of a source",
        ),
        pytest.param(
            finding("error", "threshold", **(LIMIT | {"observed": None})),
            "error rate of docs is unknown (at most 10 % allowed) over the last 15 min",
            "this is a fixed limit, which chance alone can exceed: `ragmon backtest` shows how "
            "often it would have fired",
            id="nothing measured",
        ),
    ],
)
def test_two_lines(alerting, first, second):
    assert sentence(alerting, NOW) == first
    assert detail(alerting) == second


def test_a_latency_is_told_in_seconds():
    alerting = finding("latency")
    assert sentence(alerting, NOW, 1_780.0) == (
        "latency of docs rose: 12 % of queries over 1.8 s (expected 7 %) since 20:20 UTC"
    )
    assert "; 1.8 s is the usual 95th percentile; " in detail(alerting, 1_780.0)
    assert "of queries over 850 ms" in sentence(finding("latency_p50"), NOW, 850.0)
    assert "slower than usual (expected 7 %)" in sentence(alerting, NOW)  # not learned yet


KINDS = {
    "anomaly": {},
    "regression": {"reference_text": "in baseline before the move"},
    "drift": {"reference_text": "of the same hours a week before"},
    "canary": {"part": ("version", "2026.2-fast")},
    "threshold": LIMIT,
    "slo": OBJECTIVE | {"tolerated": 1.44},
    "no_data": SILENCE,
}
LONG = "team-search/python-documentation-assistant-prodduction-eu-central-1-" * 3
NAMES = {
    "short": ("docs", ("", "")),
    "long pipeline": (LONG, ("", "")),
    "long slice": ("docs", ("tenant", LONG)),
    "all long": (LONG, (LONG, LONG)),
    "lines": ("two\nlines", ("tenant", "a\tb\r\nc")),
}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("metric", INDEX)
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_line_fits_every_screen(kind, metric, names):
    pipeline, part = NAMES[names]
    alerting = finding(metric, kind, **(KINDS[kind] | {"pipeline": pipeline, "part": part}))
    raised = Alert(
        key=alerting.alert,
        name="RagmonNotificationsAboutSomethingLong",
        state="firing",
        severity="critical",
        began_at=NOW,
        bad_at=NOW,
        finding=alerting,
        evidence=Evidence(
            sentence=sentence(alerting, NOW + 200_000.0, 123_456.0), detail=detail(alerting)
        ),
    )
    for change in ("opened", "grew", "renotified", "resolved"):
        made = notice(change, raised)
        first, second, *_ = plain(message(made, Links("http://x", ""))).splitlines()
        assert len(first) <= 140
        assert " since " in first
        assert not re.search(r"n=|evidence|\d : 1|false alarm", first)
        assert len(second) > 40
        assert ("…" in first) <= ("long" in names)
    sentences = raised.evidence.sentence
    assert re.search(r"expected|allowed|required|drifted from", sentences)
    assert ("…" in sentences) == ("long" in names)
    assert len(annotations(made, Links("http://x", ""))["summary"]) <= 115


def test_the_middle_of_a_long_name_goes():
    line = sentence(finding(pipeline=LONG, part=("tenant", "acme")), NOW)
    assert line == (
        "hit rate of team-search/python-do…duction-eu-central-1- fell to 88 % (expected 93 %) "
        "in tenant acme since 20:20 UTC"
    )
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 4) == "ab…g"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.0, "0 %"),
        (0.00004, "0 %"),
        (0.0054, "0.5 %"),
        (0.0046, "0.46 %"),
        (0.03, "3 %"),
        (0.07, "7 %"),
        (0.121, "12 %"),
        (0.5, "50 %"),
        (0.954, "95.4 %"),
        (0.9954, "99.54 %"),
        (1.0, "100 %"),
        (1.44, "100 %"),
    ],
)
def test_percentages_show_the_digits_that_matter(ratio, text):
    assert share(ratio) == text


def test_value_and_expected_value_never_read_the_same():
    narrow = {"observed": Measured(0.0741, 0.07, 0.08, 9e5), "reference": Measured(0.07, 0, 1, 9e6)}
    assert "fell to 92.6 % (expected 93 %)" in sentence(finding(**narrow), NOW)
    assert "rose to 7.4 % (expected 7 %)" in sentence(finding("error", **narrow), NOW)


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
    assert evidence.sentence.startswith("hit rate of docs fell to 75 % (expected 92 %) since ")
    assert evidence.detail.startswith("measured on 400 queries, ")
    assert evidence.runbook == "runbooks/RagmonHitRate.md"


@pytest.mark.parametrize(
    ("change", "is_named", "expected"),
    [
        ("firing", True, "open"),
        ("notified", True, "open"),
        ("resolved", True, "resolve"),
        ("escalated", True, None),
        ("firing", False, None),
        ("pending", False, None),
    ],
)
def test_lines_are_what_notifications_name(change, is_named, expected):
    key = AlertKey("canary", StreamKey("docs", "latency_p50", "version", "v2"))
    alert = Alert(
        key=key,
        name=name_of(key),
        state="firing",
        severity="critical",
        began_at=NOW,
        bad_at=NOW,
        finding=finding("latency_p50"),
        notified_at=NOW if is_named else None,
        incident_id="f00d",
    )
    found = line(event(change, alert, NOW))
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
            "incident": "f00d",
        }
