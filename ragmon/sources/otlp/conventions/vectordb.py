"""Vector databases: OpenTelemetry's ``db.*`` keys, and OpenLLMetry's results.

In Python each result is an event, in JavaScript they are numbered keys (and Pinecone's metadata an
event, with the metadata's own keys). Langtrace names the events by database and has plain keys.

A number of rows alone does not describe the documents; it is read only when it is zero.
"""

import re
from typing import Any

from ragmon.sources.otlp.reading.documents import Document, document_of, oriented
from ragmon.sources.otlp.reading.facts import RETRIEVER, SpanFacts
from ragmon.sources.otlp.reading.values import first, indexed, integer, loads, plain
from ragmon.sources.otlp.spans import Event, Span

ORDER = 90
SPEAKS = frozenset({"db"})

_SYSTEMS = frozenset(
    {"chroma", "chromadb", "pinecone", "qdrant", "weaviate", "milvus", "lancedb", "marqo",
     "pgvector", "vespa", "turbopuffer"}
)  # fmt: skip
_OPERATIONS = ("query", "search", "similarity", "near", "hybrid", "retrieve")
_OF_VECTORS = ("vector_search", "vectorized_search", "hybrid_search", "similarity_search")
_RESULTS = re.compile(r"\Adb\.(?:[a-z]+\.)?(?:query|search)\.result\Z")
_NEAREST = "db.vector.query.top_k"
_NUMBERED = "db.vector.query.result"
_DESCRIPTION = re.compile(r"\A[a-z_]++=\d++ vectors?\Z")  # of a search by vectors, by OpenLIT
_COUNTS = ("db.response.returned_rows", f"{_NUMBERED}.matches_length")
_QUERIES = (
    "db.query.text",
    "db.vector.query.text",
    "db.chroma.query.query_texts",
    "db.query.texts",
)


def role(span: Span) -> str:
    """By system and operation."""
    attributes = span.attributes
    system = first(attributes, "db.system.name", "db.system")
    operation = first(attributes, "db.operation.name", "db.operation")
    named = str(operation[0]).lower() if operation else span.name.rpartition(".")[2].lower()
    if system and named.startswith(_OF_VECTORS):
        return RETRIEVER
    if not system or str(system[0]).lower() not in _SYSTEMS:
        return ""
    is_search = named.startswith(_OPERATIONS) or _NEAREST in attributes
    return RETRIEVER if is_search else ""


def read(span: Span, facts: SpanFacts) -> None:
    """Note the facts of a span."""
    if facts.role != RETRIEVER:
        return
    results = [event for event in span.events if _RESULTS.match(event.name)]
    if results:
        items = [_item(event) for event in results]
        documents = [document for item in items if (document := _document(item))]
        facts.set("documents", oriented(documents, items), results[0].name)
    elif numbered := indexed(span.attributes, _NUMBERED):
        facts.set("documents", _numbered(numbered, span), _NUMBERED)
    elif (count := first(span.attributes, *_COUNTS)) and integer(count[0]) == 0:
        facts.set("documents", [], count[1])
    if entry := first(span.attributes, *_QUERIES):
        structure = loads(entry[0])
        text = structure[0] if isinstance(structure, list) and structure else structure
        if not _DESCRIPTION.match(str(text)[:200]):
            facts.set("query", plain(text), entry[1])


def _numbered(results: list[dict[str, Any]], span: Span) -> list[Document]:
    """``db.vector.query.result.0.id`` and so on."""
    described = {
        event.name.split(".")[-2]: event.attributes
        for event in span.events
        if event.name.endswith(".metadata")
    }
    items = [{"metadata": described.get(str(rank)), **item} for rank, item in enumerate(results)]
    return [
        document_of(item) or Document(str(item["id"]) if "id" in item else None) for item in items
    ]


def _item(event: Event) -> dict[str, Any]:
    """``db.query.result.id`` and so on, without the prefix."""
    prefix = event.name + "."
    item = {key.removeprefix(prefix): loads(value) for key, value in event.attributes.items()}
    item = {key: value for key, value in item.items() if value is not None}
    if isinstance(item.get("document"), dict):
        item["metadata"] = item.pop("document")
    return item


def _document(item: dict[str, Any]) -> Document | None:
    return document_of(item) or (Document(str(item["id"])) if "id" in item else None)
