"""LlamaIndex's own events, where spans say nothing."""

import json

import pytest

from ragmon.sources.otlp.spans import ERROR, Event
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, span

NODES = json.dumps([{"node": {"id_": "kb-1", "text": "one"}, "score": 0.9}])


def step(number, parent, *events, **given):
    said = tuple(Event(name, number, attributes) for name, attributes in events)
    return span(number, parent, {}, events=said, **given)


QUERY = step(
    1, 0, ("QueryStartEvent", {"query": "why?"}), ("QueryEndEvent", {"response.response": "so"})
)
RETRIEVAL = step(
    2,
    1,
    ("RetrievalStartEvent", {"str_or_query_bundle.query_str": "why?"}),
    ("RetrievalEndEvent", {"str_or_query_bundle.query_str": "why?", "nodes": NODES}),
)
STREAM = step(4, 0, ("LLMPredictStartEvent", {"template.template": "{context_str}"}))
CHAT = {
    "model_dict.model_name": "m",
    "response.raw.model": "m-2026",
    "response.raw.usage.prompt_tokens": 3,
    "response.additional_kwargs.completion_tokens": 5,
    "response.delta": "null",
}


def test_events_make_a_query():
    predict = step(3, 1, ("LLMPredictStartEvent", {}), ("LLMPredictEndEvent", {"output": "so"}))
    chat = step(4, 3, ("LLMChatStartEvent", {}), ("LLMChatEndEvent", CHAT))
    (query,) = map_trace([QUERY, RETRIEVAL, step(5, 2), predict, chat], NOW).queries
    found = query.record
    assert (found.query, found.retrieval_query, found.answer) == ("why?", None, "so")
    assert [(chunk.id, chunk.score, chunk.text) for chunk in found.chunks] == [("kb-1", 0.9, "one")]
    assert (found.model, found.tokens.prompt, found.tokens.completion) == ("m-2026", 3, 5)


@pytest.mark.parametrize(
    ("spans", "count"),
    [
        pytest.param([STREAM, step(5, 4, ("LLMChatStartEvent", {}))], 0, id="a streamed answer"),
        pytest.param([step(5, 0, ("LLMChatStartEvent", {}))], 1, id="a bare call"),
        pytest.param([step(5, 0, ("EmbeddingEndEvent", {}))], 0, id="indexing"),
    ],
)
def test_a_stream_beside_its_query_is_not_another(spans, count):
    assert len(map_trace(spans, NOW).queries) == count


def test_a_step_that_says_nothing_fails_where_it_stands():
    raised = Event("exception", 1, {"exception.type": "TimeoutError", "exception.message": "late"})
    failed = step(2, 1, ("RetrievalStartEvent", {"str_or_query_bundle": "why?"}), status=ERROR)
    inner = span(3, 2, {}, status=ERROR, events=(raised,))
    root = step(1, 0, ("QueryStartEvent", {"query": "why?"}), status=ERROR)
    (query,) = map_trace([root, failed, inner], NOW).queries
    assert query.record.error == "retriever: TimeoutError: late"
    assert query.record.chunks is None
