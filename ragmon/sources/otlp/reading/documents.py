"""Retrieved documents, from every shape in which instrumentations write them."""

import hashlib
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

from msgspec import Struct

from ragmon.records import MAX_CHUNKS, MAX_ID, MAX_TEXT, Chunk
from ragmon.sources.otlp.reading.reprs import fields_in
from ragmon.sources.otlp.reading.values import (
    is_redacted,
    loads,
    number,
    parts_text,
    unwrapped,
)

_MAX_DEPTH = 6
_TEXT_KEYS = (
    "page_content",
    "content",
    "text",
    "document",
    "chunk",
    "passage",
    "pageContent",
    "body",
)
ID_KEYS = ("id", "id_", "node_id", "doc_id", "document_id", "chunk_id", "_id")
_METADATA_KEYS = ("metadata", "meta", "payload", "entity", "properties", "extra_info")
_METADATA_IDS = (
    "source",
    "doc_id",
    "doc_uri",
    "chunk_id",
    "id",
    "document_id",
    "file_name",
    "file_path",
    "url",
    "title",
)
_SCORES = ("score", "relevance_score", "similarity", "similarity_score", "_score", "relevanceScore")
_DISTANCES = ("distance", "_distance")
_LISTS = ("documents", "nodes", "source_nodes", "source_documents", "sources", "results", "result",
          "chunks", "docs", "answers", "matches", "hits", "points", "passages", "artifact",
          "relevantContext", "context", "data", "outputs", "output", "retriever", "items", "value",
          "response", "content")  # fmt: skip
_REPR = re.compile(
    r"^<?(?:\w+\.)*(?:NodeWithScore|Document|TextNode|ScoredPoint|Node|ScoredVector)\("
)
_REPR_ID = re.compile(r"\b(?:id_?|node_id)\s*[=:]\s*['\"]?([^'\",)\s]+)")
_REPR_SCORE = re.compile(r"\A.*\bscore\s*[=:]\s*(-?\d[\d.eE+-]*)", re.DOTALL)
_REPR_TEXT = re.compile(
    r"\b(?:content|text|page_content)\s*[=:]\s*(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")"
)


class Document(Struct, frozen=True):
    """One retrieved passage, as far as the span records it."""

    id: str | None = None
    score: float | None = None
    text: str | None = None
    source: str | None = None


def documents_in(
    value: Any, *, texts: bool = False, depth: int = _MAX_DEPTH
) -> list[Document] | None:
    """The documents in an output.

    Args:
        value: JSON text or a structure.
        texts: plain strings in a list are passages.
        depth: how deep to look.

    Returns:
        Documents in their order; an empty list only when the value records that there were none;
        None when it does not hold documents.
    """
    value = unwrapped(loads(value))
    if not depth:
        return None
    if isinstance(value, list):
        return _listed(value, texts, depth)
    if not isinstance(value, dict):
        return None
    if value.get("count") == 0 and not value.get("documents"):
        return []
    named = (value[key] for key in _LISTS if key in value)
    inner = (each for each in value.values() if isinstance(each, dict))
    candidates = (documents_in(each, texts=texts, depth=depth - 1) for each in chain(named, inner))
    return next((each for each in candidates if each is not None), None)


def passages_in(value: Any) -> list[Document] | None:
    """The documents in a retriever's output, where plain strings are passages."""
    return documents_in(value, texts=True)


def some_documents_in(value: Any) -> list[Document] | None:
    """The documents in an output that may hold other things; None for an empty list."""
    return documents_in(value) or documents_in(fields_in(value)) or None


def _listed(items: list[Any], texts: bool, depth: int) -> list[Document] | None:
    if not items:
        return []
    candidates = [document_of(each, texts=texts) for each in items[:MAX_CHUNKS]]
    documents = [each for each in candidates if each is not None]
    if len(documents) == len(candidates):
        return oriented(documents, items)
    if len(items) == 1:
        return documents_in(items[0], texts=texts, depth=depth - 1) or None
    nested = [documents_in(each, depth=depth - 1) for each in items[:64] if isinstance(each, dict)]
    return next((each for each in nested if each), None)


def document_of(item: Any, *, texts: bool = False) -> Document | None:
    """One document; None when it is none."""
    if isinstance(item, str):
        return _from_text(item, texts)
    if isinstance(item, list) and len(item) == 2 and number(item[1]) is not None:
        inner = document_of(item[0], texts=texts)  # LangChain's (document, score)
        return inner and Document(inner.id, number(item[1]), inner.text, inner.source)
    if not isinstance(item, dict) or "role" in item:
        return None
    for key in ("node", "document", "kwargs", "json"):
        if isinstance(item.get(key), dict):
            inner = document_of(item[key])
            return inner and Document(
                inner.id or _id(item), _score(item, {}) or inner.score, inner.text, inner.source
            )
    return _from_dict(item)


