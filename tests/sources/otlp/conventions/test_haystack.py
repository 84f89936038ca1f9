"""Components of Haystack, told by their sockets."""

import json

import pytest

from ragmon.sources.otlp.conventions import haystack, read
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    MODEL,
    OTHER,
    RERANKER,
    RETRIEVER,
    TOOL,
)
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, span


def component(number, takes, gives, kind="Mine", **attributes):
    named = {
        "haystack.component.type": kind,
        "haystack.component.input_spec": json.dumps({each: {"type": "str"} for each in takes}),
        "haystack.component.output_spec": json.dumps({each: {"type": "str"} for each in gives}),
    }
    sent = {f"haystack.component.{key}": json.dumps(value) for key, value in attributes.items()}
    return span(number, 1, named | sent, name="haystack.component.run")


def pipeline(**attributes):
    sent = {f"haystack.pipeline.{key}": json.dumps(value) for key, value in attributes.items()}
    return span(1, 0, sent, name="haystack.pipeline.run")


@pytest.mark.parametrize(
    ("takes", "gives", "kind", "role"),
    [
        pytest.param(["query"], ["documents"], "Mine", RETRIEVER, id="by words"),
        pytest.param(["query_embedding"], ["documents"], "Mine", RETRIEVER, id="by vector"),
        pytest.param(["query", "documents"], ["documents"], "Mine", RERANKER, id="a ranker"),
        pytest.param(["messages"], ["replies"], "Mine", MODEL, id="a generator"),
        pytest.param(["text"], ["embedding"], "Mine", EMBEDDING, id="an embedder of queries"),
        pytest.param(["documents"], ["documents"], "AnyEmbedder", EMBEDDING, id="of documents"),
        pytest.param(["sources"], ["documents"], "Mine", OTHER, id="a converter of files"),
        pytest.param(["documents"], ["documents"], "Mine", OTHER, id="a joiner"),
        pytest.param(["query"], ["documents", "replies"], "Mine", CHAIN, id="a whole pipeline"),
        pytest.param(["messages"], ["tool_messages", "state"], "Mine", TOOL, id="a tool invoker"),
        pytest.param(["messages"], ["messages", "last_message"], "Agent", CHAIN, id="an agent"),
    ],
)
def test_roles(takes, gives, kind, role):
    assert read(component(2, takes, gives, kind)).role == role


def test_a_pipeline_is_a_chain_and_other_spans_are_not_ours():
    assert haystack.role(pipeline()) == CHAIN
    assert haystack.role(span(1)) == ""


def test_a_ranker_reorders_what_was_retrieved():
    documents = [{"id": f"kb-{n}", "content": "c", "score": 1.0 - n / 10} for n in range(3)]
    ranked = [documents[2] | {"score": 7.0}, documents[0] | {"score": 5.0}]
    retriever = component(2, ["query"], ["documents"], output={"documents": documents})
    ranker = component(
        3,
        ["query", "documents"],
        ["documents"],
        input={"query": "why?", "documents": documents},
        output={"documents": ranked},
    )
    (query,) = map_trace(
        [pipeline(input_data={"r": {"query": "why?"}}), retriever, ranker], NOW
    ).queries
    chunks = query.record.chunks
    assert [(chunk.id, chunk.score) for chunk in chunks] == [
        ("kb-2", 0.8),
        ("kb-0", 1.0),
        ("kb-1", 0.9),
    ]


TOOK = {"prompt_tokens": 3, "completion_tokens": 5}


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(
            {"replies": [{"role": "assistant", "content": [{"text": "so"}],
                          "meta": {"model": "m", "usage": TOOK}}]},
            id="in each message",
        ),
        pytest.param(
            {"replies": ["so"],
             "meta": [{"model": "m", "usage": {"input_tokens": 3, "output_tokens": 5}}]},
            id="beside the replies",
        ),
    ],
)  # fmt: skip
def test_what_a_generator_says_of_its_model(output):
    generator = component(2, ["messages"], ["replies"], output=output)
    (query,) = map_trace([pipeline(), generator], NOW).queries
    found = query.record
    assert (found.answer, found.model) == ("so", "m")
    assert (found.tokens.prompt, found.tokens.completion) == (3, 5)


def test_an_indexing_pipeline_is_no_query():
    spans = [
        pipeline(input_data={"converter": {"sources": ["a.txt"]}},
                 output_data={"writer": {"documents_written": 2}}),
        component(2, ["sources"], ["documents"]),
        component(3, ["documents"], ["documents"], "SentenceTransformersDocumentEmbedder"),
        component(4, ["documents"], ["documents_written"]),
    ]  # fmt: skip
    assert map_trace(spans, NOW).queries == ()


DOCUMENTS = json.dumps([{"id": "kb-1", "content": "one", "score": 0.9}])


def result_of(name, result):
    said = {"result": result, "origin": {"tool_name": name}, "error": False}
    return {"role": "tool", "content": [{"tool_call_result": said}]}


@pytest.mark.parametrize(
    ("messages", "ids"),
    [
        pytest.param([result_of("find", DOCUMENTS)], ["kb-1"], id="documents"),
        pytest.param(
            [result_of("clock", "noon"), result_of("find", DOCUMENTS)],
            ["kb-1"],
            id="beside another",
        ),
        pytest.param([result_of("clock", "noon")], None, id="another only"),
        pytest.param([], None, id="none"),
    ],
)
def test_what_tools_returned(messages, ids):
    invoker = component(2, ["messages"], ["tool_messages"], output={"tool_messages": messages})
    generator = component(3, ["messages"], ["replies"], output={"replies": ["so"]})
    (query,) = map_trace([pipeline(), invoker, generator], NOW).queries
    chunks = query.record.chunks
    assert (None if chunks is None else [chunk.id for chunk in chunks]) == ids


def test_the_text_of_a_tool_that_is_called_like_a_retriever():
    returned = {"tool_messages": [result_of("search_docs", "one passage")]}
    invoker = component(2, ["messages"], ["tool_messages"], output=returned)
    generator = component(3, ["messages"], ["replies"], output={"replies": ["so"]})
    (query,) = map_trace([pipeline(), invoker, generator], NOW).queries
    assert [chunk.text for chunk in query.record.chunks] == ["one passage"]
