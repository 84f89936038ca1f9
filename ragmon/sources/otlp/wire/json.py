"""OTLP in JSON, by msgspec: ids in hexadecimal of any case, 64-bit integers as text or number.

Unknown fields are ignored, any field may be missing.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ragmon.errors import RecordError
from ragmon.event_time import NO_TIME
from ragmon.json_scan import count_byte, count_outer_objects, count_values
from ragmon.memory import MemoryReservation
from ragmon.sources.otlp.reading.values import resource_of
from ragmon.sources.otlp.spans import (
    MAX_ATTRIBUTES,
    MAX_NAME,
    MAX_VALUE,
    Attributes,
    DecodedSpans,
    Event,
    Resource,
    Span,
    SpanLink,
    drop_bulk,
)
from ragmon.sources.otlp.wire.json_values import INT64, Whole, moment, unhex, whole
from ragmon.sources.otlp.wire.limits import (
    STRETCH_BYTES,
    STRETCH_RECORDS,
    UNLIMITED,
    reserve_json,
)

_SCALARS = frozenset({str, bool, int, float})
_FLOAT64 = 1 << 1023
_MAX_DEPTH = 32
_RECORD_DEPTH = 7  # {resourceSpans: [{scopeSpans: [{spans: [{ and the same of log records

_LARGE = 1 << 18  # a smaller body is decoded at once, in five milliseconds
_WIDE = 1 << 16  # what is shorter holds few values
MOST_VALUES = 100_000
"""Texts, lists and objects of one span, log record, resource or scope: no other request is answered
while they are decoded, for some 10 ms. A thousand attributes have 5,000."""


class _Wire(Struct, frozen=True, rename="camel", gc=False):
    """Base of all messages."""


class KeyValue(_Wire, frozen=True):
    """One attribute."""

    key: str = ""
    value: Any = None


class _Named(_Wire, frozen=True):
    name: str = ""
    attributes: list[KeyValue] | None = None


class _Event(_Named, frozen=True):
    time_unix_nano: Whole = 0


class _Link(_Wire, frozen=True):
    trace_id: str = ""
    span_id: str = ""


class _Status(_Wire, frozen=True):
    code: Whole = 0
    message: str = ""


class _Span(_Named, frozen=True):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = ""
    start_time_unix_nano: Whole = 0
    end_time_unix_nano: Whole = 0
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    status: _Status | None = None
    dropped_attributes_count: Whole = 0
    dropped_events_count: Whole = 0


class _ScopeSpans(_Wire, frozen=True):
    scope: _Named | None = None
    spans: list[_Span] | None = None


class _ResourceSpans(_Wire, frozen=True):
    resource: _Named | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _TraceRequest(_Wire, frozen=True):
    resource_spans: list[_ResourceSpans] | None = None


class _LargeNamed(_Wire, frozen=True):
    name: str = ""
    attributes: Raw = Raw(b"null")


class _LargeSpan(_LargeNamed, frozen=True):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = ""
    start_time_unix_nano: Whole = 0
    end_time_unix_nano: Whole = 0
    events: Raw = Raw(b"null")
    links: Raw = Raw(b"null")
    status: _Status | None = None
    dropped_attributes_count: Whole = 0
    dropped_events_count: Whole = 0


class _LargeScopeSpans(_Wire, frozen=True):
    scope: _LargeNamed | None = None
    spans: list[_LargeSpan] | None = None


class _LargeResourceSpans(_Wire, frozen=True):
    resource: _LargeNamed | None = None
    scope_spans: list[_LargeScopeSpans] | None = None


class _LargeTraceRequest(_Wire, frozen=True):
    """Like the other, but lists of a span are left encoded until its turn comes."""

    resource_spans: list[_LargeResourceSpans] | None = None


_decode_request = msgspec.json.Decoder(_TraceRequest)
_decode_large = msgspec.json.Decoder(_LargeTraceRequest)
_decode_pairs = msgspec.json.Decoder(list[KeyValue] | None)
_decode_events = msgspec.json.Decoder(list[_Event] | None)
_decode_links = msgspec.json.Decoder(list[_Link] | None)


def parse(body: bytes | Raw, decoder: msgspec.json.Decoder[Any] = _decode_request) -> Any:
    """Parse the message of a request.

    Raises:
        RecordError: it is no such message.
    """
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = "send an OTLP export request, or fix the Content-Type"
        raise RecordError("malformed", "", f"no OTLP JSON: {error}", hint=hint) from None


def is_large(body: bytes) -> bool:
    """True for what would hold up other requests if it were decoded at once."""
    return len(body) > _LARGE


def check(
    body: bytes, most: int = UNLIMITED, memory: MemoryReservation | None = None
) -> Iterator[None]:
    """Refuse a request that is too large to be decoded; others may have a turn at each step.

    Args:
        body: of the request.
        most: spans or log records that it may have.
        memory: reserved of; none: nothing is.

    Raises:
        RecordError: it has more.
        MemoryLimitError: it would take too much memory.
    """
    if count_byte(body, b"{") > most:
        for records in count_outer_objects(body, _RECORD_DEPTH):
            if records > most:
                message = f"the request has {records} spans or log records or more"
                detail = f"{message}; ten times limits.records allow {most}"
                raise RecordError("too_many_records", "", detail, hint="Send smaller batches")
            yield
    reserve_json(memory, body)
    if is_large(body):
        yield


def is_too_wide(encoded: Raw) -> bool:
    """True for more values than any program would send in one list."""
    view = memoryview(encoded)
    return len(view) > _WIDE and count_values(bytes(view), MOST_VALUES) > MOST_VALUES


def open_pairs(encoded: Raw, what: str) -> list[KeyValue] | None:
    """The attributes of a resource or scope of a large request.

    Raises:
        RecordError: they are no attributes, or too many.
    """
    if is_too_wide(encoded):
        message = f"a {what} has more than {MOST_VALUES:,} texts, lists and objects"
        raise RecordError("too_many_fields", "", message, hint="Send fewer attributes")
    pairs: list[KeyValue] | None = parse(encoded, _decode_pairs)
    return pairs


def decode(
    body: bytes, most: int = UNLIMITED, memory: MemoryReservation | None = None
) -> Iterator[DecodedSpans]:
    """The spans of an export request, some hundreds at a time, and often none.

    Args:
        body: of the request.
        most: see ``check``.
        memory: see ``check``.

    Raises:
        RecordError: it is no such message, or has more spans.
        MemoryLimitError: it would take too much memory.
    """
    for _ in check(body, most, memory):
        yield DecodedSpans([])
    request = parse(body, _decode_large if is_large(body) else _decode_request)
    if is_large(body):
        yield DecodedSpans([])
    for resource_spans in request.resource_spans or ():
        about = resource_spans.resource
        pairs = about.attributes if about else None
        if isinstance(pairs, Raw):
            pairs = open_pairs(pairs, "resource")
        resource = resource_of(attributes(pairs, DecodedSpans([])))
        for scope_spans in resource_spans.scope_spans or ():
            scope = scope_spans.scope.name[:MAX_NAME] if scope_spans.scope else ""
            for spans, too_wide in _stretches(scope_spans.spans or []):
                decoded = _scope(spans, scope, resource)
                if too_wide:
                    decoded.refuse("too_many_fields", too_wide)
                yield decoded


def _stretches(spans: list[_Span] | list[_LargeSpan]) -> Iterator[tuple[list[_Span], int]]:
    """Some spans at a time, of a limited size, and how many beside them are too wide."""
    stretch: list[_Span] = []
    size = too_wide = 0
    for span in spans:
        if isinstance(span, _LargeSpan):
            parts = (span.attributes, span.events, span.links)
            size += sum(len(memoryview(part)) for part in parts)
            if any(map(is_too_wide, parts)):
                too_wide += 1
            else:
                stretch.append(_open(span))
        else:
            stretch.append(span)
        if len(stretch) >= STRETCH_RECORDS or size >= STRETCH_BYTES:
            yield stretch, too_wide
            stretch, size, too_wide = [], 0, 0
    if stretch or too_wide:
        yield stretch, too_wide


def _open(span: _LargeSpan) -> _Span:
    return _Span(
        span.name,
        parse(span.attributes, _decode_pairs),
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        parse(span.events, _decode_events),
        parse(span.links, _decode_links),
        span.status,
        span.dropped_attributes_count,
        span.dropped_events_count,
    )


def _scope(wire: list[_Span], scope: str, resource: Resource) -> DecodedSpans:
    decoded = DecodedSpans([])
    for span in wire:
        trace_id, span_id = unhex(span.trace_id, 16), unhex(span.span_id, 8)
        if trace_id is None:
            decoded.refuse("bad_trace_id")
        elif span_id is None:
            decoded.refuse("bad_span_id")
        elif (start := moment(span.start_time_unix_nano)) < 0:
            decoded.refuse("invalid" if start == NO_TIME else "too_old")
        else:
            decoded.spans.append(_span(span, (trace_id, span_id), (scope, resource), decoded))
    return decoded


def _span(
    span: _Span, ids: tuple[bytes, bytes], origin: tuple[str, Resource], decoded: DecodedSpans
) -> Span:
    status = span.status or _Status()
    return Span(
        *ids,
        unhex(span.parent_span_id or "", 8) or b"",
        span.name[:MAX_NAME],
        moment(span.start_time_unix_nano),
        max(0, moment(span.end_time_unix_nano)),
        attributes(span.attributes, decoded),
        whole(status.code),
        status.message[:MAX_VALUE],
        *origin,
        tuple(
            Event(
                event.name[:MAX_NAME],
                moment(event.time_unix_nano),
                attributes(event.attributes, decoded),
            )
            for event in (span.events or ())[:MAX_ATTRIBUTES]
        ),
        tuple(
            SpanLink(linked, unhex(link.span_id, 8) or b"")
            for link in (span.links or ())[:128]
            if (linked := unhex(link.trace_id, 16)) is not None
        ),
        (),
        decoded.lose(whole(span.dropped_attributes_count), whole(span.dropped_events_count)),
    )


def attributes(wire: list[KeyValue] | None, decoded: DecodedSpans) -> Attributes:
    """Attributes as a dictionary; of a repeated key the last counts."""
    pairs = wire or []
    if len(pairs) > MAX_ATTRIBUTES:
        decoded.drop("too_many", len(pairs) - MAX_ATTRIBUTES)
    read: Attributes = {}
    for pair in pairs[:MAX_ATTRIBUTES]:
        value = _value(pair.value, _MAX_DEPTH)
        if value.__class__ is str and len(value) > MAX_VALUE:
            decoded.drop("cut")
            value = value[:MAX_VALUE]
        read[pair.key[:MAX_NAME]] = value
    drop_bulk(read, decoded)
    return read


def value_of(wire: Any) -> Any:
    """An ``AnyValue`` as plain Python; None for what is no value."""
    return _value(wire, _MAX_DEPTH)


def _value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or not depth:
        return None
    for kind, content in value.items():
        if kind in ("stringValue", "boolValue", "doubleValue"):
            return _scalar(content)
        if kind == "intValue":
            return whole(content)
        if kind in ("arrayValue", "kvlistValue"):
            return _collection(content, kind, depth - 1)
    return None


def _scalar(value: Any) -> Any:
    """A text, a truth value or a number that the store can hold; None for anything else."""
    if value.__class__ is int and not -INT64 <= value < INT64:
        return float(value) if abs(value) < _FLOAT64 else None  # 1e20 as JavaScript writes it
    return value if value.__class__ in _SCALARS else None


def _collection(content: Any, kind: str, depth: int) -> Any:
    items = content.get("values") if isinstance(content, dict) else None
    listed = items if isinstance(items, list) else []
    if kind == "arrayValue":
        return [_value(each, depth) for each in listed]
    pairs = [each for each in listed if isinstance(each, dict)]
    return {str(each.get("key", "")): _value(each.get("value"), depth) for each in pairs}
