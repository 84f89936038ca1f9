"""The page of an incident: what, since when, where, how sure, and what to try."""

import asyncio
import re

import pytest
from msgspec.structs import asdict, replace
from starlette.requests import Request

from ragmon.alerts import event
from ragmon.alerts.as_json import describe, describe_incident, transition
from ragmon.alerts.incidents import incidents
from ragmon.api_schema import AlertDetail, LostNotification, NotificationQueue
from ragmon.asgi import Problem
from ragmon.clock import ManualClock
from ragmon.daemon.metric_series import LiveSeries
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.incident import IncidentSection, around, onset
from ragmon.web.pages.rendering import Renderer
from tests.support.alerts import LINKS, NOW, finding, notice, rich_alert
from tests.support.alerts import alert as raised
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"


def sent(count: int, ago: float, **fields) -> list[dict]:
    known = {
        "pipeline": "docs",
        "timestamp": NOW - ago,
        "chunks": [{"id": "a"}],
        "relevant_ids": ["a"],
        "tags": {"tenant": "acme & <sons>"},
    }
    return [known | fields for _ in range(count)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("incident")
    with running(folder / "data", ManualClock(NOW), slices="tenant") as site:
        site.post("/v1/queries", sent(200, 5_000))
        site.post("/v1/queries", sent(100, 600, chunks=[{"id": "b"}]))
        yield site


@pytest.mark.parametrize(
    ("asked", "leads_to"),
    [
        ("pipeline=docs&alert=RagmonHitRate", "/incidents/f00d"),
        ("pipeline=docs", "/incidents/f00d"),
        ("", "/incidents/f00d"),
        ("pipeline=docs&alert=RagmonErrors", "/pipelines/docs"),
        ("pipeline=a%2F%2Fb&alert=RagmonHitRate&secret", "/pipelines/a%2F%2Fb"),
        ("alert=%3Cscript%3E", "/"),
    ],
)
def test_a_dashboard_leads_to_the_incident_of_an_alert(site, asked, leads_to):
    request = Request({"type": "http", "query_string": asked.encode(), "headers": []})
    answer = asyncio.run(section(site, rich_alert(incident_id="f00d")).incident_of(request))
    assert (answer.status_code, answer.headers["location"]) == (303, leads_to)


class KnownAlerts:
    """Alerts as a daemon would have them."""

    def __init__(self, alerts, lost=(), sinks=("pager", "chat")) -> None:
        self._alerts_by_name = {alert.episode: alert for alert in alerts}
        self._alerts_by_name |= {alert.fingerprint: alert for alert in alerts}
        self._shown = [
            describe_incident(one, [notice("escalated", one.alerts[0], sinks=sinks)])
            for one in incidents(alerts, NOW)
        ]
        self._lost = list(lost)

    def now(self) -> float:
        return NOW

    async def incidents(self, state, pipeline, since, limit, readable=None):
        return [
            one
            for one in self._shown
            if pipeline in ("", one.pipeline) and (readable is None or readable(one.pipeline))
        ]

    async def alert(self, name):
        alert = self._alerts_by_name[name]
        events = [event("firing", alert, NOW - 60), event("escalated", alert, NOW)]
        return AlertDetail(
            **asdict(describe(alert, LINKS)), transitions=[transition(each) for each in events]
        )

    async def silences(self):
        return []

    async def undelivered(self, limit):
        return NotificationQueue(
            waiting=0, oldest_at=None, given_up=len(self._lost), dead_letters=self._lost
        )


def section(site, *alerts, **fields) -> IncidentSection:
    series = LiveSeries(site.daemon._engine, site.daemon._clock, query_timeout_s=10.0)
    return IncidentSection(series, KnownAlerts(alerts, **fields), Renderer(Assets()))


def shown(site, *alerts, path="incident", name="f00d", **fields) -> HtmlPage:
    request = Request({"type": "http", "query_string": b"", "headers": [],
                       "path_params": {"name": name}})  # fmt: skip
    answer = asyncio.run(getattr(section(site, *alerts, **fields), path)(request))
    page = HtmlPage(answer.body.decode())
    check_policy(page)
    return page


def alert(**fields):
    return rich_alert(incident_id="f00d", **fields)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "acme & <sons> of docs is worse since 19 Feb 21:02 UTC : hit rate 88 % (expected 93 %)",
            id="what",
        ),
        pytest.param("Since 19 Feb 21:02 UTC estimated", id="since when"),
        pytest.param("Detected 19 Feb 21:20 UTC after 18 min", id="how quickly"),
        pytest.param("Where tenant acme & <sons> of docs How sure it is there 90.0 %", id="where"),
        pytest.param("87.9 % 84.6–90.6 %", id="now"),
        pytest.param("Expected 93.0 % 92.0–94.0 % at this hour (7 days)", id="expected"),
        pytest.param(
            "a false alarm this strong is expected at most about once in 35 days", id="how sure"
        ),
        pytest.param(
            "tenant acme & <sons> 92.0 % 69.0 % 62.0 % 90.0 %", id="the slices that drive it"
        ),
        pytest.param("retrieval 2.1 % 14.0 %", id="failures by stage"),
        pytest.param(
            "2 of 340 documents are no longer retrieved since 2025-02-19 21:10 UTC",
            id="the documents that are missing",
        ),
        pytest.param("Check index coverage", id="what to try"),
        pytest.param("How do I reset <my|password> & token?", id="the worst queries"),
        pytest.param("no relevant chunk", id="why they are bad"),
        pytest.param("escalated RagmonHitRate", id="every transition"),
        pytest.param("notification sent to pager, chat : tenant acme", id="every notification"),
    ],
)
def test_it_says_in_plain_words(site, text):
    slices = alert().evidence.slices
    likely = replace(alert().evidence, slices=(replace(slices[0], probability=0.9), *slices[1:]))
    page = shown(site, replace(alert(), evidence=likely))
    assert text in page.text


