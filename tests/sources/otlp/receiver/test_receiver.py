"""The duties of an OTLP receiver, and what it answers to bad input."""

import base64
import gzip
import json

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from ragmon.asgi import Problem
from ragmon.errors import StoreFullError
from ragmon.privacy import redact_text
from ragmon.sources.otlp.spans import MAX_ATTRIBUTES
from tests.support.otlp import NOW, TRACE, as_json, captured, rig, span

PROTOBUF, JSON = "application/x-protobuf", "application/json"
RETRIEVAL = {"openinference.span.kind": "RETRIEVER", "input.value": "why?", "output.value": "[]"}


@pytest.fixture
def site(tmp_path):
    with rig(tmp_path) as built:
        yield built


def request(**fields):
    """A protobuf request with one span."""
    message = ExportTraceServiceRequest()
    wire = message.resource_spans.add().scope_spans.add().spans.add()
    wire.trace_id, wire.span_id = fields.pop("trace_id", TRACE), fields.pop("span_id", b"12345678")
    wire.start_time_unix_nano, wire.end_time_unix_nano = int(NOW * 1e9), int(NOW * 1e9) + 10**7
    for key, value in (fields.pop("attributes", None) or RETRIEVAL).items():
        given = value if isinstance(value, AnyValue) else AnyValue(string_value=value)
        wire.attributes.append(KeyValue(key=key, value=given))
    for name, value in fields.items():
        setattr(wire, name, value)
    return message


@pytest.mark.parametrize("path", ["/v1/traces", "/api/public/otel/v1/traces"])
@pytest.mark.parametrize("chunks", [1, 7], ids=["whole", "chunked"])
@pytest.mark.parametrize("encoding", ["", "gzip"], ids=["plain", "gzip"])
def test_protobuf_is_answered_with_protobuf(site, path, chunks, encoding):
    body = request().SerializeToString()
    headers = {"content_encoding": encoding} if encoding else {}
    sent = gzip.compress(body) if encoding else body
    answer = site.send(sent, path, chunks=chunks, **headers)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, PROTOBUF, b"")
    assert site.pending() == 1


@pytest.mark.parametrize("media", [JSON, "application/json; charset=utf-8"])
def test_json_is_answered_with_json(site, media):
    answer = site.send(as_json(span(1, attributes=RETRIEVAL)), content_type=media)
    assert (answer.status, answer.headers["content-type"], answer.json()) == (200, JSON, {})
    assert site.pending() == 1


@pytest.mark.parametrize(
    ("body", "media"), [(b"", PROTOBUF), (b"{}", JSON), (b'{"resourceSpans": []}', JSON)]
)
def test_an_empty_request_is_fine(site, body, media):
    assert site.send(body, content_type=media).status == 200
    assert site.pending() == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"trace_id": bytes(16)}, "bad_trace_id", id="trace id of zeros"),
        pytest.param({"trace_id": b"short"}, "bad_trace_id", id="short trace id"),
        pytest.param({"trace_id": b""}, "bad_trace_id", id="no trace id"),
        pytest.param({"span_id": bytes(8)}, "bad_span_id", id="span id of zeros"),
    ],
)
def test_spans_without_identity_are_refused_alone(site, fields, reason):
    message = request(**fields)
    message.resource_spans[0].scope_spans[0].spans.append(
        request(span_id=b"abcdefgh").resource_spans[0].scope_spans[0].spans[0]
    )
    answer = site.send(message.SerializeToString())
    said = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, said.rejected_spans) == (200, 1)
    assert reason in said.error_message
    assert site.counters.counts["otlp_spans", reason] == 1
    assert site.pending() == 1


def test_partial_success_in_json(site):
    body = as_json(span(1, trace_id=bytes(16)), span(2))
    said = site.send(body, content_type=JSON).json()["partialSuccess"]
    assert said == {"rejectedSpans": "1", "errorMessage": "1 spans: bad_trace_id"}


def status_of(answer):
    """Code and message of a ``google.rpc.Status``, in either encoding."""
    if answer.headers["content-type"] == JSON:
        return answer.json()["code"], answer.json()["message"]
    assert answer.body[0] == 0x08
    assert answer.body[2] == 0x12
    length, start = answer.body[3], 4
    if length & 0x80:
        length, start = (length & 0x7F) | answer.body[4] << 7, 5
    assert start + length == len(answer.body)
    return answer.body[1], answer.body[start:].decode()


