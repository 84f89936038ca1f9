"""What applications pass, and what of it reaches the wire."""

import datetime
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.client.batch import RecordKind
from ragmon.client.counters import LogAccounting
from ragmon.client.encode import Encoder
from ragmon.client.identity import text_id
from ragmon.client.inbox import Item
from ragmon.client.snapshot import copied_documents
from ragmon.records import (
    MAX_CHUNKS,
    MAX_TEXT,
    AnswerStep,
    Chunk,
    Feedback,
    Label,
    Latency,
    QueryRecord,
)


class Text(str):  # noqa: SLOT000 - its attributes are the point
    """Adds attributes to a string, as markup libraries do."""


class LangChain:
    """As ``langchain_core.documents.Document``."""

    def __init__(self, page_content, metadata=None, id=None):  # noqa: A002
        self.page_content, self.metadata, self.id, self.type = (
            page_content,
            metadata,
            id,
            "Document",
        )


class LlamaNode:
    """As ``llama_index.core.schema.TextNode``."""

    def __init__(self, id_, text, metadata):
        self.id_, self.text, self.metadata, self.embedding = id_, text, metadata, None


class LlamaComposedNode:
    """A LlamaIndex node without text of its own."""

    def __init__(self, id_, content):
        self.id_, self._content = id_, content

    def get_content(self):
        return self._content


class LlamaScored:
    """As ``llama_index.core.schema.NodeWithScore``: what does not apply to the node raises."""

    def __init__(self, node, score):
        self.node, self.score = node, score

    @property
    def text(self):
        raise ValueError("Node must be a TextNode to get text.")

    @property
    def metadata(self):
        return self.node.metadata


@dataclass
class Haystack:
    id: str
    content: str
    score: float
    meta: dict = field(default_factory=dict)


@dataclass(slots=True)
class Slotted:
    id: str
    text: str


class Hit(NamedTuple):
    id: str
    score: float
    text: str


class Computed:
    """Everything behind properties."""

    @property
    def chunk_id(self):
        return "c"

    @property
    def content(self):
        return "x"


class Dynamic:
    """Everything behind ``__getattr__``."""

    def __init__(self, **values):
        self._values = values

    def __getattr__(self, name):
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None


def encoded(kind=RecordKind.QUERY, **arguments):
    """The record as the server decodes it, and the counts."""
    accounting = LogAccounting()
    if "retrieved_docs" in arguments:
        arguments["retrieved_docs"], _ = copied_documents(arguments["retrieved_docs"])
    line = Encoder(accounting, {}).encode(Item(kind, {"query_id": "q", **arguments}, 100))
    types = {RecordKind.QUERY: QueryRecord, RecordKind.FEEDBACK: Feedback, RecordKind.LABEL: Label}
    return line and msgspec.json.decode(line, type=types[kind]), accounting.stats(0)


