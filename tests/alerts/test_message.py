"""An alert in words: everything a person on call needs, and nothing that is not known."""

import pytest
from msgspec.structs import replace

from ragmon.alerts.message import Links, annotations, clip, message, plain, rfc3339
from ragmon.detectors import Measured
from tests.support.alerts import LINKS, NOW, alert, event, finding, rich_alert
from tests.support.golden import same

SILENT = finding(
    "traffic",
    "no_data",
    observed=None,
    reference=Measured(340.0, 340.0, 340.0, 340.0),
    reference_text="at the rate of the same hour on past days",
    changed_at=NOW - 600.0,
    evidence=None,
)
LIMIT = finding(
    "slow",
    "threshold",
    part=("version", "2026.2"),
    reference=None,
    reference_text="(limit of the rule)",
    tolerated=0.2,
    changed_at=None,
    window_s=900.0,
    evidence=None,
    guarantee="",
)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("firing", event("firing", rich_alert())),
        ("renotified", event("renotified", rich_alert(), NOW + 4 * 3_600.0)),
        ("resolved", event("resolved", rich_alert(), NOW + 2_580.0)),
        ("no_data", event("firing", alert(SILENT, "RagmonNoTraffic"))),
        ("limit", event("firing", alert(LIMIT, "RagmonSlow"))),
    ],
)
def test_golden_texts(name, told):
    same(f"alert_{name}.txt", plain(message(told, LINKS)))


def test_annotations_are_said_again_when_it_is_over():
    begun = rich_alert()
    over = event("resolved", begun, NOW + 600.0).alert
    first, last = annotations(begun, LINKS), annotations(over, LINKS)
    assert "What to try" in first["description"]
    assert first["runbook_url"] == "https://docs.example.org/runbooks/RagmonHitRate.md"
    assert last == first | {"over_since": "2025-02-19 21:30 UTC, after 10 min"}
    assert all(name.isidentifier() for name in last)


def test_annotations_do_not_change_while_it_is_open():
    later = replace(rich_alert(), bad_at=NOW + 3_600.0, notified_at=NOW + 3_600.0)
    assert annotations(later, LINKS) == annotations(rich_alert(), LINKS)


@pytest.mark.parametrize(
    ("metric", "failing"),
    [
        ("hit", "miss"),
        ("zero_result", "zero_result"),
        ("faithfulness", "unfaithful"),
        ("positive_feedback", "disliked"),
        ("latency_p50", "slow"),
        ("mode_ranking", "ranking"),
        ("attribution", None),
    ],
)
def test_a_link_leads_to_the_failing_queries(metric, failing):
    url = LINKS.failing(alert(finding(metric, pipeline="a&b")))
    since = int(NOW - 1_080)
    asked = f"?failing={failing}&pipeline=a%26b&since={since}"
    assert url == (failing and f"https://ragmon.example.org/v1/queries{asked}")


def test_nothing_fails_where_nothing_is_asked():
    assert LINKS.failing(alert(SILENT, "RagmonNoTraffic")) is None
    assert LINKS.runbook(alert(evidence=None)) is None


def test_the_failing_links_name_what_the_api_knows():
    from ragmon.alerts import message as module
    from ragmon.config import Settings
    from ragmon.daemon.build import build_pipeline
    from ragmon.queries import failures

    known = failures(build_pipeline(Settings()))
    assert set(module._FAILING.values()) <= set(known)


def test_ids_cannot_leave_their_place_in_a_link():
    assert Links("http://x", "").query("a/b?c d:1") == "http://x/v1/queries/a%2Fb%3Fc%20d:1"


@pytest.mark.parametrize(
    ("when", "text"), [(NOW, "2025-02-19T21:20:00Z"), (NOW + 0.25, "2025-02-19T21:20:00.250Z")]
)
def test_times_are_rfc_3339(when, text):
    assert rfc3339(when) == text


def test_clipped_texts_show_it():
    assert (clip("four", 4), clip("fives", 4)) == ("four", "fiv…")
