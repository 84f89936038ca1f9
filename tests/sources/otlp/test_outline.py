"""Outlines of protobuf requests: everything is found, and what is too much is not decoded."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmon.errors import MemoryLimitError, RecordError
from ragmon.memory import MemoryBudget, MemoryReservation
from ragmon.sources.otlp.wire import json, outline, protobuf
from ragmon.sources.otlp.wire.limits import STRETCH_RECORDS

MOST = 1_000


def field(tag: int, *parts: bytes) -> bytes:
    """A field with a length."""
    body = b"".join(parts)
    size, length = len(body), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([tag, *length, size]) + body


def request(*spans: bytes) -> bytes:
    return field(0x0A, field(0x12, *spans))


def span(number: int, attributes: int = 0, text: str = "") -> bytes:
    """An encoded span; its name tells its number."""
    made = ExportTraceServiceRequest().resource_spans.add().scope_spans.add().spans.add()
    made.trace_id = (number + 1).to_bytes(16, "big")
    made.span_id = (number + 1).to_bytes(8, "big")
    made.name = str(number)
    for at in range(attributes):
        made.attributes.add(key=str(at)).value.string_value = text
    return field(0x12, made.SerializeToString())


def names(body: bytes, most: int = MOST) -> list[str]:
    return [each.name for decoded in protobuf.decode(body, most) for each in decoded.spans]


def refused(body: bytes, decode=protobuf.decode, most: int = MOST) -> RecordError:
    with pytest.raises(RecordError) as caught:
        list(decode(body, most))
    return caught.value


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([0], id="no attribute"),
        pytest.param([1, 30, 2], id="lengths of one, two and three bytes"),
        pytest.param([20] * (2 * STRETCH_RECORDS + 1), id="several stretches by number"),
        pytest.param([3_000] * 12, id="several stretches by size"),
    ],
)
def test_every_span_is_found_in_order(sizes):
    body = request(*(span(at, size, "a" * 20) for at, size in enumerate(sizes)))
    assert names(body, 2_000) == [str(at) for at in range(len(sizes))]
    whole = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    assert [each.name for each in whole] == names(body, 2_000)


def test_resource_and_scope_may_come_late_and_in_parts():
    made = ExportTraceServiceRequest()
    head = made.resource_spans.add()
    head.resource.attributes.add(key="service.name").value.string_value = "shop"
    head.scope_spans.add().scope.name = "library"
    late = head.resource.SerializeToString()
    scope = head.scope_spans[0].scope.SerializeToString()
    spans = field(0x12, span(0), field(0x0A, scope), b"\x18\x01", span(1))
    body = field(0x0A, spans, field(0x0A, late))
    found = [each for decoded in protobuf.decode(body) for each in decoded.spans]
    assert [(each.name, each.scope, each.resource.service) for each in found] == [
        ("0", "library", "shop"),
        ("1", "library", "shop"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(request(b"\x12\x00" * (MOST + 1)), id="empty spans"),
        pytest.param(field(0x0A, b"\x12\x00" * (MOST + 1)), id="empty scopes"),
        pytest.param(b"\x0a\x00" * (MOST + 1), id="empty resources"),
        pytest.param(b"\x18\x01" * (MOST + 1), id="unknown fields"),
        pytest.param(request(b"\x18\x01" * (MOST + 1)), id="unknown fields of a scope"),
    ],
)
def test_more_spans_than_allowed_are_refused(body):
    error = refused(body)
    assert error.reason == "too_many_records"
    assert str(MOST) in str(error)


def test_as_many_as_allowed_pass():
    assert len(names(request(*map(span, range(MOST))))) == MOST


@pytest.mark.parametrize(
    ("spans", "passes"),
    [
        pytest.param(b"{}," * MOST + b"{}", False, id="one more"),
        pytest.param(b"{}", True, id="one"),
    ],
)
def test_json_is_counted_too(spans, passes):
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + b"]}]}]}"
    if passes:
        assert list(json.decode(body, MOST))
    else:
        assert refused(body, json.decode).reason == "too_many_records"


@pytest.mark.parametrize(
    "bulk",
    [
        pytest.param(b"\x4a\x00" * 200_000, id="empty attributes"),
        pytest.param(field(0x4A, field(0x12, field(0x2A, b"\x0a\x00" * 200_000))), id="an array"),
        pytest.param(b"\x5a\x00" * 200_000, id="empty events"),
    ],
)
def test_a_span_of_too_many_parts_costs_only_itself(bulk):
    body = request(span(0), field(0x12, bulk), span(1))
    decoded = list(protobuf.decode(body, MOST))
    assert [each.name for part in decoded for each in part.spans] == ["0", "1"]
    assert sum(part.refused.get("too_many_fields", 0) for part in decoded) == 1


def test_a_large_span_as_programs_send_it_passes():
    assert names(request(span(7, attributes=outline._MOST_MESSAGES // 50, text="a" * 200))) == ["7"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x0a", id="a tag without a length"),
        pytest.param(b"\x0a\x05ab", id="half a message"),
        pytest.param(request(b"\x12\x05ab"), id="half a span"),
        pytest.param(request(b"\x12"), id="a span without a length"),
        pytest.param(request(b"\x12\x80"), id="half a length"),
        pytest.param(b"\x0b\x0c", id="a group"),
        pytest.param(b"\x08" + b"\xff" * 12, id="a number without end"),
        pytest.param(b"{}", id="JSON"),
    ],
)
def test_what_is_no_request_is_malformed(body):
    assert refused(body).reason == "malformed"


def test_decoding_is_reserved_before():
    memory = MemoryReservation(MemoryBudget(100_000))
    body = request(*(span(at, 10) for at in range(500)))
    with pytest.raises(MemoryLimitError):
        next(protobuf.decode(body, MOST, memory))
    with pytest.raises(MemoryLimitError):
        next(json.decode(b'{"resourceSpans":[' + b"{}," * 3_000 + b"{}]}", MOST * 10, memory))
