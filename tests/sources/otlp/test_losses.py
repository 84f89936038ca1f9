"""What an SDK left out of a span: it is counted, told with its remedy, and no zero result."""

import gzip
import json

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmon.cli import main
from ragmon.sources.otlp.doctor import explain
from ragmon.sources.otlp.spans import DecodedSpans
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.sources.otlp.wire import json as wire_json
from ragmon.sources.otlp.wire import protobuf
from tests.support.otlp import NOW, span

KIND = "openinference.span.kind"
DOCUMENT = "retrieval.documents.{}.document.{}"


def exported(documents: int, events: int = 0) -> bytes:
    """A request of the real SDK: a retriever with two attributes a document, then a kind."""
    provider, memory = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with provider.get_tracer("test").start_as_current_span("search") as recorded:
        for at in range(documents):
            recorded.set_attribute(DOCUMENT.format(at, "id"), f"d{at}")
            recorded.set_attribute(DOCUMENT.format(at, "score"), 1.0 - at / 100)
        for name, value in ((KIND, "RETRIEVER"), ("input.value", "fee?")):
            recorded.set_attribute(name, value)
        for at in range(events):
            recorded.add_event(f"event {at}")
    return encode_spans(memory.get_finished_spans()).SerializeToString()


def decoded(body: bytes) -> DecodedSpans:
    [part] = protobuf.decode(body)
    return part


@pytest.mark.parametrize(
    ("documents", "events", "lost"),
    [
        pytest.param(10, 0, None, id="all is there"),
        pytest.param(70, 0, (14, 0), id="attributes"),
        pytest.param(10, 200, (0, 72), id="events"),
    ],
)
def test_what_the_sdk_counted_is_read(documents, events, lost):
    found = decoded(exported(documents, events))
    assert [each.lost for each in found.spans] == [lost]
    reasons = {"sdk_attribute_limit": lost[0], "sdk_event_limit": lost[1]} if lost else {}
    assert {name: count for name, count in found.dropped.items() if name.startswith("sdk")} == {
        name: count for name, count in reasons.items() if count
    }


def test_both_forms_of_the_wire_say_the_same():
    as_json = {
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "00f067aa0ba902b7",
        "name": "search", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "droppedAttributesCount": 14, "droppedEventsCount": "3",
    }  # fmt: skip
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [as_json]}]}]}).encode()
    [part] = wire_json.decode(body)
    assert [each.lost for each in part.spans] == [(14, 3)]


def test_a_damaged_count_is_none():
    [part] = wire_json.decode(
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c",'
        b'"spanId":"00f067aa0ba902b7","droppedAttributesCount":"many","droppedEventsCount":-4}]}]}]}'
    )
    assert [each.lost for each in part.spans] == [None]


def test_documents_of_such_a_span_are_doubtful_and_none_is_no_zero_result():
    attributes = {KIND: "RETRIEVER", "input.value": "fee?"}
    one = attributes | {DOCUMENT.format(0, "id"): "d0"}
    [query] = map_trace([span(1, 0, one, lost=(3, 0))], NOW).queries
    assert [chunk.id for chunk in query.record.chunks] == ["d0"]
    assert "left out" in query.sources["chunks"].doubt
    none = attributes | {"output.value": "[]"}
    assert map_trace([span(1, 0, none)], NOW).queries[0].record.chunks == []
    assert map_trace([span(1, 0, none, lost=(3, 0))], NOW).queries[0].record.chunks is None


def test_the_remedy_is_named(tmp_path, capsys):
    explained = explain(decoded(exported(70, 200)).spans, NOW)
    [loss] = explained.losses
    assert (loss.span, loss.attributes, loss.events) == ("search", 14, 72)
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000 and OTEL_SPAN_EVENT_COUNT_LIMIT" in loss.advice
    request = tmp_path / "request.pb.gz"
    request.write_bytes(gzip.compress(exported(70)))
    assert main(["trace-doctor", str(request)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "search lost 14 attributes in its SDK. Set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in said