@pytest.mark.parametrize(
    ("document", "chunk"),
    [
        pytest.param(
            {"id": "d", "score": 0.5, "text": "x", "source": "s"},
            Chunk(id="d", score=0.5, text="x", source="s"),
            id="our own names",
        ),
        pytest.param(
            {"page_content": "x", "metadata": {"source": "s", "chunk_id": "c", "doc_id": "d"}},
            Chunk(id="c", text="x", source="s"),
            id="the chunk's id before the document's",
        ),
        pytest.param(
            {"_id": "e", "_score": 2, "_source": {"content": "x", "url": "u"}},
            Chunk(id="e", score=2.0, text="x", source="u"),
            id="an Elasticsearch hit",
        ),
        pytest.param(
            OrderedDict(id="d", text="x"), Chunk(id="d", text="x"), id="a dictionary's kin"
        ),
        pytest.param(
            MappingProxyType({"id": "d", "text": "x"}), Chunk(id="d", text="x"), id="any mapping"
        ),
        pytest.param({"content": "x"}, Chunk(id=text_id("x"), text="x"), id="text alone"),
        pytest.param({"source": "s"}, Chunk(id="s", source="s"), id="source alone"),
        pytest.param({"score": 1}, Chunk(id="1", score=1.0), id="nothing that names it: its rank"),
        pytest.param("x", Chunk(id=text_id("x"), text="x"), id="a string"),
        pytest.param(Text("x"), Chunk(id=text_id("x"), text="x"), id="a string of a kind"),
        pytest.param(7, Chunk(id="7"), id="an id that is a number"),
        pytest.param(("d", 0.5), Chunk(id="d", score=0.5), id="an id and a score"),
        pytest.param(
            (np.int64(3), np.float32(0.5)), Chunk(id="3", score=0.5), id="a pair of numpy numbers"
        ),
        pytest.param(("d", float("nan")), Chunk(id="d"), id="a score that is not a number"),
        pytest.param((uuid.UUID(int=1), None), Chunk(id=str(uuid.UUID(int=1))), id="a UUID"),
        pytest.param(
            LangChain("x", {"source": "s"}),
            Chunk(id=text_id("x"), text="x", source="s"),
            id="LangChain",
        ),
        pytest.param(
            (LangChain("x", {}, id="d"), 0.5),
            Chunk(id="d", score=0.5, text="x"),
            id="LangChain with a score",
        ),
        pytest.param(
            LlamaScored(LlamaNode("n", "x", {"file_name": "f"}), 0.5),
            Chunk(id="n", score=0.5, text="x", source="f"),
            id="LlamaIndex",
        ),
        pytest.param(
            LlamaScored(LlamaComposedNode("n", "x"), None),
            Chunk(id="n", text="x"),
            id="LlamaIndex, text composed when asked",
        ),
        pytest.param(
            Haystack("d", "x", 0.5, {"url": "u"}),
            Chunk(id="d", score=0.5, text="x", source="u"),
            id="Haystack",
        ),
        pytest.param(
            SimpleNamespace(id=1, score=0.5, payload={"text": "x"}),
            Chunk(id="1", score=0.5, text="x"),
            id="Qdrant",
        ),
        pytest.param(Slotted("d", "x"), Chunk(id="d", text="x"), id="slots"),
        pytest.param(Hit("d", 0.5, "x"), Chunk(id="d", score=0.5, text="x"), id="a named tuple"),
        pytest.param(Computed(), Chunk(id="c", text="x"), id="properties"),
        pytest.param(Dynamic(id="d", text="x"), Chunk(id="d", text="x"), id="dynamic attributes"),
        pytest.param(Chunk(id="d", text="x"), Chunk(id="d", text="x"), id="our own chunk"),
        pytest.param(
            {"id": "d" * 300}, Chunk(id=text_id("d" * 300)), id="an id too long is hashed"
        ),
    ],
)
def test_a_retrieved_document_becomes_a_chunk(document, chunk):
    record, stats = encoded(retrieved_docs=[document])
    assert record.chunks == [chunk]
    assert stats.dropped == {}


@pytest.mark.parametrize(
    ("documents", "chunks"),
    [
        pytest.param(None, None, id="none is unknown"),
        pytest.param([], [], id="an empty list is nothing found"),
        pytest.param((), [], id="a tuple"),
    ],
)
def test_unknown_is_not_empty(documents, chunks):
    assert encoded(retrieved_docs=documents)[0].chunks == chunks


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("retrieved_docs", (each for each in "ab")),
        ("retrieved_docs", {"id": "a"}),
        ("retrieved_docs", "text"),
        ("retrieved_docs", [None]),
        ("retrieved_docs", [("a", 1, 2)]),
        ("query", 5),
        ("answer", ["a"]),
        ("latency_ms", "fast"),
        ("latency_ms", -1.0),
        ("latency_ms", float("nan")),
        ("latency_ms", {"total": True}),
        ("citations", 1.5),
        ("citations", [{}, None]),
        ("user_feedback", "meh"),
        ("user_feedback", 2),
        ("pipeline", ["a"]),
        ("tags", ["a"]),
        ("tokens", 12),
        ("cost_usd", "12"),
        ("grades", [1]),
        ("relevant_ids", "abc"),
        ("steps", "search"),
        ("steps", {"kind": "tool"}),
        ("steps", [{"kind": "dance"}]),
        ("steps", [{"chunk_ids": 1.5}]),
        ("embeddings", [0.1, 0.2]),
        ("embeddings", {"query": [0.1]}),
        ("embeddings", {"query": [0.1, 0.2], "answer": [0.1]}),
        ("embeddings", {"query": [float("nan")], "answer": [0.1]}),
        ("embeddings", {"query": [0.1] * 8_193, "answer": [0.1] * 8_193}),
        ("embeddings", {"query": [], "answer": []}),
        ("query_answer_similarity", 1.5),
        ("timestamp", -5),
        ("whatever", object()),
    ],
)
def test_a_bad_argument_is_left_out_counted_and_the_rest_is_logged(argument, value):
    record, stats = encoded(**{"version": "v", argument: value})
    assert record == msgspec.structs.replace(QueryRecord(query_id="q", version="v"))
    assert stats.bad_arguments == {argument: 1}
    assert stats.dropped == {}


