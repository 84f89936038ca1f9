"""The page of recent traces: what was read, what is missing and what to add; hostile texts."""

import json

import pytest

from ragmon.clock import SystemClock
from ragmon.sources.otlp.spans import Resource
from tests.support.daemons import running
from tests.support.otlp import as_json, span
from tests.support.pages import HtmlPage, check_policy
from tests.support.wait import eventually

HOSTILE = "<script>alert(1)</script>\"'&\u202e"
KIND = "openinference.span.kind"


def told(trace, attributes, name):
    now = int(SystemClock().now() * 1e9)
    return span(
        1, 0, attributes, name=name, trace_id=trace, start_ns=now, end_ns=now, resource=Resource()
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("traces") / "data", otlp__linger="0.1s") as running_site:
        empty = running_site.get("/traces").text
        passages = json.dumps([{"id": HOSTILE, "text": "t"}])
        spans = [
            told(b"a" * 16, {KIND: "RETRIEVER", "input.value": HOSTILE, "output.value": passages},
                 HOSTILE),
            told(b"b" * 16, {"shop.question": "What is the fee?", HOSTILE: "1"}, "handle"),
        ]  # fmt: skip
        sent = running_site.post("/v1/traces", as_json(*spans), content_type="application/json")
        assert sent.status == 200
        eventually(lambda: len(running_site.get("/v1/traces").json) == 2)
        running_site.empty = empty
        yield running_site


def read(site, path="/traces", status=200):
    answer = site.get(path)
    assert answer.status == status, answer.text
    check_policy(HtmlPage(answer.text))
    return answer.text


def test_before_the_first_trace_the_page_says_how_to_send_one(site):
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in site.empty


def test_what_was_read_and_what_is_missing_with_its_line(site):
    text = read(site)
    assert "1 query in 2 traces" in text
    assert "missing in 1 query" in text
    assert "<code" in text
    assert "session_id" in text


def test_a_trace_that_is_no_query_says_what_would_make_it_one(site):
    text = read(site)
    assert "no query: no span retrieves or generates" in text
    assert "`shop.question` of `handle`" in text


def test_what_an_sdk_left_out_is_named_with_the_setting_to_change(tmp_path):
    with running(tmp_path / "data", otlp__linger="0.1s") as site:
        whole = told(b"c" * 16, {KIND: "RETRIEVER", "input.value": "fee?"}, "search")
        request = json.loads(as_json(whole))
        [sent] = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
        sent |= {"droppedAttributesCount": 14, "droppedEventsCount": 1}
        body = json.dumps(request).encode()
        assert site.post("/v1/traces", body, content_type="application/json").status == 200
        eventually(lambda: site.get("/v1/traces").json, "the trace is complete")
        text = " ".join(HtmlPage(read(site)).text.split())
        assert "search lost 14 attributes and 1 event in its SDK. Set OTEL_SPAN_" in text
        for reason, count in (("sdk_attribute_limit", 14), ("sdk_event_limit", 1)):
            counted = site.total("ragmon_rejected_total", source="otlp_attributes", reason=reason)
            assert counted == count


def test_texts_of_a_client_are_only_text(site):
    text = read(site)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_only_the_newest_where_asked_for(site):
    assert "in 1 trace" in read(site, "/traces?last=1")
    refused = site.get("/traces?last=many")
    assert refused.status == 400
    assert "is not a number from 1 to 100" in refused.text