def _from_dict(item: dict[str, Any]) -> Document | None:
    metadata: dict[str, Any] = {}
    described = False
    for key in _METADATA_KEYS:
        if key in item:
            described = True
            inner = loads(item[key])
            metadata |= inner if isinstance(inner, dict) else {}
    text = _text(item) or _text(metadata)
    score, own_id = _score(item, metadata), _id(item)
    if text is None and score is not None:
        text = _unnamed_text(item)
    is_document = (
        text is not None or score is not None or (own_id and (described or len(item) == 1))
    )
    if not is_document and not (described and any(key in item for key in _TEXT_KEYS)):
        return None
    source = next((str(metadata[key]) for key in _METADATA_IDS if _is_id(metadata.get(key))), None)
    return Document(own_id or source, score, text, source)


def _from_text(item: str, texts: bool) -> Document | None:
    if item.startswith("{"):
        structure = loads(item)
        return document_of(structure) if isinstance(structure, dict) else None
    if _REPR.match(item):
        text = _REPR_TEXT.search(item)
        score = _REPR_SCORE.match(item)
        own_id = _REPR_ID.search(item)
        return Document(
            own_id[1] if own_id else None,
            number(score[1]) if score else None,
            (text[1] or text[2]) if text else None,
        )
    return Document(text=item) if texts and item.strip() else None


def _text(item: dict[str, Any]) -> str | None:
    for key in _TEXT_KEYS:
        value = item.get(key)
        if isinstance(value, str) and value and not is_redacted(value):
            return value
    return parts_text(item)


def _unnamed_text(item: dict[str, Any]) -> str | None:
    """The only text beside a score and an id, whatever it is called."""
    texts = [value for key, value in item.items() if key not in ID_KEYS and isinstance(value, str)]
    return texts[0] if len(texts) == 1 and not is_redacted(texts[0]) else None


def _is_id(value: Any) -> bool:
    return (isinstance(value, str) and bool(value) and not is_redacted(value)) or (
        isinstance(value, int) and not isinstance(value, bool)
    )


def _id(item: dict[str, Any]) -> str | None:
    return next((str(item[key]) for key in ID_KEYS if _is_id(item.get(key))), None)


def _score(item: dict[str, Any], metadata: dict[str, Any]) -> float | None:
    for holder in (item, metadata):
        for key in _SCORES:
            if (score := number(holder.get(key))) is not None:
                return score
    for holder in (item, metadata):
        for key in _DISTANCES:
            if (distance := number(holder.get(key))) is not None:
                return 1.0 - distance
    return None


def oriented(documents: list[Document], items: list[Any]) -> list[Document]:
    """The documents of these items; distances that fall from rank to rank are similarities.

    Milvus calls both a distance, and its metric is not on the span.
    """
    distances = [_distance(each) if isinstance(each, dict) else None for each in items]
    first, last = distances[0], distances[-1]
    if first is None or last is None or first <= last or len(documents) != len(distances):
        return documents
    pairs = zip(documents, distances, strict=True)
    return [Document(each.id, score, each.text, each.source) for each, score in pairs]


def _distance(item: dict[str, Any]) -> float | None:
    if any(key in item for key in _SCORES):
        return None
    return next((each for key in _DISTANCES if (each := number(item.get(key))) is not None), None)


def merged(mine: list[Document], theirs: list[Document] | None) -> list[Document]:
    """Two descriptions of the same documents: fields missing in the first come from the second."""
    if not theirs or len(theirs) != len(mine):
        return mine
    return [
        Document(b.id if a.id is None or a.id == a.source else a.id,
                 b.score if a.score is None else a.score, a.text or b.text, a.source or b.source)
        if b.id or b.score is not None or b.text else a
        for a, b in zip(mine, theirs, strict=True)
    ]  # fmt: skip


def completed(mine: list[Document], inside: list[Document]) -> list[Document]:
    """The documents of a step with ids and scores that a step inside recorded of the same ones.

    They are the same when their texts are. Without texts inside, ids and distances in the order of
    as many documents are theirs.
    """
    if any(each.text for each in inside):
        by_text = {each.text.strip(): each for each in inside if each.text}
        theirs = [by_text.get((each.text or "").strip(), Document()) for each in mine]
    elif len(inside) == len(mine):
        theirs = inside
    else:
        return mine
    return [
        Document(
            b.id if a.id is None else a.id,
            b.score if a.score is None else a.score,
            a.text,
            a.source or b.source,
        )
        for a, b in zip(mine, theirs, strict=True)
    ]


def chunks_of(documents: Iterable[Document]) -> list[Chunk]:
    """As the record holds them: every chunk has an id, if only made from its text or its rank."""
    return [_chunk(each, rank) for rank, each in enumerate(documents, 1)][:MAX_CHUNKS]


def _chunk(document: Document, rank: int) -> Chunk:
    text = document.text[:MAX_TEXT] if document.text else None
    made = document.id or (f"text-{digest(text)}" if text else f"rank-{rank}")
    made = made.replace("\0", "")
    if not made or len(made) > MAX_ID:
        made = f"id-{digest(made)}"
    return Chunk(made, document.score, text, document.source[:4096] if document.source else None)


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