@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "reason"),
    [
        pytest.param(b"\x0a\xff", {}, 400, 3, "malformed", id="truncated protobuf"),
        pytest.param(b"{", {"content_type": JSON}, 400, 3, "malformed", id="truncated JSON"),
        pytest.param(
            b'{"resourceSpans": 1}', {"content_type": JSON}, 400, 3, "malformed", id="other JSON"
        ),
        pytest.param(
            b"[" * 100_000, {"content_type": JSON}, 400, 3, "malformed", id="deeply nested JSON"
        ),
        pytest.param(
            b"x", {"content_type": "text/plain"}, 415, 3, "unsupported_media", id="wrong type"
        ),
        pytest.param(
            b"no gzip", {"content_encoding": "gzip"}, 400, 3, "bad_compression", id="no gzip"
        ),
        pytest.param(bytes(2 << 20), {}, 413, 8, "too_large", id="too large"),
        pytest.param(
            gzip.compress(bytes(64 << 20)),
            {"content_encoding": "gzip"},
            413,
            8,
            "too_large",
            id="a gzip bomb",
        ),
    ],
)
def test_what_cannot_be_read_is_said_and_counted(site, body, headers, status, code, reason):
    answer = site.send(body, **headers)
    assert answer.status == status
    assert status_of(answer)[0] == code
    assert status_of(answer)[1]
    assert site.counters.counts["otlp", reason] == 1
    assert site.pending() == 0


def test_get_is_for_reading_only(site):
    assert site.send(b"", "/v1/logs", method="GET").status == 405
    assert site.send(b"", "/v1/traces", method="GET").json() == []


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_an_unready_store_asks_to_come_again(site, path, monkeypatch):
    def full(*_):
        raise StoreFullError("no space left")

    site.engine.shard.commit = full
    monkeypatch.setattr(type(site.engine.shard.spans()), "append", full)
    bodies = {"/v1/traces": request().SerializeToString(), "/v1/logs": evaluation_log()}
    answer = site.send(bodies[path], path)
    assert answer.status == 503
    assert 1 <= int(answer.headers["retry-after"]) <= 5
    assert status_of(answer)[0] == 14
    assert site.counters.counts["otlp", "store_full"] == 1


def test_spans_that_come_faster_than_they_are_read_are_asked_to_come_again(site):
    text = "x" * 900_000
    sent = [site.send(as_json(span(each, 9, {"output.value": text})), content_type=JSON)
            for each in range(1, 21)]  # fmt: skip
    refused = [answer for answer in sent if answer.status != 200]
    assert {answer.status for answer in refused} == {503}
    assert 1 <= int(refused[0].headers["retry-after"]) <= 5
    assert len(sent) - len(refused) == 10  # 8 MiB, and the request that went beyond
    assert site.counters.counts["otlp", "overloaded"] == len(refused)
    site.source.worker.step()
    again = site.send(as_json(span(30, 9, {"output.value": text})), content_type=JSON)
    assert again.status == 200


def metrics_request(points=3):
    message = ExportMetricsServiceRequest()
    scope = message.resource_metrics.add().scope_metrics.add()
    for _ in range(points):
        scope.metrics.add().gauge.data_points.add().as_double = 1.5
    histogram = scope.metrics.add().histogram
    histogram.data_points.add()
    histogram.aggregation_temporality = 2
    return message


@pytest.mark.parametrize("media", [PROTOBUF, JSON])
def test_metrics_are_refused_without_an_error_and_counted(site, media):
    message = metrics_request()
    body = message.SerializeToString()
    body = json_format.MessageToJson(message).encode() if media == JSON else body
    answer = site.send(body, "/v1/metrics", content_type=media)
    assert (answer.status, answer.headers["content-type"]) == (200, media)
    if media == JSON:
        told = answer.json()["partialSuccess"]
        rejected, message = told["rejectedDataPoints"], told["errorMessage"]
    else:
        partial = ExportMetricsServiceResponse.FromString(answer.body).partial_success
        rejected, message = partial.rejected_data_points, partial.error_message
    assert int(rejected) == 4
    assert "OTEL_METRICS_EXPORTER=none" in message
    assert site.source.ignored == {"metric_point": 4}
    assert (site.counters.counts, site.pending()) == ({}, 0)


