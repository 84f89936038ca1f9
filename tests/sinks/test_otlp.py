"""The sink ``otlp``: events on the traces of the worst queries."""

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from ragmon.alerts import WorstQuery
from ragmon.clock import ManualClock
from ragmon.errors import SinkError
from ragmon.sinks import SinkContext, otlp
from tests.support.alerts import LINKS, NOW, finding, notice, rich_alert
from tests.support.receiver import Reply, receiving

CONTEXT = SinkContext(ManualClock(NOW), LINKS, {"cluster": "eu-1"})
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WORST = (
    WorstQuery("q-17", "How?", "no relevant chunk", TRACE, SPAN),
    WorstQuery("q-18", "Why?", "no relevant chunk", TRACE[::-1]),
    WorstQuery("q-19", "When?", "no relevant chunk", "an id of the application", SPAN),
)


def traced(change="opened", worst=WORST, **given):
    plain = rich_alert(**given)
    return notice(change, replace(plain, evidence=replace(plain.evidence, worst=worst)), NOW)


@pytest.fixture
def receiver():
    with receiving() as server:
        server.answer = lambda _: Reply(200, {}, b"")  # an answer of OTLP without a message
        yield server


def sink(receiver, path="/v1/logs", **options):
    return otlp.build(otlp.Options(url=receiver.url + path, **options), CONTEXT)


def events(receiver):
    """The records that came last."""
    request = ExportLogsServiceRequest.FromString(receiver.posts[-1].body)
    [of_resource] = request.resource_logs
    [of_scope] = of_resource.scope_logs
    return list(of_scope.log_records)


def attributes(record):
    return {pair.key: pair.value.string_value for pair in record.attributes}


def test_each_of_the_worst_queries_with_a_trace_gets_an_event(receiver):
    sink(receiver, headers={"x-scope-orgid": "rag"}, token="s3cret").deliver(traced())
    [post] = receiver.posts
    assert post.path == "/v1/logs"
    assert post.headers["content-type"] == "application/x-protobuf"
    assert post.headers["x-scope-orgid"] == "rag"
    assert post.headers["authorization"] == "Bearer s3cret"
    first, second = events(receiver)
    assert (first.trace_id.hex(), first.span_id.hex()) == (TRACE, SPAN)
    assert (second.trace_id.hex(), second.span_id) == (TRACE[::-1], b"")
    assert first.event_name == "ragmon.incident"
    assert first.severity_text == "warning"
    assert first.time_unix_nano == int(NOW * 1e9)
    known = attributes(first)
    assert known["event.name"] == "ragmon.incident"
    assert known["ragmon.incident.id"] == traced().incident_id
    assert known["ragmon.incident.cause"] == traced().cause.text
    assert known["ragmon.incident.severity"] == "warning"
    assert known["ragmon.query.id"] == "q-17"
    assert known["ragmon.label.cluster"] == "eu-1"
    assert traced().headline in first.body.string_value


@pytest.mark.parametrize("worst", [(), WORST[2:]], ids=["no query", "no trace"])
def test_without_a_trace_there_is_one_event(receiver, worst):
    sink(receiver).deliver(traced(worst=worst))
    [record] = events(receiver)
    assert (record.trace_id, record.span_id) == (b"", b"")
    assert "ragmon.query.id" not in attributes(record)


@pytest.mark.parametrize(
    ("change", "severity", "number"),
    [("opened", "warning", 13), ("escalated", "critical", 17), ("resolved", "critical", 9)],
)
def test_the_severity_is_that_of_the_protocol(receiver, change, severity, number):
    sink(receiver).deliver(traced(change, found=finding(severity=severity)))
    assert {record.severity_number for record in events(receiver)} == {number}
    assert attributes(events(receiver)[0])["ragmon.incident.change"] == change


def test_a_url_without_a_path_is_that_of_a_collector(receiver):
    sink(receiver, "/").deliver(traced())
    assert receiver.posts[0].path == "/v1/logs"


def test_events_that_are_refused_are_told(receiver):
    answer = ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = 2
    answer.partial_success.error_message = "no room"
    receiver.answer = lambda _: Reply(200, {}, answer.SerializeToString())
    with pytest.raises(SinkError, match="refused 2 events: no room") as refused:
        sink(receiver).deliver(traced())
    assert not refused.value.retryable


@pytest.mark.parametrize(("status", "retryable"), [(429, True), (503, True), (400, False)])
def test_a_refusal_is_tried_again_where_that_helps(receiver, status, retryable):
    receiver.answer = lambda _: Reply(status)
    with pytest.raises(SinkError) as refused:
        sink(receiver).deliver(traced())
    assert refused.value.retryable == retryable
