"""Alerts on a terminal: what is notified in a line each, one of them with all its evidence."""

import pytest
from msgspec.structs import replace
from rich.console import Console

from ragmon.alerts import Alert, Evidence, ModeShift, SliceShare, WorstQuery
from ragmon.alerts.as_json import LevelEstimate, describe
from ragmon.alerts.message import Links
from ragmon.cli.alert_view import alert_view, open_view
from ragmon.detectors import AlertKey, Finding, Measured, StreamKey
from tests.support.examples import NOON

LINKS = Links("https://ragmon.example", "https://runbooks.example")
EVIDENCE = Evidence(
    sentence="hit rate of docs fell to 80 % (expected 90 %) since 12:00 UTC",
    detail="measured on 50 queries, the true rate is likely 70–90 %",
    slices=(SliceShare("tenant", "acme", 40.0, 0.4, 0.1, 0.9),),
    modes=(ModeShift("retrieval", 0.1, 0.3), ModeShift("ranking", 0.023, 0.022)),
    remedies=("Check index coverage",),
    runbook="runbooks/RagmonHitRate.md",
    worst=(WorstQuery("q1", "where is it?", "no relevant chunk on top"), WorstQuery("q2", "", "x")),
)


def alert(state="firing", cause="", silence="", **fields) -> Alert:
    key = AlertKey("anomaly", StreamKey("docs", "hit"))
    finding = Finding(
        alert=key,
        status="bad",
        observed=Measured(0.2, 0.1, 0.3, 50.0),
        reference=Measured(0.1, 0.05, 0.15, 900.0),
        tolerated=0.12,
    )
    return Alert(
        key=key, name="RagmonHitRate", state=state, severity="warning", began_at=NOON,
        fired_at=NOON, bad_at=NOON, inhibited_by=cause, silenced_by=silence, finding=finding,
        evidence=EVIDENCE, **fields,
    )  # fmt: skip


def text(view) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        pytest.param([], ["No alert is open."], id="nothing"),
        pytest.param(
            [alert(), alert(cause="c"), alert("pending")],
            [
                "hit rate of docs fell to 80 % (expected 90 %) since 12:00 UTC\n",
                "  measured on 50 queries, the true rate is likely 70–90 %",
                "  RagmonHitRate, warning, firing, since 2023-11-15 12:00 UTC",
                "2 more are pending or inhibited by another alert.",
            ],
            id="what is notified",
        ),
        pytest.param(
            [alert("no_data", silence="s1")],
            ["warning, no data, since 2023-11-15 12:00 UTC, silenced by s1"],
            id="silenced",
        ),
    ],
)
def test_open_alerts(alerts, said):
    shown = text(open_view([describe(each, LINKS) for each in alerts]))
    assert [line for line in said if line not in shown] == []


def test_the_graver_alerts_come_first():
    found = [describe(alert(), LINKS), replace(describe(alert(), LINKS), severity="critical")]
    shown = text(open_view(found))
    assert shown.index("critical") < shown.index("warning")


def test_a_backfilled_alert_says_that_no_notification_was_sent():
    past = describe(alert("resolved", silence="history", ended_at=NOON + 600.0), LINKS)
    shown = text(alert_view(past))
    assert "fired 2023-11-15 12:00 UTC, backfilled, no notification sent" in shown
    assert "silenced" not in shown
    still = text(alert_view(describe(alert(silence="history"), LINKS)))
    assert "firing, since 2023-11-15 12:00 UTC, backfilled, no notification sent" in still


def test_one_with_its_evidence():
    shown = text(alert_view(describe(alert("resolved", ended_at=NOON + 600.0), LINKS)))
    assert [line.strip() for line in shown.splitlines() if line.strip()] == [
        "Resolved: hit rate of docs fell to 80 % (expected 90 %) since 12:00 UTC",
        "measured on 50 queries, the true rate is likely 70–90 %",
        "RagmonHitRate, warning, resolved, fired 2023-11-15 12:00 UTC",
        "Driven by: tenant acme (90 %)",
        "Failure modes: retrieval 10 % → 30 %",
        "Runbook: https://runbooks.example/RagmonHitRate.md",
        "Ended: 2023-11-15 12:10 UTC",
        "Worst queries",
        "where is it?: no relevant chunk on top",
        "q2: x",
        "What to try",
        "1. Check index coverage",
    ]


def test_shares_are_those_that_people_speak_of():
    view = describe(alert(), LINKS)
    assert view.what == "hit rate"
    assert view.observed == LevelEstimate(estimate=0.8, lower=0.7, upper=0.9, samples=50.0)
    assert view.reference.estimate == pytest.approx(0.9)
    assert view.tolerated == pytest.approx(0.88)
    assert view.evidence.worst[0].url == "https://ragmon.example/v1/queries/q1"