@pytest.mark.parametrize(
    ("body", "media"),
    [
        pytest.param(metrics_request().SerializeToString()[:-1], PROTOBUF, id="truncated"),
        pytest.param(b"anything", PROTOBUF, id="no protobuf"),
        pytest.param(b'{"resourceMetrics":[{"scopeMetrics":[1]}]}', JSON, id="other JSON"),
    ],
)
def test_metrics_that_are_none_are_refused(site, body, media):
    answer = site.send(body, "/v1/metrics", content_type=media)
    assert (answer.status, status_of(answer)[0]) == (400, 3)
    assert site.counters.counts == {("otlp", "malformed"): 1}


# What a span may hold.


def one_record(site, body, media=PROTOBUF):
    assert site.send(body, content_type=media).status == 200
    site.wait()
    return site.record(TRACE.hex())


def test_ten_thousand_attributes_are_cut_and_counted(site):
    attributes = {**RETRIEVAL, **{f"key.{n}": "v" for n in range(10_000)}}
    record = one_record(site, request(attributes=attributes).SerializeToString())
    assert record.query == "why?"
    dropped = len(attributes) - MAX_ATTRIBUTES
    assert site.counters.counts["otlp_attributes", "too_many"] == dropped


def test_a_huge_value_is_cut_and_counted(site):
    long = {**RETRIEVAL, "input.value": "x" * 1_000_001}
    assert len(request(attributes=long).SerializeToString()) < 8 << 20
    body = gzip.compress(request(attributes=long).SerializeToString())
    assert site.send(body, content_encoding="gzip").status == 200
    site.wait()
    assert len(site.record(TRACE.hex()).query) == 1_000_000
    assert site.counters.counts["otlp_attributes", "cut"] == 1


def test_a_huge_name_is_cut(site):
    # Names are remembered to tell conventions apart; a megabyte each was never given back.
    for body, media in (
        (request(attributes={"k" * 1_000_000: "v"}).SerializeToString(), PROTOBUF),
        (as_json(span(1, attributes={"k" * 1_000_000: "v"})), JSON),
    ):
        assert site.send(body, content_type=media).status == 200
    spans = site.engine.shard.spans()
    (bodies,) = site.engine.thread.submit(lambda: spans.bodies([TRACE])).result()
    assert max(map(len, bodies)) < 4_000


@pytest.mark.parametrize("redact", [None, redact_text], ids=["kept", "redacted"])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"intValue": [1]}, id="a list for a number"),
        pytest.param({"doubleValue": 100000000000000000000}, id="1e20 as JavaScript writes it"),
        pytest.param({"doubleValue": 10**400}, id="a number beyond all"),
        pytest.param({"stringValue": {"a": [1]}}, id="an object for a text"),
        pytest.param({"boolValue": "yes"}, id="a text for a truth value"),
        pytest.param({"stringValue": "[" * 492 + "]" * 492}, id="a text of nested brackets"),
        pytest.param({"stringValue": '{"a":' * 400 + "1" + "}" * 400}, id="nested objects"),
    ],
)
def test_one_odd_attribute_costs_no_other_span(tmp_path, value, redact):
    body = json.loads(as_json(span(1, attributes=RETRIEVAL), span(2, 1, {"key": "v"})))
    spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[1]["attributes"].append({"key": "odd", "value": value})
    with rig(tmp_path, redact=redact) as built:
        answer = built.send(json.dumps(body).encode(), content_type=JSON)
        assert (answer.status, answer.json()) == (200, {})
        built.wait()
        assert built.record(TRACE.hex()) is not None


def test_vectors_are_dropped_before_they_are_stored(site):
    vector = AnyValue()
    vector.array_value.values.extend(AnyValue(double_value=n / 7) for n in range(1536))
    attributes = {**RETRIEVAL, "embedding.embeddings.0.embedding.vector": vector, "mine": vector}
    assert site.send(request(attributes=attributes).SerializeToString()).status == 200
    spans = site.engine.shard.spans()
    (body,) = site.engine.thread.submit(lambda: spans.bodies([TRACE])).result()[0]
    assert len(body) < 500
    assert site.counters.counts["otlp_attributes", "bulk"] == 2


