"""Nothing doubled, nothing lost: replies recorded twice, failed calls, traces without a query."""

import json

import pytest

from ragmon.sources.otlp.doctor import explain
from ragmon.sources.otlp.spans import ERROR
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, TRACE, as_json, rig, span
from tests.support.otlp_spans import KIND, OP, record_of, root

OURS = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
CALL = {OP: "chat", "gen_ai.request.model": "gpt-4o", **OURS}


def test_a_reply_that_two_instrumentations_recorded_counts_once():
    first = span(2, 1, CALL | {"gen_ai.response.id": "chatcmpl-1"}, scope="openai")
    twice = span(3, 1, CALL | {"gen_ai.response.id": "chatcmpl-1"}, scope="langchain")
    tokens = record_of(root(), first, twice).tokens
    assert (tokens.prompt, tokens.completion) == (10, 5)
    other = span(3, 1, CALL | {"gen_ai.response.id": "chatcmpl-2"}, scope="langchain")
    assert record_of(root(), first, other).tokens.completion == 10


def test_the_id_of_a_reply_is_found_in_the_reply_itself():
    openinference = span(3, 1, {
        KIND: "LLM", "llm.token_count.completion": 5, "llm.token_count.prompt": 10,
        "output.value": json.dumps({"id": "chatcmpl-1", "choices": []}),
    }, scope="openinference")  # fmt: skip
    recorded = span(2, 1, CALL | {"gen_ai.response.id": "chatcmpl-1"})
    assert record_of(root(), recorded, openinference).tokens.completion == 5


def test_calls_without_an_id_are_all_counted():
    assert record_of(root(), span(2, 1, CALL), span(3, 1, CALL)).tokens.completion == 10


def test_a_failed_call_without_usage_or_operation_is_an_error():
    failed = span(1, 0, {"gen_ai.request.model": "gpt-4o", "error.type": "Timeout"}, status=ERROR)
    record = record_of(failed)
    assert record.error == "llm: Timeout"


def test_a_retrieval_without_an_operation_is_read():
    documents = json.dumps([{"id": "d1", "score": 0.5}])
    plain = {"gen_ai.retrieval.query.text": "fee", "gen_ai.retrieval.documents": documents}
    record = record_of(root(**{"input.value": "What is the fee?"}), span(2, 1, plain))
    assert [chunk.id for chunk in record.chunks] == ["d1"]
    assert record.latency_ms.retrieval == 10.0


def test_the_doctor_shows_a_doubt():
    asked = {
        "langfuse.observation.type": "chain",
        "langfuse.observation.input": json.dumps({"args": ["What is the fee?"], "kwargs": {}}),
        "langfuse.observation.output": '"Ten."',
    }
    field = explain([span(1, 0, asked)], NOW).queries[0].fields["query"]
    assert field.value == "What is the fee?"
    assert "sure" in field.doubt


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [({KIND: "EMBEDDING"}, "embeddings"), ({KIND: "EVALUATOR"}, "evaluation"), ({}, "no_step")],
)
def test_a_trace_without_a_query_is_counted_with_its_reason(tmp_path, attributes, reason):
    with rig(tmp_path) as site:
        site.send(as_json(span(1, 0, attributes)), content_type="application/json")
        site.wait(11.0)
        assert site.source.worker.assembly.counts.without_query == {reason: 1}


def test_the_doctor_says_what_would_make_it_a_query():
    explained = explain([span(1, 0, {"http.route": "/"}, scope="asgi")], NOW)
    assert "gen_ai.operation.name" in explained.verdict
    assert "asgi" in explained.verdict


def test_feedback_on_a_deep_span_of_one_query_of_several_finds_it(tmp_path):
    search = {KIND: "RETRIEVER", "output.value": "[]"}
    spans = [span(1), span(2, 1), span(3, 2), span(4, 3, search), span(5), span(6, 5, search)]
    score = {"traceId": TRACE.hex(), "observationId": f"{4:016x}", "name": "liked", "value": 1}
    with rig(tmp_path) as site:
        site.send(as_json(*spans), content_type="application/json")
        site.wait(11.0)
        assert len(map_trace(spans, NOW).queries) == 2
        site.send(json.dumps(score).encode(), "/api/public/scores", content_type="application/json")
        assert site.query(f"{TRACE.hex()}:{1:016x}")["feedback"]["rating"] == 1.0
