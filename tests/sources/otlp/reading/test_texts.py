"""Questions and answers in the shapes that instrumentations send."""

import json

import pytest

from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW
from tests.support.otlp_spans import record_of, retriever, root

HAYSTACK = {"data": {"embedder": {"text": "why?"}, "prompt": {"question": "why?"}}}
LANGGRAPH = {"messages": [{"role": "user", "content": "why?"}]}
LANGCHAIN = {"lc": 1, "id": ["langchain", "HumanMessage"], "type": "constructor"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("why?", id="text"),
        pytest.param({"question": "why?"}, id="question"),
        pytest.param({"input": "why?", "chat_history": [["human", "hello"]]}, id="with history"),
        pytest.param({"query": "why?"}, id="query"),
        pytest.param({"message": "why?"}, id="LlamaIndex chat"),
        pytest.param({"query_bundle": {"query_str": "why?", "embedding": None}}, id="query bundle"),
        pytest.param(HAYSTACK, id="Haystack"),
        pytest.param(LANGGRAPH, id="LangGraph"),
        pytest.param({"messages": [{"type": "human", "content": "why?"}]}, id="LangChain message"),
        pytest.param(
            {"messages": [[{**LANGCHAIN, "kwargs": {"content": "why?"}}]]}, id="LangChain's own"
        ),
        pytest.param({"messages": [["human", "hi"], ["human", "why?"]]}, id="pairs"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "why?"}]}]},
            id="parts",
        ),
        pytest.param({"args": ["why?"], "kwargs": {}}, id="arguments"),
        pytest.param({"args": ["<app.Rag object at 0x7f>", "why?"], "kwargs": {}}, id="a method"),
        pytest.param({"kwargs": {"question": "why?"}, "args": []}, id="named arguments"),
        pytest.param({"q": "why?"}, id="one argument of any name"),
        pytest.param(
            "{'prompt': {'question': 'why?'}, 'to': <function f.<locals>.<lambda> at 0x7f>}",
            id="as Python shows it",
        ),
    ],
)
def test_questions(given):
    text = given if isinstance(given, str) else json.dumps(given)
    assert record_of(root(**{"input.value": text}), retriever()).query == "why?"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(["why?"], None, id="the question itself"),
        pytest.param([" why?\n"], None, id="but for white space"),
        pytest.param(["reason of it"], "reason of it", id="rewritten"),
        pytest.param(["why?", "cause", "cause", "aim"], "cause\naim", id="several, each once"),
    ],
)
def test_what_the_retriever_was_asked_instead(asked, expected):
    steps = [
        retriever(number, **{"input.value": text}) for number, text in enumerate(asked, start=2)
    ]
    found = record_of(root(**{"input.value": "why?"}), *steps)
    assert (found.query, found.retrieval_query) == ("why?", expected)


def test_without_a_question_nothing_was_rewritten():
    found = record_of(retriever(**{"input.value": "cause"}))
    assert (found.query, found.retrieval_query) == ("cause", None)


@pytest.mark.parametrize(
    ("parents", "circles"),
    [
        pytest.param([0, 1], 0, id="a tree"),
        pytest.param([9, 1], 0, id="a parent that got lost"),
        pytest.param([1, 1], 1, id="its own parent"),
        pytest.param([2, 1, 2], 1, id="two in a circle, one below"),
    ],
)
def test_parents_in_a_circle_are_cut_and_counted(parents, circles):
    spans = [retriever(number, parent) for number, parent in enumerate(parents, start=1)]
    found = map_trace(spans, NOW)
    assert found.circles == circles
    assert len(found.queries) == 1


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param("because", id="text"),
        *(
            pytest.param({key: "because", "question": "why?", "context": "c"}, id=key)
            for key in ("answer", "response", "output", "result", "content", "output_text")
        ),
        pytest.param({"llm": {"replies": ["because"]}}, id="Haystack"),
        pytest.param(
            {"answer_builder": {"answers": [{"data": "because", "query": "why?"}]}},
            id="Haystack's answer builder",
        ),
        pytest.param(
            {"messages": [{"type": "human", "data": {"content": "why?"}},
                          {"type": "ai", "data": {"content": "because"}}]},
            id="LangGraph",
        ),
        pytest.param({"response": "because", "source_nodes": []}, id="LlamaIndex"),
        pytest.param({"choices": [{"message": {"role": "assistant", "content": "because"}}]},
                     id="OpenAI"),
        pytest.param({"reasoning": "so", "answer": "because"}, id="DSPy"),
    ],
)  # fmt: skip
def test_answers(returned):
    text = returned if isinstance(returned, str) else json.dumps(returned)
    assert record_of(root(**{"output.value": text}), retriever()).answer == "because"


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        pytest.param(["It ", "is ", "so."], "It is so.", id="the pieces of a stream"),
        pytest.param(["It", " is", " so."], "It is so.", id="with spaces in front"),
        pytest.param(["first", "second"], "second", id="several answers: the last"),
    ],
)
def test_a_list_of_texts(pieces, said):
    assert record_of(root(**{"output.value": json.dumps(pieces)}), retriever()).answer == said


def test_an_answer_is_kept_whole_though_it_begins_like_an_object():
    said = "Generally, set text='hello' in the configuration."
    output = {"messages": [{"role": "assistant", "content": said}]}
    assert record_of(root(**{"output.value": json.dumps(output)}), retriever()).answer == said


def test_a_score_that_no_number_holds_is_not_recorded():
    output = json.dumps([{"id": "kb-1", "text": "a", "score": 10**400}])
    (chunk,) = record_of(retriever(**{"output.value": output})).chunks
    assert (chunk.id, chunk.score) == ("kb-1", None)


@pytest.mark.parametrize("text", ["__REDACTED__", "<generator object>", "", "null", "None"])
def test_what_is_no_answer(text):
    record = record_of(root(**{"output.value": text, "input.value": text}), retriever())
    assert (record.answer, record.query) == (None, None)
