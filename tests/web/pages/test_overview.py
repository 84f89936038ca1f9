"""The overview: one look tells whether retrieval and answers are well."""

import asyncio
import re

import pytest
from msgspec.structs import replace
from starlette.requests import Request

from ragmon.alerts.as_json import IncidentView, describe, describe_incident
from ragmon.alerts.incidents import incidents
from ragmon.clock import ManualClock
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.page_data import LivePages
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.overview import OverviewSection
from ragmon.web.pages.rendering import HEADERS, Renderer
from tests.support.alerts import LINKS, finding
from tests.support.alerts import alert as raised
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

NOW = 1_750_000_000.0
WEEK_S = 7 * 86_400.0
HOSTILE = "<script>alert(1)</script>\"'&\u202eRTL\x1b[31mred"


def sent(count: int, at: float, **fields) -> list[dict]:
    """Queries of one moment."""
    known = {"pipeline": "shop", "timestamp": at, "chunks": [{"id": "a"}], "latency_ms": 120}
    return [known | fields for _ in range(count)]


@pytest.fixture
def site(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW), retention__records="9d") as site:
        yield site


def overview(site, query: str = "") -> HtmlPage:
    page = HtmlPage(site.get(f"/{query}").text)
    check_policy(page)
    return page


def test_each_pipeline_has_a_row_with_metrics_and_intervals(site):
    site.post("/v1/queries", [*sent(3, NOW - 60), *sent(1, NOW - 60, chunks=[])])
    answer = site.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    page = overview(site)
    for shown in ("All is well", "shop", "Zero results", "25.0 %", "1.3–78.1 %", "120 ms"):
        assert shown in page.text
    assert page.tags.count("svg") == 4  # queries, zero results, errors, latency
    assert "Liked" not in page.text  # nobody rated


def test_a_change_since_a_week_ago_is_told_from_chance(site):
    before = [*sent(400, NOW - WEEK_S - 60), *sent(8, NOW - WEEK_S - 60, chunks=[])]
    site.post("/v1/queries", before)
    site.post("/v1/queries", [*sent(200, NOW - 60), *sent(200, NOW - 60, chunks=[])])
    page = HtmlPage(site.get("/").text)
    changes = [
        (kind, page.attributes[at + 1][2])
        for at, (tag, name, kind) in enumerate(page.attributes)
        if tag == "span" and name == "class" and kind.startswith("change")
    ]
    assert ("change bad", "a week ago 2.0 %: more than chance") in changes
    assert ("change same", "a week ago 0.0 %: no more than chance") in changes
    assert "+48.0 pt" in page.text
    assert "-2 %" in page.text  # 400 queries after 408


def test_its_links_lead_somewhere(site):
    site.post("/v1/queries", sent(1, NOW - 60, pipeline="links & 100%/+?#"))
    page = overview(site)
    assert len(page.links) >= 8
    for link in page.links:
        if not link.startswith("#"):
            assert site.get(link).status == 200, link
    (row,) = [link for link in page.links if "100" in link]
    assert "links & 100%/+?#" in HtmlPage(site.get(row).text).text


def test_what_it_loads_never_changes_at_its_address(site):
    page = overview(site)
    assert len(page.loaded) >= 3
    for address in set(page.loaded):
        answer = site.get(address)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        other = re.sub("/static/.", "/static/x", address)
        assert site.get(other).status == 404


def test_the_icon_is_found_by_the_name_that_browsers_guess(site):
    answer = site.get("/favicon.ico")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert "<svg" in answer.text
    assert "immutable" not in answer.headers["cache-control"]  # its name does not change


def test_everything_it_needs_is_small(site):
    many = [
        query
        for at in range(20)
        for query in sent(
            5, NOW - 600 * at, pipeline=f"pipeline-{at}", error="x" if at % 2 else None
        )
    ]
    site.post("/v1/queries", many)
    page = overview(site)
    addresses = ["/", *set(page.loaded)]
    answers = [site.get(address, **{"accept-encoding": "gzip"}) for address in addresses]
    sizes = [int(answer.headers["content-length"]) for answer in answers]  # as it is sent
    assert sum(sizes) <= 60_000, dict(zip(addresses, sizes, strict=True))


def test_no_foreign_script_may_run_and_no_copy_is_kept(site):
    headers = site.get("/").headers
    policy = headers["content-security-policy"]
    assert policy == HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"


def test_an_empty_store_says_what_to_do(site):
    page = overview(site)
    assert "No queries yet" in page.text
    assert "POST /v1/queries" in page.text
    assert "never" in page.text


@pytest.mark.parametrize("window", ["5m", "1h", "24h", "7d"])
def test_every_window_can_be_chosen(site, window):
    site.post("/v1/queries", sent(2, NOW - 240))
    page = overview(site, f"?window={window}")
    assert "The last 2h" in overview(site, "?window=2h").text
    addresses = {"/", "/?window=5m", "/?window=24h", "/?window=7d"}
    assert addresses <= set(page.links)
    assert f"The last {window} of each pipeline" in page.text


@pytest.mark.parametrize("window", ["<b>", "8d", "1s", "1", ""])
def test_a_window_that_makes_no_sense_is_refused(site, window):
    assert site.get(f"/?window={window}").status == 400