def test_a_notification_that_no_sink_takes_says_so(site):
    page = shown(site, alert(), sinks=())
    assert "notification sent to no sink :" in page.text


def test_examples_are_awaited_until_some_are_there(site):
    waiting = replace(alert().evidence, lookup="waiting")
    assert "still being looked up" not in shown(site, replace(alert(), evidence=waiting)).text
    none = replace(waiting, missing=None, topics=())
    assert "still being looked up" in shown(site, replace(alert(), evidence=none)).text


def test_it_leads_on(site):
    page = shown(site, alert())
    assert "https://docs.example.org/runbooks/RagmonHitRate.md" in page.links
    assert any(link.startswith("/v1/queries?pipeline=docs&failing=miss") for link in page.links)
    assert "/pipelines/docs" in page.links
    assert any("q-17" in link for link in page.links)
    assert f"/alerts/{alert().episode}" in page.links
    assert f"alert-{alert().fingerprint}" in page.ids


def test_the_chart_has_the_change_and_the_level_expected(site):
    request = Request({"type": "http", "query_string": b"", "headers": [],
                       "path_params": {"name": "f00d"}})  # fmt: skip
    html = asyncio.run(section(site, alert()).incident(request)).body.decode()
    assert "<title>began</title>" in html
    assert "<title>detected</title>" in html
    assert 'class="expected"' in html
    assert 'data-zoom="/pipelines/docs?metric=hit%40' in html
    assert "100.0 % (97.7–100.0 %), 200 samples" in html
    assert "0.0 % (0.0–4.6 %), 100 samples" in html


def test_an_alert_has_a_page_of_its_own_by_id_and_by_fingerprint(site):
    for name in (alert().episode, alert().fingerprint):
        page = shown(site, alert(), path="alert", name=name)
        assert "RagmonHitRate : hit rate of docs" in page.text
        assert "/incidents/f00d" in page.links


def test_a_notification_that_was_given_up_is_told(site):
    letter = LostNotification(
        sink="pager", reason="410 Gone", attempts=7, given_up_at=NOW, incident="f00d",
        headline="", labels={}, id="f00d-opened", at=NOW, change="opened",
    )  # fmt: skip
    other = replace(letter, incident="another", sink="archive")
    page = shown(site, alert(), lost=[letter, other])
    assert "notification to pager : 410 Gone , after 7 attempts" in page.text
    assert "archive" not in page.text


def test_an_ended_incident_says_how_long_it_lasted(site):
    ended = alert(state="resolved", ended_at=NOW + 1_200.0)
    page = shown(site, ended)
    assert "Lasted 38 min until 19 Feb 21:40 UTC" in page.text


@pytest.mark.parametrize("path", ["incident", "alert"])
def test_what_is_unknown_is_404(site, path):
    with pytest.raises((Problem, KeyError)) as refused:
        shown(site, alert(), path=path, name="nothing")
    assert getattr(refused.value, "status", None) == 404


def test_an_alert_without_evidence_or_traffic_is_shown(site):
    found = finding("traffic", kind="no_data", pipeline="gone", observed=None, reference=None)
    page = shown(site, replace(raised(found, incident_id="f00d"), evidence=None))
    assert "gone" in page.text
    assert "svg" not in page.tags


def test_nothing_becomes_markup(site):
    found = finding("zero_result", pipeline=HOSTILE, part=("tenant", HOSTILE))
    page = shown(site, alert(found=found))
    assert "<script>alert(1)</script>" in page.text
    assert "\x1b" not in page.text


def test_the_time_shown_begins_before_the_onset_and_ends_with_now():
    view = describe(alert(), LINKS)
    span = around(view, None, NOW)
    assert span.end == NOW
    assert span.start == onset(view) - 7_200.0


def test_pages_of_a_daemon_without_incidents(site):
    assert site.get("/incidents/nothing").status == 404
    assert site.get("/alerts/nothing").status == 404


def test_few_samples_make_longer_steps_and_the_axis_stays_close(tmp_path):
    """Hit rates from 75 to 90 %: an axis from 0 would show nothing of them."""
    with running(tmp_path / "data", ManualClock(NOW), slices="tenant") as site:
        for at in range(90):
            miss = {"chunks": [{"id": "b"}]} if at % 6 == 0 else {}
            site.post("/v1/queries", sent(1, 9_000 - 100.0 * at, **miss))
        request = Request({"type": "http", "query_string": b"", "headers": [],
                           "path_params": {"name": "f00d"}})  # fmt: skip
        html = asyncio.run(section(site, alert()).incident(request)).body.decode()
    figure = re.search(r"<figure.*?</figure>", html, re.DOTALL)[0]
    samples = [int(count) for count in re.findall(r", (\d+) samples", figure)]
    assert max(samples) >= 5  # the shortest steps hold two or three
    ticks = [float(share) for share in re.findall(r">(\d+) %<", figure)]
    assert min(ticks) > 0
    assert max(ticks) <= 100
