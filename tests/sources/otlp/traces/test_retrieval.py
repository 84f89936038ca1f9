"""What retrieved for a query where no span says so in so many words."""

import json
import time

import pytest

from ragmon.sources.otlp.spans import ERROR, Event
from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, span

DOCUMENTS = [
    {"id": "kb-1", "text": "one", "score": 0.9},
    {"id": "kb-2", "text": "two", "score": 0.5},
]
OUTPUT = json.dumps(DOCUMENTS)
KIND = "openinference.span.kind"
QDRANT = {"db.system": "Qdrant", "qdrant.search.collection_name": "kb"}


def record_of(*spans):
    """The one query of a trace."""
    queries = map_trace(spans, NOW).queries
    assert len(queries) == 1
    return queries[0].record


def whole(**attributes):
    return span(1, 0, {KIND: "CHAIN", "input.value": "why?", "output.value": "so", **attributes})


def step(name, attributes, **given):
    return span(2, 1, attributes, name=name, **given)


def model(parent=1):
    return span(9, parent, {KIND: "LLM", "output.value": "so"}, end_ns=int(NOW * 1e9) + 10**9)


TRACELOOP = {"traceloop.span.kind": "task", "traceloop.entity.output": OUTPUT}


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        pytest.param("retrieve", {KIND: "CHAIN", "output.value": OUTPUT}, id="a LangGraph node"),
        pytest.param(
            "retrieve",
            {KIND: "CHAIN", "output.value": json.dumps({"context": DOCUMENTS, "question": "why?"})},
            id="a LangGraph node that returns its state",
        ),
        pytest.param("search_kb.task", TRACELOOP, id="Traceloop"),
        pytest.param(
            "retrieval",
            {"langfuse.observation.type": "span", "langfuse.observation.output": OUTPUT},
            id="Langfuse",
        ),
        pytest.param(
            "vector_lookup",
            {"mlflow.spanType": '"UNKNOWN"', "mlflow.spanOutputs": OUTPUT},
            id="MLflow",
        ),
    ],
)
def test_a_step_that_is_called_like_a_retriever_and_returns_documents(name, attributes):
    record = record_of(whole(), step(name, attributes), model())
    assert [(chunk.id, chunk.score) for chunk in record.chunks] == [("kb-1", 0.9), ("kb-2", 0.5)]
    assert record.latency_ms.retrieval == 10.0


@pytest.mark.parametrize(
    ("name", "output", "known"),
    [
        pytest.param("retrieve", "[]", 0, id="it found nothing"),
        pytest.param("retrieve", "a text", None, id="it returns a text"),
        pytest.param("retrieve", '["one", "two"]', 2, id="it returns passages"),
        pytest.param("load_settings", OUTPUT, None, id="it is called otherwise"),
    ],
)
def test_what_a_step_says(name, output, known):
    chunks = record_of(whole(), step(name, {KIND: "CHAIN", "output.value": output}), model()).chunks
    assert (None if chunks is None else len(chunks)) == known


@pytest.mark.parametrize(
    ("output", "status", "known"),
    [
        pytest.param(OUTPUT, 0, 2, id="documents"),
        pytest.param("[]", 0, None, id="an empty list of anything"),
        pytest.param(OUTPUT, ERROR, None, id="it failed"),
    ],
)
def test_a_function_around_a_database_client(output, status, known):
    around = {**TRACELOOP, "traceloop.entity.output": output}
    database = span(3, 2, QDRANT, name="qdrant.query_points")
    record = record_of(whole(), step("prepare.task", around, status=status), database, model())
    assert (None if record.chunks is None else len(record.chunks)) == known


def test_a_step_that_generates_does_not_retrieve():
    asks = {KIND: "CHAIN", "output.value": '["first query", "second query"]'}
    assert record_of(whole(), step("search_queries", asks), model(parent=2)).chunks is None


def test_a_retriever_is_believed_before_the_step_around_it():
    inner = span(3, 2, {KIND: "RETRIEVER", "output.value": '[{"id": "kb-7", "text": "seven"}]'})
    around = step("retrieve", {KIND: "CHAIN", "output.value": OUTPUT})
    assert [chunk.id for chunk in record_of(whole(), around, inner, model()).chunks] == ["kb-7"]


@pytest.mark.parametrize(
    ("output", "ids"),
    [
        pytest.param({"answer": "so", "source_documents": DOCUMENTS}, ["kb-1", "kb-2"], id="whole"),
        pytest.param({"answer": "so", "source_documents": ["a", "b"]}, None, id="texts"),
        pytest.param({"answer": "so"}, None, id="none"),
        pytest.param(
            {"answers": {"answers": [{"data": "so", "query": "why?", "documents": DOCUMENTS}]}},
            ["kb-1", "kb-2"],
            id="Haystack's answer builder",
        ),
    ],
)
def test_sources_beside_the_answer(output, ids):
    chunks = record_of(whole(**{"output.value": json.dumps(output)}), model()).chunks
    assert (None if chunks is None else [chunk.id for chunk in chunks]) == ids