@pytest.mark.parametrize("score", ["high", pytest.param(10**400, id="more than a float holds")])
def test_a_score_that_is_no_number_costs_the_score_only(score):
    record, stats = encoded(retrieved_docs=[("a", score), ("b", 0.5)])
    assert record.chunks == [Chunk(id="a"), Chunk(id="b", score=0.5)]
    assert stats.bad_arguments == {"retrieved_docs.score": 1}


@pytest.mark.parametrize(
    ("argument", "value", "field", "expected"),
    [
        ("user_feedback", "Positive", "feedback", 1.0),
        ("user_feedback", "negative", "feedback", -1.0),
        ("user_feedback", True, "feedback", 1.0),
        ("user_feedback", False, "feedback", -1.0),
        ("user_feedback", np.False_, "feedback", -1.0),
        ("user_feedback", 0.25, "feedback", 0.25),
        ("latency_ms", 12, "latency_ms", Latency(total=12.0)),
        ("latency_ms", np.float64(1.5), "latency_ms", Latency(total=1.5)),
        ("latency_ms", {"total": 2, "retrieval": 1}, "latency_ms", Latency(2.0, 1.0)),
        ("latency_ms", Latency(2.0, 1.0, 0.5), "latency_ms", Latency(2.0, 1.0, 0.5)),
        ("tags", {"tenant": 5, "gone": None}, "tags", {"tenant": "5"}),
        ("citations", "a", "citations", ["a"]),
        ("citations", [1, "b"], "citations", ["1", "b"]),
        ("citations", [], "citations", []),
        ("answer", SimpleNamespace(content="said"), "answer", "said"),
        ("query", "x" * (MAX_TEXT + 1), "query", "x" * MAX_TEXT),
        ("query", "half \ud800 a pair", "query", "half ? a pair"),
        ("version", 12, "version", "12"),
        ("pipeline", "", "pipeline", "default"),
        ("cost_usd", 0.25, "cost_usd", 0.25),
        ("timestamp", datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC), "timestamp", 86400.0),
        ("relevant_ids", ("a", 2), "relevant_ids", ["a", "2"]),
        ("grades", {"a": 2}, "grades", {"a": 2.0}),
        ("retrieval_query", "the fee in May", "retrieval_query", "the fee in May"),
        (
            "steps",
            [{"chunk_ids": ["a", 2]}, SimpleNamespace(kind="tool", tool="sum", failed=True)],
            "steps",
            [AnswerStep(chunk_ids=["a", "2"]), AnswerStep(kind="tool", tool="sum", failed=True)],
        ),
        ("steps", ({"chunk_ids": []},), "steps", [AnswerStep(chunk_ids=[])]),
        (
            "embeddings",
            {"query": np.array([3.0, 4.0]), "answer": (4, 3)},
            "query_answer_similarity",
            pytest.approx(0.96),
        ),
        (
            "embeddings",
            SimpleNamespace(query=[1.0, 0.0], answer=np.float32([0.0, 1.0])),
            "query_answer_similarity",
            0.0,
        ),
        ("query_answer_similarity", np.float64(0.5), "query_answer_similarity", 0.5),
    ],
)
def test_common_spellings_are_understood(argument, value, field, expected):
    record, stats = encoded(**{argument: value})
    assert getattr(record, field) == expected
    assert stats.bad_arguments == {}


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt": 3, "completion": 4},
        {"prompt_tokens": 3, "completion_tokens": 4},
        SimpleNamespace(input_tokens=3, output_tokens=4),
    ],
)
def test_usage_objects_of_model_clients_are_token_counts(usage):
    tokens = encoded(tokens=usage)[0].tokens
    assert (tokens.prompt, tokens.completion) == (3, 4)


