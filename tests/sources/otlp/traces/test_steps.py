"""Steps of agents, as traces have them."""

import json

from ragmon.records import AnswerStep
from ragmon.sources.otlp.spans import ERROR
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, span

KIND = "openinference.span.kind"


def record_of(*spans):
    """The one query of a trace."""
    (query,) = map_trace(spans, NOW).queries
    return query.record


def whole():
    return span(1, 0, {KIND: "AGENT", "input.value": "why?", "output.value": "so"})


def call(number, name, output=None, **more):
    """A call of a tool; a later number starts later."""
    attributes = {KIND: "TOOL", "tool.name": name}
    if output is not None:
        attributes["output.value"] = json.dumps(output)
    start = int(NOW * 1e9) + number * 10**6
    return span(number, 1, attributes, start_ns=start, end_ns=start + 10**6, **more)


def retriever(number, *ids, parent=1):
    attributes = {KIND: "RETRIEVER"}
    for rank, name in enumerate(ids):
        attributes[f"retrieval.documents.{rank}.document.id"] = name
        attributes[f"retrieval.documents.{rank}.document.content"] = f"text of {name}"
    start = int(NOW * 1e9) + number * 10**6
    return span(number, parent, attributes, start_ns=start, end_ns=start + 10**6)


def test_one_retrieval_has_no_steps():
    assert record_of(whole(), retriever(2, "a")).steps is None


def test_retrievals_are_steps_in_their_order_and_chunks_stay_one_list():
    record = record_of(whole(), retriever(3, "b", "a"), retriever(2, "a"))
    assert record.steps == [AnswerStep(chunk_ids=["a"]), AnswerStep(chunk_ids=["b", "a"])]
    assert [chunk.id for chunk in record.chunks] == ["a", "b", "a"]


def test_calls_of_tools_stand_between_the_searches():
    documents = [{"id": "a", "text": "one", "score": 0.9}]
    record = record_of(
        whole(),
        call(2, "search_docs", documents),
        call(3, "calculator", 4),
        call(4, "search_docs", status=ERROR),
    )
    assert record.steps == [
        AnswerStep(tool="search_docs", chunk_ids=["a"]),
        AnswerStep(kind="tool", tool="calculator"),
        AnswerStep(tool="search_docs", failed=True),
    ]
    assert [chunk.id for chunk in record.chunks] == ["a"]


def test_a_retriever_inside_a_tool_is_one_step():
    record = record_of(
        whole(), call(2, "ask_library"), retriever(3, "a", parent=2), call(4, "calculator")
    )
    assert [(step.kind, step.chunk_ids) for step in record.steps] == [
        ("retrieval", ["a"]),
        ("tool", None),
    ]
