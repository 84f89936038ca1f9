"""A span as ragmon holds it: what the wire formats decode into and the store keeps."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ragmon.embedding_sketch import sketch
from ragmon.records import MAX_DIMENSIONS
from ragmon.stores.protocols import SpanRow

MAX_ATTRIBUTES = 6_000
"""Of one span; a thousand flattened documents with their metadata fit."""
MAX_VALUE = 1_000_000
"""Characters of one attribute; the rest is cut."""
MAX_NAME = 256
FORBIDDEN = "pipeline_forbidden"
"""The reason for leaving out parts of a query that their sender may not write."""
_LOG_EVENT_ID = 16  # bytes of its id; a span has eight

ERROR = 2

Attributes = dict[str, Any]


class Resource(Struct, frozen=True, array_like=True, gc=False):
    """The sender of spans: service, version and environment."""

    service: str = ""
    version: str = ""
    environment: str = ""
    project: str = ""
    language: str = ""


class Event(Struct, frozen=True, array_like=True, gc=False):
    """Something that happened during a span."""

    name: str
    time_ns: int
    attributes: Attributes


class SpanLink(Struct, frozen=True, array_like=True, gc=False):
    """Another span that this one refers to."""

    trace_id: bytes
    span_id: bytes


class Span(Struct, frozen=True, array_like=True, gc=False):
    """One span, with values as plain Python and vectors left out."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes  # empty at the root
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    status: int = 0  # 0 unset, 1 ok, 2 error
    message: str = ""
    scope: str = ""  # the instrumentation that made it
    resource: Resource = Resource()
    events: tuple[Event, ...] = ()
    links: tuple[SpanLink, ...] = ()
    sender_pipelines: tuple[str, ...] = ()  # globs of what its sender may write; none: all
    lost: tuple[int, int] | None = None  # attributes and events that its SDK left out

    @property
    def is_entry(self) -> bool:
        """True for the root; the first span of one service's part is not the beginning."""
        return not self.parent_id

    @property
    def is_log_event(self) -> bool:
        """True for the content of another span, which came as a log record."""
        return len(self.span_id) == _LOG_EVENT_ID

    @property
    def duration_ms(self) -> float:
        """Duration in milliseconds."""
        return max(0, self.end_ns - self.start_ns) / 1e6


class DecodedSpans(Struct):
    """Decoded spans of a request, and counts of refused and dropped parts."""

    spans: list[Span]
    refused: dict[str, int] = msgspec.field(default_factory=dict)  # spans, by reason
    dropped: dict[str, int] = msgspec.field(default_factory=dict)  # attributes, by reason

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count spans that are left out."""
        self.refused[reason] = self.refused.get(reason, 0) + count

    def drop(self, reason: str, count: int = 1) -> None:
        """Count an attribute that is left out or cut."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def lose(self, attributes: int, events: int) -> tuple[int, int] | None:
        """Count what the SDK of a span left out; None where it is nothing."""
        if attributes > 0:
            self.drop("sdk_attribute_limit", attributes)
        if events > 0:
            self.drop("sdk_event_limit", events)
        return (max(0, attributes), max(0, events)) if attributes > 0 or events > 0 else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Span]).decode
_decode_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def pack(spans: Iterable[Span]) -> list[SpanRow]:
    """One part a trace."""
    by_trace: dict[bytes, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    return [
        SpanRow(trace_id, len(group), any(span.is_entry for span in group), _encode(group))
        for trace_id, group in by_trace.items()
    ]


def unpack(bodies: Sequence[bytes]) -> list[Span]:
    """The spans of one trace in the order of their arrival, each once."""
    spans = itertools.chain.from_iterable(map(_decode, bodies))
    return list({span.span_id: span for span in reversed(list(spans))}.values())[::-1]


def count_packed(body: bytes) -> int:
    """Number of spans in one part."""
    return len(_decode_raw(body))


_VECTORS = (".embedding.vector", ".embeddings.vector", "query.embeddings", ".vector", "embeddings")
_VECTOR_LENGTH = 32
_REPEATED = frozenset({"llm.prompt_template.variables"})  # the prompt again, even when redacted
_STACK = "exception.stacktrace"
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?:: .*)?$", re.MULTILINE)


_ONLY_VECTOR = "embedding.embeddings.0.embedding.vector"
_ANOTHER_VECTOR = "embedding.embeddings.1.embedding.vector"
EMBEDDING_SKETCH = "ragmon.embedding_sketch"
"""Attribute in place of the one vector of a span."""


def drop_bulk(attributes: Attributes, decoded: DecodedSpans) -> None:
    """Leave out embedding vectors and repeated prompts; of a stack trace keep its first cause.

    Of a span with one vector its sketch stays.
    """
    attributes.pop(EMBEDDING_SKETCH, None)
    vector = attributes.get(_ONLY_VECTOR)
    if vector is not None and is_vector(vector) and _ANOTHER_VECTOR not in attributes:
        attributes[EMBEDDING_SKETCH] = _sketch(vector)
    bulk = [
        key
        for key, value in attributes.items()
        if key.endswith(_VECTORS) or key in _REPEATED or is_vector(value)
    ]
    for key in bulk:
        decoded.drop("bulk")
        del attributes[key]
    if _STACK in attributes:
        match = _RAISED.search(str(attributes.pop(_STACK)))
        if match:
            attributes["exception.cause"] = match[1]


def _sketch(vector: list[Any]) -> bytes | None:
    try:
        return sketch(vector[:MAX_DIMENSIONS])
    except (TypeError, ValueError, OverflowError):
        return None  # not all of them are numbers


def is_vector(value: Any) -> bool:
    """A long list of numbers: an embedding."""
    return (
        value.__class__ is list
        and len(value) >= _VECTOR_LENGTH
        and all(each.__class__ in (float, int) for each in value[:_VECTOR_LENGTH])
    )