def test_ids_of_any_case_whole_numbers_as_text_and_unknown_fields(site):
    sent = json.loads(as_json(span(1, attributes=RETRIEVAL)))
    wire = sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    wire["traceId"], wire["spanId"] = TRACE.hex().upper(), "00000000000000aB"
    wire["surprise"] = {"from": ["the", "future"]}
    wire["endTimeUnixNano"] = int(wire["startTimeUnixNano"]) + 25_000_000
    wire["attributes"].append({"key": "empty", "value": {"arrayValue": {}}})
    wire["attributes"].append({"key": "none"})
    del wire["parentSpanId"]
    wire["status"] = {}
    record = one_record(site, json.dumps(sent).encode(), JSON)
    assert (record.query_id, record.span_id) == (TRACE.hex(), "00000000000000ab")
    assert record.latency_ms.total == 25.0
    assert record.chunks == []


def test_circular_parents_still_make_one_query(site):
    ring = [span(1, 3, RETRIEVAL), span(2, 1), span(3, 2)]
    record = one_record(site, as_json(*ring), JSON)
    assert record.query == "why?"
    assert site.stored() == 1


def test_times_that_cannot_be_are_refused_and_counted(site):
    record = one_record(site, as_json(span(1, attributes=RETRIEVAL, start_ns=1, end_ns=2)), JSON)
    assert record is None
    assert site.counters.counts["otlp", "too_old"] == 1
    assert site.pending() == 0


# Who may send.


@pytest.mark.parametrize(
    ("credentials", "token"),
    [
        ("Bearer secret", "Bearer secret"),
        ("Basic " + base64.b64encode(b"pk-1:secret").decode(), "Bearer secret"),
        ("Basic ***", "Basic ***"),
    ],
    ids=["bearer", "the secret key of a Langfuse SDK", "no base64"],
)
def test_credentials(tmp_path, credentials, token):
    seen = []

    def authorize(scope, needed):
        seen.append((dict(scope["headers"])[b"authorization"].decode(), needed))
        raise Problem(401, "unknown token", reason="unauthorized")

    with rig(tmp_path, authorize) as site:
        answer = site.send(b"", authorization=credentials)
        assert (answer.status, status_of(answer)) == (401, (16, "unknown token"))
    assert seen == [(token, "ingest")]


# Feedback by other roads.


def evaluation_log(**attributes):
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add()
    record.trace_id = TRACE
    record.MergeFromString(b"\x62\x18gen_ai.evaluation.result")  # event_name, in any version
    given = {"gen_ai.evaluation.name": "user_feedback", **attributes}
    for key, value in given.items():
        record.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    record.attributes.append(
        KeyValue(key="gen_ai.evaluation.score.value", value=AnyValue(double_value=0.0))
    )
    return message.SerializeToString()


def log_json():
    attributes = [
        {"key": "event.name", "value": {"stringValue": "gen_ai.evaluation.result"}},
        {"key": "gen_ai.evaluation.name", "value": {"stringValue": "user_feedback"}},
        {"key": "gen_ai.evaluation.score.label", "value": {"stringValue": "thumbs_down"}},
    ]
    record = {"traceId": TRACE.hex(), "attributes": attributes, "timeUnixNano": "1"}
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


SCORE = {"id": "s1", "traceId": TRACE.hex(), "name": "user_feedback", "value": 0}
ANNOTATION = {"name": "thumbs", "annotator_kind": "HUMAN", "result": {"score": 0}}


@pytest.mark.parametrize(
    ("path", "body", "media"),
    [
        pytest.param("/v1/logs", evaluation_log(), PROTOBUF, id="a log record in protobuf"),
        pytest.param("/v1/logs", log_json(), JSON, id="a log record in JSON"),
        pytest.param(
            "/v1/logs",
            evaluation_log(**{"gen_ai.response.id": "r-1"}).replace(TRACE, bytes(16)),
            PROTOBUF,
            id="a log record with nothing but the response's id",
        ),
        pytest.param("/api/public/scores", json.dumps([SCORE]).encode(), JSON, id="a score list"),
        pytest.param(
            "/api/public/scores",
            json.dumps({**SCORE, "value": "bad", "dataType": "CATEGORICAL"}).encode(),
            JSON,
            id="one score, in a word",
        ),
        pytest.param(
            "/api/public/scores",
            json.dumps({**SCORE, "value": False, "dataType": "BOOLEAN"}).encode(),
            JSON,
            id="one score, yes or no",
        ),
        pytest.param(
            "/v1/trace_annotations",
            json.dumps({"data": [{**ANNOTATION, "trace_id": TRACE.hex()}]}).encode(),
            JSON,
            id="a Phoenix trace annotation",
        ),
        pytest.param(
            "/v1/span_annotations",
            json.dumps({"data": [{**ANNOTATION, "span_id": "0000000000000001"}]}).encode(),
            JSON,
            id="a Phoenix span annotation",
        ),
        pytest.param(
            "/v1/span_annotations",
            json.dumps(
                {"data": [{**ANNOTATION, "span_id": "00000000000000ff", "trace_id": TRACE.hex()}]}
            ).encode(),
            JSON,
            id="an annotation of a span that is not known, with its trace",
        ),
        pytest.param(
            "/v1/trace_annotations",
            json.dumps({"data": [{**ANNOTATION, "span_id": "0000000000000002"}]}).encode(),
            JSON,
            id="an annotation of a trace by one of its spans",
        ),
    ],
)
def test_feedback_reaches_its_query(site, path, body, media):
    chat = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "r-1"}
    assert site.send(as_json(span(1), span(2, 1, chat)), content_type=JSON).status == 200
    site.wait()
    assert site.send(body, path, content_type=media).status == 200
    assert site.query(TRACE.hex())["feedback"]["rating"] == -1.0
    assert site.counters.counts["otlp_feedback", "accepted"] == 1


