"""The page of documents: findings first, then a table; whatever ids hold is only text."""

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

HOSTILE = "<script>alert(1)</script>\"'&\u202e"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("documents") / "data") as running_site:
        now = SystemClock().now()
        batch = [
            {
                "query_id": f"q{at}",
                "pipeline": "docs",
                "version": "v1" if at < 200 else "v2",
                "timestamp": now - 3_600.0 + at,
                "chunks": [{"id": f"d{at % 7}"}, {"id": "old" if at < 200 else f"d{at % 5 + 7}"}],
                "citations": [f"d{at % 7}"],
                "feedback": "negative" if at % 9 == 0 else "positive",
            }
            for at in range(400)
        ]
        batch.append({"query_id": "evil", "pipeline": "docs", "chunks": [{"id": HOSTILE}]})
        assert running_site.post("/v1/queries", batch).status == 200
        yield running_site


def read(site, path="/documents", status=200):
    answer = site.get(path)
    assert answer.status == status, answer.text
    page = HtmlPage(answer.text)
    check_policy(page)
    return answer.text


def test_what_vanished_stands_before_the_table(site):
    text = read(site)
    assert "No longer retrieved" in text
    assert text.index("No longer retrieved") < text.index("<table>")
    assert "Retrieved 200 times until" in text
    assert "401 queries with retrieval" in text


def test_a_release_can_be_asked_about_and_a_source(site):
    assert "No longer retrieved" in read(site, "/documents?release=v2&pipeline=docs")
    assert "401 chunks named no source" not in read(site)
    assert "801 chunks named no source" in read(site, "/documents?by=source")


def test_ids_are_only_text(site):
    text = read(site)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_a_form_that_cannot_be_read_says_why(site):
    text = read(site, "/documents?since=soon&k=3", status=400)
    assert "neither unix seconds" in text
    assert 'value="soon"' in text
    assert "may" not in read(site, "/documents?pipeline=docs&since=24h&changed=&release=&k=")


def test_without_queries_the_page_says_so(site):
    assert "No query of this time recorded its chunks." in read(
        site, "/documents?since=9d&until=8d"
    )


def test_the_navigation_and_the_json_lead_on(site):
    assert 'href="/documents"' in site.get("/").text
    assert 'href="/v1/documents?pipeline=docs"' in read(site, "/documents?pipeline=docs")


def test_what_is_retrieved_most_now_is_shown_without_a_report(site):
    text = read(site, "/documents?pipeline=docs")
    assert "Retrieved most now" in text
    assert text.index("Retrieved most now") < text.index('id="rows-title"')