def test_a_citation_may_be_the_document_or_its_text():
    named, nameless = LangChain("x", id="d"), LangChain("a passage")
    record, _ = encoded(
        retrieved_docs=[named, nameless, "b"], citations=[named, nameless, "a passage", "b"]
    )
    assert record.citations == ["d", text_id("a passage"), text_id("a passage"), text_id("b")]
    assert set(record.citations) <= {chunk.id for chunk in record.chunks}


def test_a_step_may_name_its_documents():
    named, nameless = LangChain("x", id="d"), LangChain("a passage")
    record, _ = encoded(
        retrieved_docs=[named, nameless], steps=[{"chunk_ids": [named, "a passage"]}]
    )
    assert record.steps == [AnswerStep(chunk_ids=["d", text_id("a passage")])]
    assert {*record.steps[0].chunk_ids} == {chunk.id for chunk in record.chunks}


def test_an_argument_of_a_newer_server_is_sent_as_it_is():
    accounting = LogAccounting()
    line = Encoder(accounting, {}).encode(
        Item(RecordKind.QUERY, {"query_id": "q", "reranker": {"k": 3}}, 0)
    )
    assert msgspec.json.decode(line) == {"query_id": "q", "reranker": {"k": 3}}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        pytest.param(RecordKind.FEEDBACK, {"rating": "so so"}, id="feedback without a rating"),
        pytest.param(RecordKind.FEEDBACK, {"query_id": "", "rating": 1}, id="feedback on no query"),
        pytest.param(RecordKind.LABEL, {"labeller": "me"}, id="a label that says nothing"),
    ],
)
def test_a_record_that_says_nothing_is_counted_as_dropped(kind, arguments):
    record, stats = encoded(kind, **arguments)
    assert record is None
    assert stats.dropped == {"invalid": 1}


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        (
            RecordKind.FEEDBACK,
            {"rating": True, "comment": "c"},
            Feedback(query_id="q", rating=1.0, comment="c"),
        ),
        (RecordKind.LABEL, {"faithful": 0.5}, Label(query_id="q", faithful=0.5)),
        (RecordKind.LABEL, {"grades": {"a": 2}}, Label(query_id="q", grades={"a": 2.0})),
    ],
)
def test_feedback_and_labels(kind, arguments, expected):
    assert encoded(kind, **arguments)[0] == expected


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(["id", "score", "text", "node", "metadata", "total"]), inner
        )
        | st.builds(
            lambda values: SimpleNamespace(**values), st.dictionaries(st.just("text"), inner)
        )
    ),
    max_leaves=6,
)
names = st.sampled_from(
    ["query", "retrieved_docs", "citations", "latency_ms", "user_feedback", "tags", "tokens",
     "error", "timestamp", "grades", "relevant_ids", "cost_usd", "model", "version", "other",
     "steps", "embeddings"]
)  # fmt: skip


@given(arguments=st.dictionaries(names, anything, max_size=6))
def test_whatever_is_passed_the_server_can_read_what_is_sent(arguments):
    record, stats = encoded(**arguments)
    assert record.query_id == "q"
    assert stats.dropped == {}


def test_long_lists_are_cut_to_what_the_server_admits():
    record, _ = encoded(retrieved_docs=["x"] * (MAX_CHUNKS + 1), citations=["x"] * (MAX_CHUNKS + 1))
    assert len(record.chunks) == len(record.citations) == MAX_CHUNKS


def test_what_the_application_changes_after_the_call_is_not_logged():
    document, other = LangChain("before"), {"id": "a", "text": "before"}
    documents = [document, other, (LangChain("before"), 1)]
    kept, weight = copied_documents(documents)
    document.page_content = other["text"] = documents[2][0].page_content = "after"
    documents.clear()
    record, _ = encoded(retrieved_docs=kept)
    assert [chunk.text for chunk in record.chunks] == ["before"] * 3
    assert weight >= 3 * len("before")
