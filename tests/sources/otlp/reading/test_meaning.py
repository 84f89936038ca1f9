"""Spans that no convention knows, and spans of other software that must not become queries."""

import json

import pytest

from ragmon.sources.otlp.spans import ERROR
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, span
from tests.support.otlp_spans import record_of

DOCUMENTS = json.dumps([{"id": "a", "text": "Ten euros.", "score": 0.9}])


def step(number, parent, kind, **content):
    attributes = {"acme.span.type": kind}
    attributes |= {f"acme.{key.replace('__', '.')}": value for key, value in content.items()}
    return span(number, parent, attributes)


def rag(**model):
    return record_of(
        step(1, 0, "workflow", input='{"question": "The fee?"}', output='"Ten."', userId="ada"),
        step(2, 1, "retrieval", input='{"query": "fee"}', output=DOCUMENTS),
        step(3, 1, "llm", input="Ten euros. The fee?", output="Ten.", **model),
    )


def test_an_unknown_instrumentation_is_read():
    record = rag(model="m-1", prompt_tokens=20, completionTokens=6, session__id="s")
    assert (record.query, record.retrieval_query, record.answer) == ("The fee?", "fee", "Ten.")
    assert [(chunk.id, chunk.text, chunk.score) for chunk in record.chunks] == [
        ("a", "Ten euros.", 0.9)
    ]
    assert (record.model, record.tokens.prompt, record.tokens.completion) == ("m-1", 20, 6)
    assert (record.user_id, record.session_id) == ("ada", "s")


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param({"usage": '{"inputTokens": 20, "outputTokens": 6}'}, id="an object"),
        pytest.param({"metrics": '{"prompt_tokens": 20, "completion_tokens": 6}'}, id="metrics"),
        pytest.param({"num_prompt_tokens": 20, "num_completion_tokens": "6"}, id="numbers"),
    ],
)
def test_tokens_are_found(usage):
    record = rag(**usage)
    assert (record.tokens.prompt, record.tokens.completion) == (20, 6)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param("[]", 0, id="an empty list"),
        pytest.param("{}", 0, id="an object that leaves out empty lists"),
        pytest.param('{"type": "json", "value": ["one", "two"]}', 2, id="a typed value"),
        pytest.param('"nothing was found"', None, id="a text that is no list"),
    ],
)
def test_what_a_retriever_returned(output, expected):
    record = record_of(
        step(1, 0, "chain", input="The fee?", output="Ten."),
        step(2, 1, "retriever", query="fee", output=output),
    )
    assert (record.chunks and len(record.chunks)) == (expected or ([] if expected == 0 else None))


@pytest.mark.parametrize("kind", ["retriever", "tool"])
@pytest.mark.parametrize("name", ["outputs.result", "documents"])
def test_a_list_that_was_taken_apart_is_put_together(kind, name):
    parts = {
        f"x.{name}.{at}.{key}": value
        for at in (10, 2, 0)  # in no order
        for key, value in {"id": f"d{at}", "text": f"passage {at}", "score": 1.0 - at / 20}.items()
    }
    record = record_of(
        step(1, 0, "chain", input="The fee?", output="Ten."),
        span(2, 1, {"x.event_type": kind, "x.inputs.question": "fee", **parts}),
    )
    assert [(chunk.id, chunk.score) for chunk in record.chunks] == [
        ("d0", 1.0),
        ("d2", 0.9),
        ("d10", 0.5),
    ]


@pytest.mark.parametrize("kind", ["retriever", "tool"])
def test_a_list_that_has_lost_its_beginning_is_left_out(kind):
    """An SDK dropped the oldest attributes: neither these documents nor none were retrieved."""
    parts = {f"x.documents.{at}.text": f"passage {at}" for at in range(5, 40)}
    record = record_of(
        step(1, 0, "chain", input="The fee?", output="Ten."),
        span(2, 1, {"x.event_type": kind, "x.inputs.question": "fee", **parts}),
    )
    assert record.chunks is None


def test_messages_of_a_model_that_were_taken_apart_are_no_documents():
    parts = {"x.output.0.id": "m1", "x.output.0.text": "Ten.", "x.input": "The fee?"}
    record = record_of(
        step(1, 0, "chain", input="The fee?", output="Ten."),
        span(2, 1, {"x.span_type": "llm", **parts}),
    )
    assert record.chunks is None


def test_arguments_of_a_function_carry_their_doubt():
    mapped = map_trace(
        [
            span(1, 0, {"function.args": "('What is the fee?',)", "function.kwargs": "{}"}),
            step(2, 1, "llm", input="…", output="Ten."),
        ],
        NOW,
    ).queries[0]
    assert mapped.record.query == "What is the fee?"
    assert "taken by its form" in mapped.sources["query"].doubt


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"job.input": "resize it", "job.output": "done"}, id="a job"),
        pytest.param({"http.request.type": "search", "http.query": "q=1"}, id="a request"),
        pytest.param({"order.type": "search", "order.query": "shoes"}, id="a kind of an order"),
        pytest.param({"messaging.message.type": "chat", "input": "hi"}, id="a message"),
        pytest.param({"car.model": "T", "user_id": "ada"}, id="a model of a car"),
        pytest.param({"workflow.kind": "model", "workflow.name": "x"}, id="a kind alone"),
        pytest.param({"args": "('resize', 3)", "result": "done"}, id="a function"),
    ],
)
@pytest.mark.parametrize("status", [0, ERROR])
def test_other_software_makes_no_query(attributes, status):
    assert map_trace([span(1, 0, attributes, status=status)], NOW).queries == ()


@pytest.mark.parametrize("stand_in", ["default", "unknown", "None", "two words"])
def test_what_stands_in_for_an_id_is_none(stand_in):
    assert rag(session__id=stand_in).session_id is None


def test_an_error_that_the_application_caught_is_one():
    top, failed = span(1, 0), step(2, 1, "llm", input="The fee?")
    raised = span(2, 1, failed.attributes, status=ERROR, message="overloaded")
    assert record_of(top, raised).error == "llm: overloaded"
    answered = span(3, 1, {**failed.attributes, "acme.output": "Ten."})
    assert record_of(top, raised, answered).error is None