def test_nothing_a_client_sends_becomes_markup(site):
    long = "x" * 100_000
    hostile = {"pipeline": HOSTILE, "version": HOSTILE, "error": HOSTILE, "query": long}
    site.post("/v1/queries", sent(3, NOW - 90_000, pipeline=HOSTILE))
    site.post("/v1/queries", sent(2, NOW - 60, **hostile))
    page = overview(site)
    assert "<script>alert(1)</script>\"'&" in page.text
    assert "\x1b" not in page.text
    bdi = [at for at, tag in enumerate(page.tags) if tag == "bdi"]
    assert len(bdi) >= 2  # its direction ends with it
    assert long not in page.text


def test_changes_of_the_week_are_listed(site):
    site.post("/v1/queries", sent(2, NOW - 2 * 86_400, version="v1"))
    site.post("/v1/queries", sent(2, NOW - 1_800, version="v2"))
    silence = {"matchers": [{"name": "pipeline", "value": "shop"}], "duration": "2h"}
    assert site.post("/v1/silences", silence).status == 201
    page = overview(site)
    listed = page.text.partition("Changed lately")[2]
    assert "v2 first seen in shop" in listed
    assert "v1" not in listed  # the pipeline began with it
    assert "pipeline=shop is active" in listed
    assert "restart" in listed


def test_a_token_for_some_pipelines_sees_these_alone(tmp_path):
    tokens = [
        {"name": "all", "token": "a" * 20, "scopes": ["admin"]},
        {"name": "some", "token": "s" * 20, "scopes": ["read"], "pipelines": ["shop"]},
    ]
    with running(tmp_path / "data", ManualClock(NOW), auth__tokens=tokens) as site:
        everything, some = site.with_token("a" * 20), site.with_token("s" * 20)
        hidden = [*sent(2, NOW - 60), *sent(2, NOW - 60, pipeline="hidden", version="secret")]
        everything.post("/v1/queries", sent(2, NOW - 86_400, pipeline="hidden"))
        everything.post("/v1/queries", hidden)
        assert "hidden" in overview(everything).text
        page = overview(some)
        assert "shop" in page.text
        assert "hidden" not in page.text
        assert "secret" not in page.text
        assert "restart" not in page.text
        assert site.get("/").status == 401
        assert site.get(page.loaded[0]).status == 200  # a style sheet is no secret


def test_what_keeps_ragmon_from_being_ready_is_shown(site, monkeypatch):
    monkeypatch.setattr(LiveMonitor, "problems", lambda _: ["no space left for <data>"])
    page = overview(site)
    assert "not ready : no space left for <data>" in page.text


# ---------------------------------------------------------------------- incidents


class FakeAlerts:
    """Some incidents and alerts."""

    def __init__(self, shown: list[IncidentView], alerts=()) -> None:
        self._shown = shown
        self._alerts = list(alerts)

    async def incidents(self, *_):
        return self._shown

    async def alerts(self, *_):
        return self._alerts

    async def silences(self):
        return []


def shown_with(site, alerts) -> HtmlPage:
    """The overview of a daemon whose alerts are these."""
    daemon = site.daemon
    views = [describe(alert, LINKS) for alert in alerts]
    told = [describe_incident(incident) for incident in incidents(alerts, NOW)]
    pages = LivePages(
        daemon._engine, daemon._clock, daemon._access.audit, daemon._monitor, query_timeout_s=20.0
    )
    section = OverviewSection(pages, FakeAlerts(told, views), daemon._baselines, Renderer(Assets()))
    request = Request({"type": "http", "query_string": b"", "headers": []})
    answer = asyncio.run(section.overview(request))
    page = HtmlPage(answer.body.decode())
    check_policy(page)
    return page


def alert(**fields):
    """An alert of an incident."""
    found = finding("zero_result", pipeline="shop & co")
    return replace(raised(found, incident_id="f00d"), **fields)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        pytest.param({}, "1 open incident", id="counted"),
        pytest.param({}, "shop & co is worse since", id="what, where and since when"),
        pytest.param({}, "zero-result rate 12 % (expected 7 %)", id="how much"),
        pytest.param({}, "RagmonHitRate warning, firing", id="its alerts"),
        pytest.param({"state": "no_data"}, "warning, no data", id="silence does not end it"),
        pytest.param({"silenced_by": "deploy"}, "silenced by deploy", id="silenced"),
        pytest.param(
            {"silenced_by": "history"}, "backfilled, no notification sent", id="backfilled"
        ),
        pytest.param({"inhibited_by": "beef"}, "inhibited", id="a symptom"),
    ],
)
def test_open_incidents_are_on_top(site, fields, shown):
    page = shown_with(site, [alert(**fields)])
    assert shown in page.text
    assert f"alert-{alert().fingerprint}" in page.ids  # where notifications link to


def test_a_pending_alert_is_shown_and_is_no_incident(site):
    page = shown_with(site, [alert(state="pending", incident_id="", fired_at=None)])
    assert "open incident" not in page.text
    assert f"alert-{alert().fingerprint}" in page.ids
    assert "pending" in page.text


def test_an_incident_with_hostile_texts_is_text(site):
    hostile = finding("zero_result", pipeline=HOSTILE, part=("tenant", HOSTILE))
    page = shown_with(site, [raised(hostile, incident_id="f00d")])
    assert "<script>alert(1)" in page.text  # as far as the headline has room
    assert "\x1b" not in page.text
