"""OTLP in protobuf, by the generated classes of opentelemetry-proto.

Most attributes are strings, and an unset string reads as empty: taking the string first and
asking for the kind of value only when it is empty is twice as fast as asking always.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from ragmon.memory import MemoryReservation
from ragmon.sources.otlp.reading.values import resource_of
from ragmon.sources.otlp.spans import (
    MAX_ATTRIBUTES,
    MAX_NAME,
    MAX_VALUE,
    Attributes,
    DecodedSpans,
    Event,
    Span,
    SpanLink,
    drop_bulk,
)
from ragmon.sources.otlp.spans import Resource as KnownResource
from ragmon.sources.otlp.wire.limits import (
    UNLIMITED,
    reserve_records,
)
from ragmon.sources.otlp.wire.outline import (
    SPAN,
    Outline,
    ScopeOutline,
    malformed,
)

_NO_ID = bytes(16)
_MAX_DEPTH = 32


def decode(
    body: bytes, most: int = UNLIMITED, memory: MemoryReservation | None = None
) -> Iterator[DecodedSpans]:
    """The spans of an ``ExportTraceServiceRequest``, some hundreds at a time.

    Args:
        body: of the request.
        most: spans that it may have.
        memory: reserved of, before the spans are decoded; none: nothing is.

    Raises:
        RecordError: it is no such message, or has more spans.
        MemoryLimitError: they would take too much memory.
    """
    outline = Outline(body, SPAN, most)
    reserve_records(memory, outline.records, len(body))
    for resource_outline in outline.resources:
        about = parse(resource_outline.resource, Resource)
        resource = resource_of(attributes(about.attributes, DecodedSpans([])))
        for scope_outline in resource_outline.scopes:
            scope = parse(scope_outline.scope, InstrumentationScope).name[:MAX_NAME]
            yield from _stretches(outline, scope_outline, scope, resource)


def parse(body: bytes, kind: Any) -> Any:
    """Parse one message.

    Raises:
        RecordError: it is no such message.
    """
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise malformed(error) from None


def _stretches(
    outline: Outline, outlined: ScopeOutline, scope: str, resource: KnownResource
) -> Iterator[DecodedSpans]:
    for stretch in outlined.stretches:
        decoded = DecodedSpans([])
        for span in parse(outline.cut(stretch), ScopeSpans).spans:
            _add(span, scope, resource, decoded)
        yield decoded
    if outlined.refused:
        decoded = DecodedSpans([])
        decoded.refuse("too_many_fields", outlined.refused)
        yield decoded


def _add(span: Any, scope: str, resource: KnownResource, decoded: DecodedSpans) -> None:
    trace_id, span_id = span.trace_id, span.span_id
    if len(trace_id) != 16 or trace_id == _NO_ID:
        decoded.refuse("bad_trace_id")
    elif len(span_id) != 8 or span_id == _NO_ID[:8]:
        decoded.refuse("bad_span_id")
    else:
        decoded.spans.append(_span(span, scope, resource, decoded))


def _span(span: Any, scope: str, resource: KnownResource, decoded: DecodedSpans) -> Span:
    parent_id = span.parent_span_id
    if parent_id == _NO_ID[:8]:
        parent_id = b""
    status, events, links = span.status, span.events, span.links
    lost, lost_events = span.dropped_attributes_count, span.dropped_events_count
    return Span(
        span.trace_id,
        span.span_id,
        parent_id,
        span.name[:MAX_NAME],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        attributes(span.attributes, decoded),
        status.code,
        status.message[:MAX_VALUE],
        scope,
        resource,
        tuple(_event(each, decoded) for each in events[:MAX_ATTRIBUTES]) if events else (),
        tuple(SpanLink(each.trace_id, each.span_id) for each in links[:128]) if links else (),
        (),
        decoded.lose(lost, lost_events) if lost or lost_events else None,
    )


def _event(event: Any, decoded: DecodedSpans) -> Event:
    read = attributes(event.attributes, decoded)
    return Event(event.name[:MAX_NAME], event.time_unix_nano, read)


def attributes(wire: Any, decoded: DecodedSpans) -> Attributes:
    """Attributes as a dictionary; of a repeated key the last counts."""
    if len(wire) > MAX_ATTRIBUTES:
        decoded.drop("too_many", len(wire) - MAX_ATTRIBUTES)
        wire = wire[:MAX_ATTRIBUTES]
    read: Attributes = {}
    for pair in wire:
        key, value = pair.key[:MAX_NAME], pair.value
        text = value.string_value
        if not text:
            read[key] = _value(value, _MAX_DEPTH)
        elif len(text) > MAX_VALUE:
            decoded.drop("cut")
            read[key] = text[:MAX_VALUE]
        else:
            read[key] = text
    drop_bulk(read, decoded)
    return read


def value_of(wire: Any) -> Any:
    """An ``AnyValue`` as plain Python; None for what is no value."""
    return _value(wire, _MAX_DEPTH)


def _value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        values = value.array_value.values
        return [_value(each, depth - 1) for each in values] if depth else None
    if kind == "kvlist_value":
        pairs = value.kvlist_value.values
        return {pair.key: _value(pair.value, depth - 1) for pair in pairs} if depth else None
    return None if kind is None or kind == "bytes_value" else getattr(value, kind)