def test_feedback_may_come_before_its_query(site):
    sent = site.send(json.dumps(SCORE).encode(), "/api/public/scores", content_type=JSON)
    assert sent.json() == {"id": "s1"}
    one_record(site, request().SerializeToString())
    assert site.query(TRACE.hex())["feedback"]["rating"] == -1.0


@pytest.mark.parametrize(
    ("path", "content", "status", "reason"),
    [
        ("/v1/span_annotations", {"data": [{**ANNOTATION, "span_id": "ab"}]}, 404, "unknown_span"),
        ("/api/public/scores", {"name": "x", "value": 1}, 404, "no_target"),
        ("/api/public/scores", ["x"], 400, "invalid"),
        ("/api/public/scores", {**SCORE, "name": ""}, 400, "invalid"),
    ],
)
def test_feedback_about_nothing_known(site, path, content, status, reason):
    answer = site.send(json.dumps(content).encode(), path, content_type=JSON)
    assert answer.status == status
    assert site.counters.counts["otlp_feedback", reason] >= 1


def test_other_logs_are_taken_and_counted(site):
    body = evaluation_log().replace(b"gen_ai.evaluation.result", b"gen_ai.evaluation.nothin")
    assert site.send(body, "/v1/logs").status == 200
    assert site.counters.counts == {}
    assert site.source.ignored["log_record"] == 1


# What may be written.


def test_texts_that_wait_on_disk_are_redacted_first(tmp_path):
    found = (
        '[{"id": "4111111111111111", "score": 0.2265390822539511, "text": "ask eve@example.org"}]'
    )
    attributes = {**RETRIEVAL, "input.value": "I am eve@example.org", "output.value": found}
    with rig(tmp_path, redact=redact_text) as site:
        site.send(request(attributes=attributes).SerializeToString())
        spans = site.engine.shard.spans()
        (body,) = site.engine.thread.submit(lambda: spans.bodies([TRACE])).result()[0]
        assert b"eve@example.org" not in body
        site.wait()
        record = site.record(TRACE.hex())
    assert (record.query, record.chunks[0].text) == ("I am [email]", "ask [email]")
    assert record.chunks[0].id == "4111111111111111"
    assert record.chunks[0].score == 0.2265390822539511


def test_a_service_that_was_asked_by_another_waits_for_the_root(tmp_path):
    asked = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "rewritten",
        "output.value": "[]",
    }
    whole = {"openinference.span.kind": "CHAIN", "input.value": "why?", "output.value": "so."}
    with rig(tmp_path) as site:
        body = json.loads(as_json(span(2, 1), span(3, 2, asked)))
        service = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        service |= {"kind": 2, "flags": 0x301}  # a server, and its caller is another process
        site.send(json.dumps(body).encode(), content_type=JSON)
        site.wait(20.0)  # the answer is being generated
        site.send(as_json(span(1, 0, whole, end_ns=int(NOW * 1e9) + 20 * 10**9)), content_type=JSON)
        site.wait(11.0)
        record = site.record(TRACE.hex())
    assert (record.query, record.answer, record.chunks) == ("why?", "so.", [])


