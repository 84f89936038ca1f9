"""Retrieved documents of any library, as chunks of the wire, without importing any of them.

Understood are the spellings and nestings of LangChain, LlamaIndex, Haystack, Qdrant, Milvus,
Elasticsearch and Chroma; plain dictionaries, strings and ``(id, score)`` pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache, partial
from math import inf
from numbers import Integral
from typing import Any
from uuid import UUID

from ragmon.client.identity import text_id, wire_id
from ragmon.client.limits import MAX_CHUNKS, MAX_ID, MAX_STEPS, MAX_TEXT
from ragmon.client.snapshot import Copied

Wire = dict[str, Any]
Layer = Mapping[str, Any]
"""Names and values of a document, or of something inside it."""

_ID = ("chunk_id", "id", "id_", "node_id", "doc_id", "document_id", "_id", "uuid")
_SCORE = ("score", "_score", "similarity", "similarity_score", "relevance_score", "relevance")
_TEXT = ("text", "page_content", "content", "chunk", "passage", "body", "snippet", "document")
_SOURCE = ("source", "url", "uri", "file_path", "file_name", "filename", "path", "link")
_NESTED = ("node", "document", "payload", "entity", "_source", "properties", "metadata", "meta")
_NAMES = frozenset((*_ID, *_SCORE, *_TEXT, *_SOURCE, *_NESTED, "get_content"))
_KINDS = ("retrieval", "tool")
_SCALARS = (str, bytes, bool, int, float, list, tuple, set)
_MAX_SOURCE = 4096
_MAX_SCORE = 1e12


class DocumentReader:
    """Reads the documents of one query, then what the answer cites of them."""

    def __init__(self) -> None:
        self.unusable: list[object] = []
        """Scores that are no numbers; their chunks are kept without one."""
        self._ids: dict[str, str] = {}  # by text, of documents that came without an id

    def chunks(self, documents: object) -> list[Wire]:
        """Chunks, best first.

        Raises:
            ValueError: not a list of documents, or one of them is not understood: without it the
                ranks of the others would be wrong.
        """
        if not isinstance(documents, (list, tuple)):
            raise ValueError(f"expected a list of documents, got {type(documents).__name__}")
        return [self._chunk(document, rank) for rank, document in enumerate(documents, 1)]

    def steps(self, calls: object) -> list[Wire]:
        """Calls of an agent, in their order; a document or its text may stand for its id.

        Raises:
            ValueError: not a list of calls, or one of them is not understood.
        """
        if not isinstance(calls, (list, tuple)):
            raise ValueError(f"expected a list of calls, got {type(calls).__name__}")
        return [self._step(call) for call in calls[:MAX_STEPS]]

    def _step(self, call: Any) -> Wire:
        look = call.get if isinstance(call, Mapping) else partial(_attribute, call)
        kind = look("kind") or "retrieval"
        if kind not in _KINDS:
            raise ValueError("expected `kind` to be retrieval or tool")
        step: Wire = {"kind": kind}
        if look("tool"):
            step["tool"] = str(look("tool"))[:MAX_ID]
        if look("chunk_ids") is not None:
            step["chunk_ids"] = self.citations(look("chunk_ids"))
        if look("failed"):
            step["failed"] = True
        return step

    def citations(self, cited: object) -> list[str]:
        """Ids of the cited chunks; a document or its text may stand for its id.

        Raises:
            ValueError: not a list of ids or documents.
        """
        if isinstance(cited, (str, int)) and not isinstance(cited, bool):
            cited = [cited]
        if not isinstance(cited, (Sequence, Set)):
            raise ValueError(f"expected a list of ids, got {type(cited).__name__}")
        return [self._cited_id(one) for one in cited][:MAX_CHUNKS]

    def _cited_id(self, cited: Any) -> str:
        if isinstance(cited, str):
            return self._ids.get(cited) or wire_id(cited)
        if isinstance(cited, Mapping) or hasattr(cited, "__dict__"):
            return str(self._chunk(cited, 0)["id"])
        return wire_id(cited)

    def _chunk(self, document: Any, rank: int) -> Wire:
        """One document on the wire; ``rank`` names what has neither id, text nor source."""
        if isinstance(document, str):
            return {"id": self._id_of(document), "text": document[:MAX_TEXT]}
        if isinstance(document, (Integral, UUID)):
            return {"id": wire_id(document)}
        if isinstance(document, tuple) and not hasattr(document, "_fields"):
            return self._scored(document, rank)
        layers = _layers(document)
        identity, source = _first(layers, _ID), _first(layers, _SOURCE)
        text = _first(layers, _TEXT, str) or _composed(layers)
        if identity is None:
            identity = self._id_of(text) if text else source or rank
        chunk: Wire = {"id": wire_id(identity)}
        score = _first(layers, _SCORE)
        if score is not None:
            chunk["score"] = self._score(score)
        if text is not None:
            chunk["text"] = text[:MAX_TEXT]
        if source is not None:
            chunk["source"] = str(source)[:_MAX_SOURCE]
        return chunk

    def _scored(self, pair: tuple[Any, ...], rank: int) -> Wire:
        """A document or an id, with its score."""
        if len(pair) != 2:
            raise ValueError(f"expected (document, score), got {len(pair)} values")
        document, score = pair
        named = isinstance(document, str)
        chunk = {"id": wire_id(document)} if named else self._chunk(document, rank)
        return {**chunk, "score": self._score(score)}

    def _score(self, value: Any) -> float | None:
        """A finite number of any numeric type, or unknown."""
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            number = inf
        if abs(number) <= _MAX_SCORE:
            return number
        self.unusable.append(value)
        return None

    def _id_of(self, text: str) -> str:
        """The id of a document that has nothing but its text."""
        self._ids[text] = text_id(text)
        return self._ids[text]


def _layers(document: Any) -> list[Layer]:
    """Layers in which names may stand: the document, then the objects inside it."""
    outer = _layer(document)
    layers = [outer]
    for name in _NESTED:
        inner = outer.get(name)
        if inner is not None and not isinstance(inner, _SCALARS):
            layers += _layers(inner) if name == "node" else [_layer(inner)]
    return layers


def _layer(document: Any) -> Layer:
    """Names and values of a document of any type; as they were logged, where that is known."""
    if isinstance(document, Mapping):
        return document
    if document is None or (isinstance(document, _SCALARS) and not hasattr(document, "_fields")):
        raise ValueError(f"expected a document, got {type(document).__name__}")
    original, attributes = document, getattr(document, "__dict__", {})
    if isinstance(document, Copied):
        original, attributes = document.original, document.attributes
    computed = {name: _attribute(original, name) for name in _computed(original.__class__)}
    values = {**computed, **attributes}
    if not _NAMES.isdisjoint(values):
        return values
    return {name: _attribute(original, name) for name in _NAMES}


@lru_cache(maxsize=256)
def _computed(kind: type) -> tuple[str, ...]:
    """The names that a class defines: as properties, slots or fields of a struct."""
    return tuple(name for name in _NAMES if any(name in vars(base) for base in kind.__mro__))


def _attribute(document: Any, name: str) -> Any:
    try:
        return getattr(document, name, None)
    except (LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # A property that does not apply to this document, as in LlamaIndex.


def _first(layers: Sequence[Layer], names: Sequence[str], kind: type = object) -> Any:
    """The first value of that kind, outer layers first."""
    for layer in layers:
        for name in names:
            value = layer.get(name)
            if value is not None and value != "" and isinstance(value, kind):
                return value
    return None


def _composed(layers: Sequence[Layer]) -> str | None:
    """Text that a node composes when asked, as in LlamaIndex."""
    for layer in layers:
        compose = layer.get("get_content")
        if callable(compose):
            text = compose()
            return text if isinstance(text, str) else None
    return None
