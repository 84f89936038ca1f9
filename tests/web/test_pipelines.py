"""A token for some pipelines writes and reads no other, whatever endpoint it asks."""

import re

import msgspec
import pytest

from ragmon.clock import SystemClock
from ragmon.web import openapi
from tests.support.daemons import running
from tests.support.people import Browser
from tests.support.wait import eventually

SECRET = "hidden-pipeline"
LIMITED, ADMIN = "limited-secret", "admin-secret"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HIDDEN_TRACE = "1bf7651916cd43dd8448eb211c80319c"


def attributes(**values):
    return [{"key": key, "value": {"stringValue": text}} for key, text in values.items()]


def traces(trace, span, service, **more):
    """An OTLP request with one finished query."""
    found = attributes(
        **{"openinference.span.kind": "RETRIEVER", "input.value": f"asked of {service}"}, **more
    )
    one = {"traceId": trace, "spanId": span, "name": "retrieve", "attributes": found}
    now = str(int(SystemClock().now() * 1e9))
    one |= {"startTimeUnixNano": now, "endTimeUnixNano": now}
    resource = {"attributes": attributes(**{"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [one]}]}]}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tokens = [
        {
            "name": "limited",
            "token": LIMITED,
            "scopes": ["ingest", "read"],
            "pipelines": ["docs-*", "faq"],
        },
        {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    ]
    path = tmp_path_factory.mktemp("pipelines") / "data"
    flags = {"auth__tokens": tokens, "auth__protect_metrics": True, "otlp__linger": "0.1s"}
    with running(path, **flags) as running_site:
        admin = running_site.with_token(ADMIN)
        batch = [
            {"query_id": "mine", "pipeline": "docs-de", "error": "no answer"},
            {"query_id": "one", "pipeline": "docs-de", "version": "v1"},
            {"query_id": "two", "pipeline": "docs-de", "version": "v2"},
            {"query_id": "theirs", "pipeline": SECRET, "error": "no answer"},
        ]
        assert admin.post("/v1/queries", batch).status == 200
        body = msgspec.json.encode(traces(HIDDEN_TRACE, SPAN, SECRET))
        assert admin.post("/v1/traces", body, content_type="application/json").status == 200
        eventually(lambda: admin.get(f"/v1/queries/{HIDDEN_TRACE}").status == 200)
        yield running_site


@pytest.fixture
def limited(site):
    return site.with_token(LIMITED)


@pytest.fixture
def admin(site):
    return site.with_token(ADMIN)


READS = [each for each in openapi.ENDPOINTS if each.method == "GET"]
WRITES = [each for each in openapi.ENDPOINTS if each.scope == "ingest" and not each.is_form]
FORMS = [each for each in openapi.ENDPOINTS if each.is_form and each.scope != "admin"]
ASKED = {
    "series": "?pipeline=docs-de&metric=queries",
    "compare": "?pipeline=docs-de&reference=v1&candidate=v2",
}


def path_of(endpoint):
    return re.sub("{.*?}", "theirs", endpoint.path) + ASKED.get(endpoint.name, "")


def test_the_table_is_read():
    assert {"report", "metrics", "recentTraces", "alerts"} <= {each.name for each in READS}
    assert {"sendQueries", "sendTraces", "sendScores"} <= {each.name for each in WRITES}
    # What neither reads nor ingests needs an admin token, and those have every pipeline.
    others = [each for each in openapi.ENDPOINTS if each not in READS + WRITES + FORMS]
    assert {each.scope for each in others} == {"admin"}
    assert {each.name for each in FORMS} == {"signIn", "signOut", "labelForm"}


@pytest.mark.parametrize("endpoint", READS, ids=lambda each: each.name)
def test_no_endpoint_tells_of_another_pipeline(limited, admin, endpoint):
    answer = limited.get(path_of(endpoint))
    assert SECRET not in answer.text
    assert "theirs" not in answer.text.replace("'theirs'", "")
    if endpoint.pipelines == "all":
        assert answer.status == 403
        if endpoint.scope != "admin":
            assert "may use the pipelines docs-*, faq only" in answer.text
    elif "{" not in endpoint.path:
        assert answer.status == 200
        assert admin.get(path_of(endpoint)).status == 200


@pytest.mark.parametrize(
    "path",
    ["/v1/report", "/v1/queries", "/v1/alerts", "/v1/series?metric=queries"],
)
def test_a_pipeline_that_may_not_be_read_is_named_in_the_refusal(limited, path):
    sign = "&" if "?" in path else "?"
    refused = limited.get(f"{path}{sign}pipeline={SECRET}")
    assert refused.status == 403
    assert "is none of them" in refused.json["detail"]
    assert limited.get(f"{path}{sign}pipeline=docs-de").status == 200


def test_what_it_may_read_is_there(limited, admin):
    report = limited.get("/v1/report").json
    assert [each["pipeline"] for each in report["pipelines"]] == ["docs-de"]
    assert report["queries"] == 3  # the total counts no other pipeline either
    listed = limited.get("/v1/queries?failing=error").json["queries"]
    assert [each["record"]["query_id"] for each in listed] == ["mine"]
    assert limited.get("/v1/queries/mine").status == 200
    assert "docs-de" in limited.get("/").text
    assert SECRET not in limited.get("/").text
    assert SECRET in admin.get("/v1/report").text
    assert SECRET in admin.get("/metrics").text


BODIES = {
    "sendQueries": ([{"query_id": "w1", "pipeline": SECRET}], 422),
    "sendFeedback": ([{"query_id": "theirs", "rating": -1}], 422),
    "sendLabels": ([{"query_id": "theirs", "faithful": 0.0}], 422),
    "sendScores": ({"traceId": HIDDEN_TRACE, "name": "user-feedback", "value": 0}, 200),
    "annotateSpans": (
        {"data": [{"span_id": SPAN, "name": "user feedback", "result": {"score": 0}}]},
        200,
    ),
    "annotateTraces": (
        {"data": [{"trace_id": HIDDEN_TRACE, "name": "user feedback", "result": {"score": 0}}]},
        200,
    ),
    "sendTraces": (traces("2bf7651916cd43dd8448eb211c80319c", SPAN, SECRET), 200),
    "sendLogs": (
        {
            "resourceLogs": [
                {
                    "scopeLogs": [
                        {
                            "logRecords": [
                                {
                                    "eventName": "gen_ai.evaluation.result",
                                    "traceId": HIDDEN_TRACE,
                                    "attributes": attributes(
                                        **{
                                            "gen_ai.evaluation.name": "user_feedback",
                                            "gen_ai.evaluation.score.label": "bad",
                                        }
                                    ),
                                }
                            ]
                        }
                    ]
                }
            ]
        },
        200,
    ),
    "sendMetrics": ({}, 200),
}
SOURCES = {
    "sendQueries": "http",
    "sendFeedback": "feedback",
    "sendLabels": "label",
    "sendTraces": "otlp_spans",
}


@pytest.mark.parametrize("endpoint", WRITES, ids=lambda each: each.name)
def test_no_endpoint_writes_to_another_pipeline(limited, admin, endpoint):
    name = endpoint.name.removesuffix("Langfuse").removesuffix("LangWatch")
    body, status = BODIES[name]
    source = SOURCES.get(name, "otlp_feedback")
    labels = {"source": source, "reason": "pipeline_forbidden"}
    before = admin.total("ragmon_rejected_total", **labels)
    headers = {"content-type": "application/json"}
    if isinstance(body, list):
        answer = limited.post(endpoint.path, body)
    else:
        answer = limited.request("POST", endpoint.path, msgspec.json.encode(body), headers)
    assert answer.status == status, answer.text
    refused = admin.total("ragmon_rejected_total", **labels) - before
    assert refused == (name != "sendMetrics")
    theirs = admin.get("/v1/queries/theirs").json
    assert (theirs.get("feedback"), theirs.get("labels") or []) == (None, [])
    assert admin.get(f"/v1/queries/{HIDDEN_TRACE}").json.get("feedback") is None
    assert admin.get("/v1/queries/w1").status == 404


def test_the_form_for_labels_writes_to_no_other_pipeline(site, admin):
    browser = Browser(site)
    assert browser.sign_in(LIMITED).status == 303
    fields = {"query": "theirs", "label": "unfaithful"}
    answer = browser.submit("/judge/labels", fields, on="/judge/labels")
    assert answer.status == 404
    assert admin.get("/v1/queries/theirs").json["labels"] == []
    assert browser.submit("/judge/labels", fields | {"query": "mine"}).status == 303
    assert len(admin.get("/v1/queries/mine").json["labels"]) == 1


def test_good_lines_are_kept_beside_a_forbidden_one(limited):
    batch = [
        {"query_id": "good1", "pipeline": "faq"},
        {"query_id": "bad", "pipeline": SECRET},
        {"query_id": "good2", "pipeline": "docs-en"},
    ]
    answer = limited.post("/v1/queries", batch)
    assert answer.status == 200
    assert answer.json["accepted"] == 2
    (rejected,) = answer.json["rejected"]
    assert (rejected["line"], rejected["field"]) == (2, "pipeline")
    assert "docs-*, faq only" in rejected["error"]


def test_own_queries_are_rated_before_and_after_they_come(limited, admin):
    early = limited.post("/v1/feedback", [{"query_id": "early", "rating": 1}])
    assert early.json["accepted"] == 1
    limited.post("/v1/queries", [{"query_id": "early", "pipeline": "faq"}])
    assert admin.get("/v1/queries/early").json["feedback"] is not None
    late = limited.post("/v1/feedback", [{"query_id": "mine", "rating": 1}])
    assert late.json["accepted"] == 1


def test_feedback_that_waits_does_not_reach_another_pipeline(limited, admin):
    limited.post("/v1/feedback", [{"query_id": "comes-later", "rating": -1}])
    admin.post("/v1/queries", [{"query_id": "comes-later", "pipeline": SECRET}])
    assert admin.get("/v1/queries/comes-later").json.get("feedback") is None
    assert admin.total("ragmon_waiting_changes_forbidden_total") == 1


def test_own_traces_become_queries(limited, admin):
    trace = "3bf7651916cd43dd8448eb211c80319c"
    body = msgspec.json.encode(traces(trace, "a7ad6b7169203331", "faq"))
    headers = {"content-type": "application/json"}
    answer = limited.request("POST", "/v1/traces", body, headers)
    assert answer.json == {}
    eventually(lambda: admin.get(f"/v1/queries/{trace}").status == 200)
    assert limited.get(f"/v1/queries/{trace}").json["record"]["pipeline"] == "faq"
