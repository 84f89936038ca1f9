"""The status page: one look tells whether retrieval and answers are well."""

from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from ragmon.alerts.as_json import AlertView, LinkedEvidence, LinkedQuery, describe
from ragmon.api_schema import Report
from ragmon.web.page import status_page
from tests.support.alerts import LINKS, finding
from tests.support.alerts import alert as raised
from tests.support.daemons import running

VOID = {"meta", "link", "br", "td", "th", "tr", "li"}  # HTML closes the last four by itself


def report(*alerts: AlertView) -> Report:
    """The report of an hour without queries."""
    return Report(
        window="1h", window_seconds=3_600.0, start=0.0, to=3_600.0, watermark=None, queries=0,
        latency_ms={}, metrics={}, failure_modes={}, judge_agreement={}, pipelines=[],
        alerts=[*alerts],
    )  # fmt: skip


class Checker(HTMLParser):
    """Collects text, links and open elements."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value for name, value in attrs if name == "href"]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return checker


def test_it_shows_pipelines_metrics_and_intervals(daemon):
    daemon.post(
        "/v1/queries",
        [
            {"pipeline": "shop", "chunks": [], "latency_ms": 120, "version": "v7"},
            {"pipeline": "shop", "chunks": [{"id": "a"}], "citations": ["a"]},
        ],
    )
    answer = daemon.get("/?window=24h")
    assert answer.headers["content-type"].startswith("text/html")
    page = read(answer.text)
    text = " ".join(page.text)
    for shown in (
        "ready",
        "shop",
        "zero_result",
        "0.5000",
        "failure mode: retrieval",
        "version=v7",
    ):
        assert shown in text
    assert any(link.startswith("/v1/queries?pipeline=shop&failing=") for link in page.links)


def test_its_links_lead_somewhere(daemon):
    daemon.post("/v1/queries", {"query_id": "l-1", "pipeline": "links & 100%/+?#", "chunks": []})
    links = read(daemon.get("/").text).links
    assert len(links) >= 5
    for link in links:
        assert daemon.get(link).status == 200, link
    behind = [link for link in links if "100" in link]
    assert len(behind) == 2  # of zero_result and of the failure mode
    for link in behind:
        (query,) = daemon.get(link).json["queries"]
        assert query["record"]["query_id"] == "l-1"


def test_the_queries_behind_a_number_are_of_its_window(daemon):
    daemon.post("/v1/queries", {"pipeline": "windowed", "chunks": []})
    links = read(daemon.get("/?window=5m").text).links
    assert "/v1/queries?pipeline=windowed&failing=retrieval&since=5m" in links


def test_an_empty_store_says_what_to_do(tmp_path):
    with running(tmp_path / "data") as site:
        page = read(site.get("/").text)
    assert any("POST" in text for text in page.text)
    assert any("never" in text for text in page.text)


def test_nothing_a_client_sends_becomes_markup(daemon):
    evil = "<script>alert(1)</script>\"'&"
    daemon.post(
        "/v1/queries",
        [{"pipeline": evil, "version": evil, "chunks": [], "latency_ms": 3, "error": evil}],
    )
    page = read(daemon.get("/").text)
    assert "script" not in page.tags
    assert any(evil in text for text in page.text)


def test_what_keeps_ragmon_from_being_ready_is_shown():
    page = read(status_page(report(), ["no space left for <data>"], []))
    assert any("no space left for <data>" in text for text in page.text)
    assert "not ready" in " ".join(page.text)


EVIDENCE = LinkedEvidence(
    sentence="Found nothing for 40 % <of> queries.",
    detail="measured on <412> queries",
    remedies=("Look at the index.",),
    runbook="https://runbooks.example/ZeroResults",
    worst=(LinkedQuery("q/1", "<why>?", "zero_result", url="/v1/queries/q%2F1"),),
    failing_queries=None,
)


def alert(**fields) -> AlertView:
    """An open alert as /v1/alerts has it."""
    shown = describe(
        raised(finding("zero_result", pipeline="shop & co"), began_at=1.7e9, fired_at=1.7e9), LINKS
    )
    named = {"id": "f00d-1700000000", "fingerprint": "f00d", "name": "ZeroResults"}
    return replace(shown, **named | {"severity": "critical", "evidence": EVIDENCE} | fields)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param({}, "1 alert is firing", id="firing"),
        pytest.param({}, "since 2023-11-14 22:13:20 UTC", id="since when"),
        pytest.param({}, "Found nothing for 40 % <of> queries.", id="what"),
        pytest.param({}, "measured on <412> queries", id="how sure"),
        pytest.param({}, "Look at the index.", id="what to try"),
        pytest.param({}, "<why>?", id="worst queries"),
        pytest.param({"state": "pending", "fired_at": None}, "no alert is firing", id="pending"),
        pytest.param({"state": "no_data"}, "1 alert is firing", id="silence does not end it"),
        pytest.param({"dimension": "tenant", "value": "t1"}, "tenant=t1", id="of a slice"),
        pytest.param({"silenced_by": "deploy"}, "silenced by deploy", id="silenced"),
        pytest.param(
            {"silenced_by": "history"}, "backfilled, no notification sent", id="backfilled"
        ),
        pytest.param({"silenced_by": "deploy"}, "(1 inhibited or silenced)", id="not counted"),
        pytest.param({"inhibited_by": "beef"}, "inhibited by beef", id="a symptom"),
        pytest.param({"evidence": None}, "ZeroResults", id="without evidence"),
    ],
)
def test_open_alerts_are_shown(given, shown):
    page = read(status_page(report(alert(**given)), [], []))
    assert shown in " ".join("".join(page.text).split())
    assert "alert-f00d" in page.ids  # where notifications link to
    assert "/v1/alerts/f00d-1700000000" in page.links


def test_a_symptom_leads_to_its_cause():
    symptom = alert(fingerprint="beef", inhibited_by="f00d")
    page = read(status_page(report(symptom, alert(name="Outage")), [], []))
    assert "1 alert is firing" in "".join(page.text)
    assert "#alert-f00d" in page.links
    assert {"alert-f00d", "alert-beef"} <= set(page.ids)


def test_of_many_alerts_the_first_are_told_in_full():
    many = [alert(fingerprint=f"f{at}", id=f"f{at}-1") for at in range(30)]
    page = read(status_page(report(*many), [], []))
    assert "".join(page.text).count("Look at the index.") == 5
    assert {f"alert-f{at}" for at in range(30)} <= set(page.ids)
    assert {f"/v1/alerts/f{at}-1" for at in range(30)} <= set(page.links)


def test_the_graver_alerts_come_first():
    many = [alert(fingerprint=f"f{at}", severity="warning") for at in range(5)]
    grave = alert(fingerprint="grave", severity="critical", name="Outage")
    page = read(status_page(report(*many, grave), [], []))
    order = [each for each in page.ids if each.startswith("alert-")]
    assert order == ["alert-grave", *(f"alert-f{at}" for at in range(5))]


def test_an_alert_leads_to_its_worst_queries_and_its_runbook():
    page = read(status_page(report(alert()), [], []))
    assert {"/v1/queries/q%2F1", "https://runbooks.example/ZeroResults"} <= set(page.links)


def test_a_runbook_that_is_no_address_is_no_link():
    evidence = replace(EVIDENCE, runbook="javascript:alert(1)")
    page = read(status_page(report(alert(evidence=evidence)), [], []))
    assert not any("javascript" in link for link in page.links)


def test_the_newest_failing_queries_are_shown(daemon):
    asked = "Where is <b>my</b> order? " + "x" * 200
    sent = [{"query_id": "n/1 ?#", "pipeline": "newest", "query": asked, "chunks": []}]
    daemon.post("/v1/queries", [*sent, {"query_id": "n-2", "chunks": []}])  # of pipeline default
    page = read(daemon.get("/?window=5m").text)
    text = " ".join(page.text)
    assert "Where is <b>my</b> order?" in text
    assert "x" * 200 not in text
    assert "n-2" in text  # stands for the text that was not logged
    link = next(link for link in page.links if "n%2F1" in link)
    assert daemon.get(link).json["record"]["query"] == asked


def test_no_script_may_run_and_no_copy_is_kept(daemon):
    headers = daemon.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("window", ["5m", "1h", "24h", "7d"])
def test_every_window_can_be_chosen(daemon, window):
    page = read(daemon.get(f"/?window={window}").text)
    assert {f"/?window={other}" for other in {"5m", "1h", "24h", "7d"} - {window}} <= set(
        page.links
    )


def test_a_window_that_makes_no_sense_is_refused(daemon):
    assert daemon.get("/?window=<b>").status == 400