# Being killed.


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_restart_between_two_halves_of_a_trace_loses_nothing(tmp_path, cut):
    requests = captured("oi-langchain")
    with rig(tmp_path) as site:
        for each in requests[:cut]:
            site.send(each.plain)
        site.source.worker.step()
    with rig(tmp_path) as site:  # nothing was told that it ends
        for each in requests[cut:]:
            site.send(each.plain)
        site.wait()
        assert site.stored() == 23
        assert site.pending() == 0


def test_a_query_committed_twice_counts_once(tmp_path):
    with rig(tmp_path) as site:
        site.send(request().SerializeToString())
        worker = site.source.worker
        worker._spans = site.engine.thread.bind(Forgetful(site.engine.shard.spans()))
        worker.step()
        site.clock.sleep(61.0)
        assert worker.step() is False  # killed after the commit, before that was noted
        assert (site.stored(), site.pending()) == (1, 1)
    with rig(tmp_path) as site:
        site.wait()
        assert (site.stored(), site.pending()) == (1, 0)
        assert site.counters.counts["otlp", "duplicate"] == 1


class Forgetful:
    """The span store of a process that dies before it notes what it mapped."""

    def __init__(self, spans):
        self.append, self.bodies, self.mark = spans.append, spans.bodies, spans.mark
        self.mapped, self.close = spans.mapped, spans.close

    def keep(self, traces, now):
        raise StoreFullError("no space left")


JSON_SPANS = b'{"resourceSpans":[{"scopeSpans":[{"spans":['
JSON_LOGS = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":['


def wired(tag: int, body: bytes) -> bytes:
    """A protobuf field of less than two megabytes."""
    size = len(body)
    return bytes([tag, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + body


@pytest.mark.parametrize(
    ("path", "body", "headers", "source"),
    [
        pytest.param(
            "/v1/traces",
            wired(0x0A, wired(0x12, b"\x12\x00" * 100_001)),
            {},
            "otlp",
            id="spans in protobuf",
        ),
        pytest.param(
            "/v1/traces", JSON_SPANS + b"{}," * 100_000 + b"{}]}]}]}", JSON, "otlp", id="in JSON"
        ),
        pytest.param(
            "/v1/logs",
            wired(0x0A, wired(0x12, b"\x12\x00" * 100_001)),
            {},
            "otlp",
            id="log records in protobuf",
        ),
        pytest.param(
            "/v1/metrics",
            wired(0x0A, wired(0x12, b"\x12\x00" * 100_001)),
            {},
            "otlp",
            id="metrics in protobuf",
        ),
        pytest.param(
            "/v1/logs", JSON_LOGS + b"{}," * 100_000 + b"{}]}]}]}", JSON, "otlp", id="and in JSON"
        ),
        pytest.param(
            "/api/public/scores",
            b"[" + b"{}," * 10_000 + b"{}]",
            JSON,
            "otlp_feedback",
            id="scores",
        ),
        pytest.param(
            "/v1/span_annotations",
            b'{"data":[' + b"{}," * 10_000 + b"{}]}",
            JSON,
            "otlp_feedback",
            id="annotations",
        ),
    ],
)
def test_too_much_in_one_request_is_refused_and_counted(site, path, body, headers, source):
    content_type = headers or "application/x-protobuf"
    answer = site.send(
        gzip.compress(body), path, content_type=content_type, content_encoding="gzip"
    )
    assert answer.status == 413
    assert site.counters.counts == {(source, "too_many_records"): 1}


def test_what_decoding_would_take_is_refused_and_counted(site):
    memory = site.source.memory
    with memory.open() as others:
        others.take(memory.room - 1_000)
        answer = site.send(JSON_SPANS + b"{}," * 1_000 + b"{}]}]}]}", content_type=JSON)
    assert answer.status == 503
    assert answer.headers["retry-after"]
    assert site.counters.counts == {("otlp", "memory"): 1}


def test_spans_beyond_the_most_of_a_trace_are_refused_and_counted(site):
    spans = b",".join(b'{"traceId":"%032x","spanId":"%016x"}' % (1, at + 1) for at in range(12_000))
    answer = site.send(JSON_SPANS + spans + b"]}]}]}", content_type=JSON)
    assert answer.status == 200
    refused = site.counters.counts["otlp_spans", "trace_too_large"]
    assert 2_000 <= refused <= 2_512
    assert site.counters.counts["otlp_spans", "accepted"] == 12_000 - refused
