"""ragmon's verdicts on their way out."""

from contextlib import contextmanager

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import ValidationError

from ragmon.sources.otlp.export import ExportedVerdict, Exporter, ExportOptions, to_request
from ragmon.sources.otlp.wire import protobuf
from tests.support.otlp import NOW, TRACE, rig, span
from tests.support.receiver import Reply, receiving

SPAN = "00000000000000ab"
TRACE_ID = TRACE.hex()


def judged(query_id=TRACE_ID, **given):
    fields = {"judge": "grounding", "name": "faithfulness", "score": 0.25, "explanation": "why",
              "timestamp": NOW, "span_id": SPAN}  # fmt: skip
    return ExportedVerdict(query_id, **(fields | given))


@pytest.mark.parametrize("query_id", [TRACE.hex(), f"{TRACE.hex()}:{SPAN}"])
def test_a_verdict_is_a_span_that_both_conventions_read(query_id):
    (decoded,) = protobuf.decode(to_request([judged(query_id)]).SerializeToString())
    (sent,) = decoded.spans
    assert (sent.trace_id, sent.parent_id.hex(), sent.scope) == (TRACE, SPAN, "ragmon")
    assert (sent.links[0].trace_id, sent.links[0].span_id.hex()) == (TRACE, SPAN)
    assert sent.attributes["openinference.span.kind"] == "EVALUATOR"
    assert sent.attributes["trace.annotations.0.annotation.score"] == 0.25
    (event,) = sent.events
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes["gen_ai.evaluation.name"] == "faithfulness"
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.25


def test_the_same_verdict_is_the_same_span():
    ids = [to_request([judged()]).resource_spans[0].scope_spans[0].spans[0].span_id for _ in "ab"]
    other = to_request([judged(judge="llm")]).resource_spans[0].scope_spans[0].spans[0].span_id
    assert ids[0] == ids[1] != other


def test_queries_without_a_trace_are_left_out():
    request = to_request([judged("my-own-id"), judged()])
    assert len(request.resource_spans[0].scope_spans[0].spans) == 1


def test_only_what_has_a_trace_counts_as_sent():
    with collecting(200) as (_, exporter):
        exporter.submit(judged("my-own-id"))
        exporter.submit(judged())
        exporter.step()
    assert (exporter.sent, exporter.dropped) == (1, 0)


def test_our_own_verdicts_come_back_as_nothing(tmp_path):
    with rig(tmp_path) as site:
        retrieval = {"openinference.span.kind": "RETRIEVER", "output.value": "[]"}
        wire = to_request([judged(span_id="0000000000000001", score=0.0)])
        query = span(1, 0, retrieval)
        target = wire.resource_spans[0].scope_spans.add().spans.add()
        target.trace_id, target.span_id = query.trace_id, query.span_id
        target.start_time_unix_nano, target.end_time_unix_nano = query.start_ns, query.end_ns
        target.attributes.add(key="openinference.span.kind").value.string_value = "RETRIEVER"
        assert site.send(wire.SerializeToString()).status == 200
        site.wait()
        described = site.query(TRACE.hex())
    assert described["feedback"] is None
    assert not described["labels"]


@contextmanager
def collecting(*statuses):
    """A collector that answers with one status after another, and an exporter to it."""
    with receiving() as receiver:
        waiting = list(statuses)
        headers = {"retry-after": "3", "location": f"{receiver.url}/elsewhere"}
        receiver.answer = lambda _: Reply(waiting.pop(0) if waiting else 200, headers)
        exporter = Exporter(
            ExportOptions(
                endpoint=f"{receiver.url}/v1/traces", headers={"authorization": "Bearer s"}
            )
        )
        yield receiver, exporter


@pytest.mark.parametrize(
    ("statuses", "waits", "sent", "dropped"),
    [
        pytest.param([200], [2.0], 1, 0, id="taken"),
        pytest.param([503, 200], [3.0, 2.0], 1, 0, id="busy, then taken"),
        pytest.param([400], [2.0], 0, 1, id="refused"),
        pytest.param([302], [2.0], 0, 1, id="sent elsewhere, where the headers must not go"),
    ],
)
def test_delivery(statuses, waits, sent, dropped):
    with collecting(*statuses) as (receiver, exporter):
        exporter.submit(judged())
        assert [exporter.step() for _ in statuses] == waits
        assert (exporter.sent, exporter.dropped) == (sent, dropped)
    assert {post.headers["authorization"] for post in receiver.posts} == {"Bearer s"}
    bodies = [ExportTraceServiceRequest.FromString(post.body) for post in receiver.posts]
    assert bodies == [to_request([judged()])] * len(statuses)


def test_nobody_listens():
    exporter = Exporter(ExportOptions(endpoint="http://127.0.0.1:9/v1/traces"))
    exporter.submit(judged())
    assert exporter.step() == 2.0
    assert (exporter.sent, exporter.dropped) == (0, 0)


def test_the_queue_is_bounded():
    exporter = Exporter(ExportOptions(endpoint="http://127.0.0.1:9/v1/traces"))
    for _ in range(10_001):
        exporter.submit(judged())
    assert exporter.dropped == 1


def test_it_sends_what_waits_when_it_is_stopped():
    with collecting(200) as (_, exporter):
        exporter.submit(judged())
        exporter.stop()
        assert exporter.sent == 1


def test_an_endpoint_is_a_url():
    with pytest.raises(ValidationError):
        ExportOptions(endpoint="localhost:4318")
