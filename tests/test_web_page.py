"""The status page: one look tells whether retrieval and answers are well."""

from html.parser import HTMLParser

import pytest

from ragmon.web.page import status_page
from tests.support.daemons import running

VOID = {"meta", "link", "br", "p", "td", "th", "tr"}  # HTML closes the last four by itself


class Checker(HTMLParser):
    """Collects text, links and open elements."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

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
    (behind,) = (link for link in links if "100" in link)
    (query,) = daemon.get(behind).json["queries"]
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
    empty = {"window": "1h", "queries": 0, "watermark": None, "pipelines": []}
    page = read(status_page(empty, ["no space left for <data>"]))
    assert any("no space left for <data>" in text for text in page.text)
    assert "not ready" in " ".join(page.text)


@pytest.mark.parametrize("window", ["5m", "1h", "24h", "7d"])
def test_every_window_can_be_chosen(daemon, window):
    page = read(daemon.get(f"/?window={window}").text)
    assert {f"/?window={other}" for other in {"5m", "1h", "24h", "7d"} - {window}} <= set(
        page.links
    )


def test_a_window_that_makes_no_sense_is_refused(daemon):
    assert daemon.get("/?window=<b>").status == 400
