"""Incidents from the daemon to the terminal and to a page for a review."""

import re

import pytest
from msgspec.structs import replace

from ragmon.alerts import Evidence
from ragmon.alerts.as_json import describe_incident
from ragmon.alerts.incidents import incidents
from ragmon.cli import main
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.incidents import markdown
from tests.support.alerts import NOW, notice, rich_alert
from tests.support.daemons import running


def told(**given):
    """An incident of one alert, whose text holds markup."""
    alert = rich_alert(incident_id="f00d", **given)
    evidence = replace(alert.evidence, sentence="hit rate | of <docs>\nfell")
    (one,) = incidents([replace(alert, evidence=evidence)], NOW)
    return describe_incident(one)


def test_a_page_for_a_review():
    page = markdown([told(state="resolved", ended_at=NOW + 1_200.0)])
    assert page.startswith("## docs is worse since 21:02 UTC (no single slice explains it): hit")
    assert "- Detected: 2025-02-19 21:20 UTC, after 18 min" in page
    assert "- Ended: 2025-02-19 21:40 UTC, after 38 min" in page
    assert "- Bad queries beyond expected: about 21" in page
    assert "| RagmonHitRate | warning | 2025-02-19 21:20 UTC | 2025-02-19 21:20 UTC |" in page
    assert r"hit rate \| of &lt;docs>" in page


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"silenced_by": "s1", "notified_at": None}, "| silenced |"),
        (
            {"inhibited_by": "f", "explained_by": "RagmonErrors, docs", "notified_at": None},
            "| explained by RagmonErrors, docs |",
        ),
        ({"notified_at": None}, "| not named |"),
        ({}, "No notification was sent."),
        ({}, "- Ended: still open"),
    ],
)
def test_what_was_told_and_what_was_not(given, expected):
    assert expected in markdown([told(**given)])


def test_a_review_says_what_was_told_to_whom():
    alert = rich_alert(incident_id="f00d")
    (one,) = incidents([alert], NOW)
    first = notice(of=alert, sinks=("chat", "pager"))
    last = notice("resolved", alert, NOW + 600.0, severity="critical")
    view = describe_incident(one, [first, last])
    assert view.notified_severity == "critical"
    page = markdown([view])
    assert "| 2025-02-19 21:20 UTC | opened | warning | chat, pager | docs is worse" in page
    assert "| 2025-02-19 21:30 UTC | resolved | critical | no sink takes it |" in page


def test_without_incidents():
    assert markdown([]) == "No incident fits."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("incidents") / "data") as site:
        yield site


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "No incident fits.\n"),
        (("--markdown", "--state", "open"), "No incident fits.\n"),
        (("--json",), "[]\n"),
    ],
)
def test_the_command_asks_the_daemon(capsys, site, words, expected):
    assert main(["incidents", *words, "--url", site.url]) == 0
    assert capsys.readouterr().out.endswith(expected)


@pytest.mark.parametrize(
    "words",
    [
        ("incidents",),
        ("incidents", "--json"),
        ("incidents", "--markdown"),
        ("documents",),
        ("topics",),
    ],
)
def test_a_pipeline_that_does_not_exist_is_an_error(capsys, site, words):
    assert main([*words, "--pipeline", "dcos", "--url", site.url]) == ExitCode.UNUSABLE
    assert "there is no pipeline 'dcos'" in capsys.readouterr().err


def test_what_makes_no_sense_is_refused(capsys, site):
    assert main(["incidents", "--since", "yesterday", "--url", site.url]) != 0
    assert "since" in capsys.readouterr().err
    answer = site.get("/v1/incidents?state=closed")
    assert answer.status == 400
    assert re.search("open, resolved", answer.body.decode())


def test_an_alert_without_evidence_has_an_empty_sentence():
    alert = replace(rich_alert(incident_id="f00d"), evidence=Evidence(sentence=""))
    (one,) = incidents([alert], NOW)
    assert describe_incident(one).alerts[0].sentence == ""
