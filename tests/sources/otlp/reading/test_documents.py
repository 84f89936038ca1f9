"""Documents in the shapes that instrumentations send."""

import json

import pytest

from ragmon.sources.otlp.spans import ERROR, Event
from tests.support.otlp import span
from tests.support.otlp_spans import KIND, OP, record_of, retriever

LLAMA_NODES = ["<NodeWithScore(node=TextNode(id_=kb-1), score=0.9)>",
               "<NodeWithScore(node=TextNode(id_='kb-2'), score=0.5)>"]  # fmt: skip
HAYSTACK_DOCUMENTS = {
    "documents": ["Document(id=kb-1, content: 'a', meta: {'t': 1}, score: 0.9)",
                  "Document(id=kb-2, content: 'it''s', score: 0.5)"]
}  # fmt: skip
TRACELOOP_NODES = [
    json.dumps({"node": {"id_": "kb-1", "text": "a", "metadata": {}}, "score": 0.9}),
    json.dumps({"node": {"id_": "kb-2", "text": "b", "metadata": {}}, "score": 0.5}),
]
PAIRS = {"kb-1": 0.9, "kb-2": 0.5}


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(
            {KIND: "RETRIEVER", "retrieval.documents.1.document.id": "kb-2",
             "retrieval.documents.0.document.id": "kb-1",
             "retrieval.documents.0.document.score": 0.9,
             "retrieval.documents.1.document.score": 0.5},
            id="OpenInference",
        ),
        pytest.param(
            {KIND: "RETRIEVER",
             **{f"retrieval.documents.{n}.document.metadata":
                json.dumps({"doc_id": f"kb-{n + 1}", "similarity_score": 0.9 - 0.4 * n})
                for n in range(2)}},
            id="OpenInference, ids and scores in the metadata",
        ),
        pytest.param({KIND: "RETRIEVER", "output.value": json.dumps(LLAMA_NODES)}, id="LlamaIndex"),
        pytest.param({KIND: "RETRIEVER", "output.value": json.dumps(HAYSTACK_DOCUMENTS)},
                     id="Haystack"),
        pytest.param(
            {OP: "retrieval", "gen_ai.retrieval.documents":
             json.dumps([{"id": i, "score": s} for i, s in PAIRS.items()])},
            id="GenAI in JSON",
        ),
        pytest.param(
            {OP: "retrieval", "gen_ai.retrieval.documents":
             [{"id": i, "score": s} for i, s in PAIRS.items()]},
            id="GenAI structured",
        ),
        pytest.param(
            {"traceloop.entity.name": "VectorIndexRetriever.task", "traceloop.span.kind": "task",
             "traceloop.entity.output": json.dumps(TRACELOOP_NODES)},
            id="Traceloop LlamaIndex",
        ),
        pytest.param(
            {"langfuse.observation.type": "retriever", "langfuse.observation.output":
             json.dumps([{"id": i, "text": "t", "score": s} for i, s in PAIRS.items()])},
            id="Langfuse",
        ),
        pytest.param(
            {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs":
             json.dumps([{"page_content": "t", "metadata": {"doc_uri": i, "score": s}, "id": None}
                         for i, s in PAIRS.items()])},
            id="MLflow",
        ),
        pytest.param(
            {KIND: "RETRIEVER", "output.value":
             json.dumps({"matches": [{"id": i, "score": s, "metadata": {"text": "t"}}
                                     for i, s in PAIRS.items()]})},
            id="Pinecone's answer",
        ),
        pytest.param(
            {KIND: "RETRIEVER", "output.value":
             json.dumps([[{"page_content": "t", "metadata": {"source": i}}, s]
                         for i, s in PAIRS.items()])},
            id="LangChain with scores",
        ),
    ],
)  # fmt: skip
def test_documents(attributes):
    record = record_of(span(1, 0, attributes))
    assert [chunk.id for chunk in record.chunks] == list(PAIRS)
    assert [chunk.score for chunk in record.chunks] == pytest.approx(list(PAIRS.values()))


def test_passages_without_ids_get_some():
    chunks = record_of(retriever(1, 0, **{"output.value": '["one", "two", "one"]'})).chunks
    assert [chunk.text for chunk in chunks] == ["one", "two", "one"]
    assert chunks[0].id == chunks[2].id != chunks[1].id


@pytest.mark.parametrize(
    ("attributes", "status", "known"),
    [
        pytest.param({KIND: "RETRIEVER", "retrieval.documents": []}, 0, 0, id="empty list"),
        pytest.param({KIND: "RETRIEVER", "output.value": "[]"}, 0, 0, id="empty output"),
        pytest.param(
            {KIND: "RETRIEVER", "output.value": '{"documents": []}'}, 0, 0, id="LangChain"
        ),
        pytest.param({KIND: "RETRIEVER"}, 0, 0, id="nothing at all, and it ended well"),
        pytest.param({KIND: "RETRIEVER"}, ERROR, None, id="it failed"),
        pytest.param({KIND: "RETRIEVER", "output.value": "__REDACTED__"}, 0, None, id="redacted"),
        pytest.param({OP: "retrieval", "gen_ai.retrieval.documents": "[]"}, 0, 0, id="GenAI, none"),
        pytest.param({OP: "retrieval"}, 0, None, id="GenAI, not recorded"),
        pytest.param(
            {OP: "vector_db_retrieve", "traceloop.span.kind": "task",
             "traceloop.entity.output": '{"documents": [], "count": 0}'},
            0, 0, id="Traceloop, none",
        ),
        pytest.param({OP: "vector_db_retrieve", "traceloop.span.kind": "task"}, 0, None,
                     id="Traceloop without content"),
        pytest.param({"db.system": "qdrant", "db.operation": "search",
                      "db.response.returned_rows": 0}, 0, 0, id="a database, no rows"),
        pytest.param({"db.system": "qdrant", "db.operation": "search",
                      "db.response.returned_rows": 3}, 0, None, id="a database, some rows"),
    ],
)  # fmt: skip
def test_unknown_is_not_zero(attributes, status, known):
    chunks = record_of(span(1, 0, {}), span(2, 1, attributes, status=status)).chunks
    assert (None if chunks is None else len(chunks)) == known


def test_a_vector_database_gives_distances():
    events = tuple(
        Event("db.query.result", 1, {"db.query.result.id": i, "db.query.result.distance": 1 - s})
        for i, s in PAIRS.items()
    )
    chroma = {"db.system": "chroma", "db.operation": "query"}
    record = record_of(span(1, 0, {}), span(2, 1, chroma, events=events))
    assert [chunk.id for chunk in record.chunks] == list(PAIRS)
    assert [chunk.score for chunk in record.chunks] == pytest.approx(list(PAIRS.values()))
