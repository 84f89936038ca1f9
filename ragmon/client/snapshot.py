"""Copies of the arguments, made on the caller's thread.

Text is kept by reference; lists, dictionaries and the attributes of documents are copied one level
deep, so a list reordered or a document edited after the call does not change what was logged. What
lies deeper (``metadata`` inside a document) is read when the record is encoded, up to
``flush_interval_s`` later, or after the request then under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmon.client.limits import MAX_CHUNKS

IMMUTABLE = frozenset({str, int, float, bool, type(None)})
RECORD_WEIGHT = 500  # bytes, for ids, numbers and names
_DOCUMENT_WEIGHT = 200
_UNKNOWN_TEXT = 2_000
_NUMBER_WEIGHT = 20
_TEXT_NAMES = ("text", "page_content", "content")


class Copied:
    """A document object with its attributes as they were."""

    __slots__ = ("attributes", "original")

    def __init__(self, original: object, attributes: dict[str, Any]) -> None:
        self.original = original
        self.attributes = attributes


def copied(value: object) -> object:
    """One argument, copied if the application could change it."""
    kind = type(value)
    if kind is dict or kind is list or kind is set:
        return value.copy()  # type: ignore[attr-defined]
    if issubclass(kind, BaseException):  # Keeping it would keep every frame it passed.
        return f"{kind.__name__}: {value}"
    return value


def text_size(text: object) -> int:
    """Bytes that a text is taken to need; 0 for what is none."""
    return len(text) if type(text) is str else 0


def vectors_size(embeddings: object) -> int:
    """Bytes that the vectors of question and answer are taken to need, as JSON."""
    sides = embeddings if isinstance(embeddings, dict) else getattr(embeddings, "__dict__", {})
    vectors: list[Any] = [sides.get("query"), sides.get("answer")]
    return sum(_NUMBER_WEIGHT * len(each) for each in vectors if hasattr(each, "__len__"))


def copied_documents(documents: object) -> tuple[object, int]:
    """Retrieved documents as they are now, and their weight in bytes.

    What is no sequence comes back as it is, for the encoder to refuse: draining an iterator would
    take it from the application. Of a longer list the first 1000 are kept.
    """
    if documents is None:
        return None, 0
    kind = type(documents)
    if kind is not list and kind is not tuple and not _sequence(documents):
        return documents, 0
    kept, weight = [], 0
    for document in documents[:MAX_CHUNKS]:  # type: ignore[index]
        copy, size = _copied_document(document)
        kept.append(copy)
        weight += size
    return kept, weight + len(kept) * _DOCUMENT_WEIGHT


def _sequence(documents: object) -> bool:
    return isinstance(documents, Sequence) and not isinstance(documents, (str, bytes))


def _copied_document(document: Any) -> tuple[object, int]:
    """One document as it is now, and the size of its text."""
    kind = type(document)
    if kind is dict or isinstance(document, Mapping):
        return dict(document), _text_size(document)
    if isinstance(document, str):
        return document, len(document)
    if kind is tuple:
        return _copied_pair(document)
    attributes = getattr(document, "__dict__", None)
    if attributes is None:
        return document, _UNKNOWN_TEXT
    return Copied(document, attributes.copy()), _text_size(attributes)


def _copied_pair(pair: tuple[Any, ...]) -> tuple[object, int]:
    """A document beside its score; beside a score a string is an id."""
    if not pair or type(pair[0]) is str:
        return pair, 0
    copy, size = _copied_document(pair[0])
    return (copy, *pair[1:]), size


def _text_size(attributes: Mapping[str, Any]) -> int:
    """Characters of text, by a look at the common names."""
    for name in _TEXT_NAMES:
        text = attributes.get(name)
        if type(text) is str:
            return len(text)
    node = attributes.get("node")
    return 0 if node is None else _text_size(getattr(node, "__dict__", {}))