def test_a_tool_that_retrieves_takes_its_time_and_has_its_query():
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search_docs",
        "gen_ai.tool.call.arguments": '{"query": "reason"}',
        "gen_ai.tool.call.result": OUTPUT,
    }
    record = record_of(whole(), step("execute_tool search_docs", tool), model())
    assert (record.query, record.retrieval_query) == ("why?", "reason")
    assert record.latency_ms.retrieval == 10.0


@pytest.mark.parametrize(
    ("distances", "scores"),
    [
        pytest.param([0.1, 0.5], [0.9, 0.5], id="they rise: distances"),
        pytest.param([0.9, 0.5], [0.9, 0.5], id="they fall: similarities"),
        pytest.param([0.1], [0.9], id="one: a distance"),
    ],
)
def test_what_milvus_calls_a_distance(distances, scores):
    events = tuple(
        Event(
            "db.search.result",
            1,
            {
                "db.search.result.id": f"kb-{n}",
                "db.search.result.distance": str(distance),
                "db.search.result.entity": "{'text': 'it\\'s one'}",
            },
        )
        for n, distance in enumerate(distances)
    )
    milvus = {"db.system": "milvus", "db.operation": "search"}
    chunks = record_of(whole(), span(2, 1, milvus, events=events)).chunks
    assert [chunk.score for chunk in chunks] == pytest.approx(scores)
    assert chunks[0].text == "it's one"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param(
            {"llm.model_name": "m", "gen_ai.response.model": "m-2026"}, "m-2026", id="both"
        ),
        pytest.param({"llm.model_name": "m"}, "m", id="only who was asked"),
        pytest.param(
            {"llm.response.model_name": "m-1", "llm.model_name": "m"}, "m-1", id="one convention"
        ),
    ],
)
def test_the_model_that_answered_goes_before_the_one_that_was_asked(attributes, expected):
    assert record_of(whole(), span(2, 1, {KIND: "LLM", **attributes})).model == expected


def test_a_tool_whose_result_is_shown_as_an_object():
    shown = f"status='success' result='{OUTPUT}' error=None"
    tool = {"traceloop.span.kind": "tool", "traceloop.entity.output": shown}
    chunks = record_of(whole(), step("lookup.tool", tool), model()).chunks
    assert [(chunk.id, chunk.score) for chunk in chunks] == [("kb-1", 0.9), ("kb-2", 0.5)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{'a': <broken", id="cut"),
        pytest.param("{'a': {1, 2}}", id="a set"),
        pytest.param("[" * 3000 + "'", id="deep"),
        pytest.param("['one'" + ", 'two'" * 50_000, id="long and cut"),
    ],
)
def test_what_cannot_be_read_stays_a_text(text):
    found = record_of(whole(**{"output.value": text}), model())
    assert found.answer == text[: len(found.answer)]


def test_deep_traces_are_walked_once():
    spans = [span(n, n - 1, {KIND: "CHAIN"}, name="search") for n in range(1, 5_000)]
    began = time.process_time()
    assert map_trace([*spans, model(parent=4_999)], NOW).queries
    assert time.process_time() - began < 1.5  # about 0.2 s; quadratic work takes ten times that


# A database inside of a retriever that says less.

_TEXTS = [json.dumps({"page_content": text, "metadata": {}}) for text in ("one", "two")]


def database(*results):
    """A vector database's own span, with an event for each result."""
    events = tuple(Event("db.query.result", 0, result) for result in results)
    return span(3, 2, {"db.system": "chroma", "db.operation": "query"}, events=events)


def result(name, distance, text=None):
    known = {"db.query.result.id": name, "db.query.result.distance": distance}
    return known | ({"db.query.result.document": text} if text else {})


RETRIEVER = {KIND: "RETRIEVER", "output.value": "[" + ",".join(_TEXTS) + "]"}


@pytest.mark.parametrize(
    "results",
    [
        pytest.param([result("a", 0.1), result("b", 0.4)], id="ids in the same order"),
        pytest.param(
            [result("c", 0.05, "three"), result("b", 0.4, "two"), result("a", 0.1, "one")],
            id="the same texts, in another order",
        ),
    ],
)
def test_ids_and_distances_of_a_database_are_not_hidden_by_the_retriever_around_it(results):
    record = record_of(whole(), step("retrieve", RETRIEVER), database(*results), model())
    assert [(chunk.id, chunk.text) for chunk in record.chunks] == [("a", "one"), ("b", "two")]
    assert [chunk.score for chunk in record.chunks] == pytest.approx([0.9, 0.6])


def test_what_a_database_found_besides_is_nobody_elses():
    found = [result(name, 0.1) for name in "abc"]
    record = record_of(whole(), step("retrieve", RETRIEVER), database(*found), model())
    assert [chunk.score for chunk in record.chunks] == [None, None]


def test_what_a_retriever_says_itself_stays():
    said = {KIND: "RETRIEVER", "output.value": OUTPUT}
    found = [result("x", 0.3, "one"), result("y", 0.4, "two")]
    record = record_of(whole(), step("retrieve", said), database(*found), model())
    assert [(chunk.id, chunk.score) for chunk in record.chunks] == [("kb-1", 0.9), ("kb-2", 0.5)]
