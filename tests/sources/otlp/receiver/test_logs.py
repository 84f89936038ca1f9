"""Content in log events joins its span, whichever comes first; what is dropped is counted."""

import json

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from ragmon.access import Permit, Pipelines
from ragmon.privacy import redact_text
from ragmon.sources.otlp.receiver.logs import _event_name
from tests.support.otlp import NOW, TRACE, as_json, rig, span

ID = TRACE.hex()
JSON = {"content_type": "application/json"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
ROOT, CALL = span(1, 0, {"gen_ai.operation.name": "invoke_agent"}), span(2, 1, CHAT)
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "What is the fee?"}]}]
REPLIED = [{"role": "assistant", "parts": [{"type": "text", "content": "Ten euros."}]}]
DETAILS = {
    "event_name": "gen_ai.client.inference.operation.details",
    "attributes": {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": REPLIED},
}


@pytest.fixture
def site(tmp_path):
    with rig(tmp_path) as built:
        yield built


def wire(value):
    """A value as OTLP/JSON has it."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": wire(v)} for k, v in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [wire(each) for each in value]}}
    return {"stringValue": value}


def logs(*records, service="shop"):
    """A request of log records: of the model call, unless they say otherwise."""
    wired = []
    for at, record in enumerate(records):
        fields = {"traceId": ID, "spanId": f"{2:016x}"} | record.get("ids", {})
        fields["timeUnixNano"] = str(int(NOW * 1e9) + at)
        if record.get("event_name"):
            fields["eventName"] = record["event_name"]
        if "body" in record:
            fields["body"] = wire(record["body"])
        attributes = record.get("attributes", {})
        fields["attributes"] = [{"key": k, "value": wire(v)} for k, v in attributes.items()]
        wired.append(fields)
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scopes = [{"logRecords": wired}]
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": scopes}]}).encode()


def send_logs(site, *records, **options):
    assert site.send(logs(*records, **options), "/v1/logs", **JSON).status == 200


def send_spans(site, *spans):
    assert site.send(as_json(*spans), **JSON).status == 200


def content(site):
    record = site.record(ID)
    return record.query, record.answer


WHOLE = ("What is the fee?", "Ten euros.")


def test_content_that_comes_first_waits_for_its_span(site):
    send_logs(site, DETAILS)
    send_spans(site, ROOT, CALL)
    site.wait()
    assert content(site) == WHOLE
    assert site.counters.counts["otlp_logs", "accepted"] == 1


def test_content_that_comes_late_restates_its_query(site):
    send_spans(site, ROOT, CALL)
    site.wait()
    assert content(site) == (None, None)
    send_logs(site, DETAILS)
    site.wait()
    assert content(site) == WHOLE
    assert (site.stored(), site.pending()) == (1, 0)
    assert site.source.worker.assembly.counts.restated == 1


def test_content_that_waits_longer_than_for_a_root_still_finds_its_span(site):
    send_logs(site, DETAILS)
    site.wait(61.0)
    assert site.source.worker.assembly.counts.without_query == {"only_logs": 1}
    send_spans(site, ROOT, CALL)
    site.wait(11.0)
    assert content(site) == WHOLE


def test_content_that_is_sent_again_changes_nothing(site):
    send_logs(site, DETAILS)
    send_spans(site, ROOT, CALL)
    site.wait()
    send_logs(site, DETAILS)
    site.wait()
    assert site.source.worker.assembly.counts.restated == 0
    assert site.counters.counts["otlp_spans", "duplicate"] == 1


def test_a_restart_between_a_span_and_its_content_loses_nothing(tmp_path):
    with rig(tmp_path) as site:
        send_logs(site, DETAILS)
    with rig(tmp_path) as site:
        send_spans(site, ROOT, CALL)
        site.wait()
        assert content(site) == WHOLE


def test_protobuf_says_the_same(site):
    send_spans(site, ROOT, CALL)
    tree = json.loads(logs(DETAILS))
    record = tree["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    del record["traceId"], record["spanId"]
    name = record.pop("eventName").encode()
    message = json_format.ParseDict(tree, ExportLogsServiceRequest())
    sent = message.resource_logs[0].scope_logs[0].log_records[0]
    sent.trace_id, sent.span_id = TRACE, CALL.span_id
    sent.MergeFromString(b"\x62" + bytes([len(name)]) + name)  # event_name, in any version
    assert site.send(message.SerializeToString(), "/v1/logs").status == 200
    site.wait()
    assert content(site) == WHOLE


def message(kind, body, **attributes):
    return {"event_name": f"gen_ai.{kind}", "body": body, "attributes": attributes}


HISTORY = (
    message("system.message", {"content": "Be brief."}),
    message("user.message", {"content": "Hello?"}),
    message("assistant.message", {"content": "Hello."}),
    message("user.message", {"role": "user", "content": "What is the fee?"}),
)
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"content": "Ten euros."}}
SEMANTIC_KERNEL = [
    {"body": json.dumps(body), "attributes": {"event.name": f"gen_ai.{kind}"}}
    for kind, body in (
        ("user.message", {"role": "user", "content": "What is the fee?"}),
        ("choice", {"message": {"role": "assistant", "content": "Ten euros."}, "index": 0}),
    )
]
AWS = {
    "attributes": {"event.name": "strands.telemetry.tracer"},
    "body": {
        "input": {"messages": [{"role": "user", "content": "What is the fee?"}]},
        "output": {"messages": [{"role": "assistant", "content": "Ten euros."}]},
    },
}


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([DETAILS], id="the details of an operation"),
        pytest.param(
            [{"attributes": {"event.name": DETAILS["event_name"], **DETAILS["attributes"]}}],
            id="named by an attribute",
        ),
        pytest.param(
            [{**DETAILS, "attributes": {}, "body": DETAILS["attributes"]}], id="in the body"
        ),
        pytest.param([*HISTORY, message("choice", CHOICE)], id="one event a message"),
        pytest.param(
            [
                message("user.message", {"content": [{"text": "What is the fee?"}]}),
                message("choice", {"message": {"content": [{"text": "Ten euros."}]}}),
            ],
            id="messages in parts",
        ),
        pytest.param(
            [
                message("user.message", {"content": {"parts": [{"text": "What is the fee?"}]}}),
                message("choice", {"content": {"parts": [{"text": "Ten euros."}]}}),
            ],
            id="as Google writes them",
        ),
        pytest.param(
            [message("content.prompt", "What is the fee?"),
             message("content.completion", "Ten euros.")],
            id="plain texts",
        ),
        pytest.param(SEMANTIC_KERNEL, id="Semantic Kernel"),
        pytest.param([AWS], id="the conversation of a call, as AWS writes it"),
    ],
)  # fmt: skip
def test_content_is_read_however_it_is_logged(site, records):
    send_spans(site, ROOT, CALL)
    send_logs(site, *records)
    site.wait()
    assert content(site) == WHOLE


def test_a_reply_of_the_history_is_not_the_answer(site):
    send_spans(site, ROOT, CALL)
    send_logs(site, *HISTORY)
    site.wait()
    assert content(site) == ("What is the fee?", None)


def test_a_reply_after_the_question_is_the_answer(site):
    send_spans(site, ROOT, CALL)
    send_logs(site, *HISTORY, message("assistant.message", {"content": "Ten euros."}))
    site.wait()
    assert content(site) == WHOLE


def test_what_a_span_says_itself_stays(site):
    own = json.dumps([{"role": "user", "content": "What do I pay?"}])
    send_spans(site, ROOT, span(2, 1, CHAT | {"gen_ai.input.messages": own}))
    send_logs(site, DETAILS)
    site.wait()
    assert content(site) == ("What do I pay?", "Ten euros.")


def test_documents_of_a_retrieval_join_it_too(site):
    search = {"gen_ai.operation.name": "retrieval"}
    documents = json.dumps([{"id": "d1", "content": "Fees are ten euros.", "score": 0.9}])
    send_spans(site, ROOT, CALL, span(3, 1, search))
    send_logs(
        site,
        {
            "ids": {"spanId": f"{3:016x}"},
            "event_name": "gen_ai.client.inference.operation.details",
            "attributes": {"gen_ai.retrieval.documents": documents},
        },
    )
    site.wait()
    assert [chunk.id for chunk in site.record(ID).chunks] == ["d1"]


def test_other_logs_are_left_alone_and_counted(site):
    send_logs(site, {"body": "started"}, {"body": {"messages": "none"}}, {"event_name": "gen_ai.x"})
    assert site.source.ignored["log_record"] == 3
    assert (site.counters.counts, site.pending()) == ({}, 0)


@pytest.mark.parametrize("ids", [{"traceId": "", "spanId": ""}, {"spanId": ""}])
def test_content_without_ids_is_counted(site, ids):
    send_logs(site, {**DETAILS, "ids": ids})
    assert site.counters.counts == {("otlp_logs", "no_ids"): 1}


def test_content_of_a_span_that_never_comes_is_counted_once(site):
    send_spans(site, ROOT, CALL)
    send_logs(site, {**DETAILS, "ids": {"spanId": f"{77:016x}"}})
    site.wait()
    assert site.counters.counts["otlp_logs", "no_span"] == 1
    send_spans(site, span(5, 1))
    site.wait()
    assert site.counters.counts["otlp_logs", "no_span"] == 1


def test_content_that_waits_on_disk_is_redacted_first(tmp_path):
    asked = [{"role": "user", "content": "I am eve@example.org"}]
    with rig(tmp_path, redact=redact_text) as site:
        send_logs(site, {**DETAILS, "attributes": {"gen_ai.input.messages": asked}})
        spans = site.engine.shard.spans()
        (body,) = site.engine.thread.submit(lambda: spans.bodies([TRACE])).result()[0]
        assert b"eve@example.org" not in body
        send_spans(site, ROOT, CALL)
        site.wait()
        assert site.record(ID).query == "I am [email]"


def test_content_beyond_the_most_of_a_trace_is_refused(site):
    spans = [span(at, attributes=CHAT) for at in range(1, 10_001)]
    for start in range(0, len(spans), 1_000):
        send_spans(site, *spans[start : start + 1_000])
        site.source.worker.step()
    answer = site.send(logs(DETAILS), "/v1/logs", **JSON)
    told = answer.json()["partialSuccess"]
    assert told == {"rejectedLogRecords": "1", "errorMessage": "1 log records: trace_too_large"}
    assert site.counters.counts["otlp_logs", "trace_too_large"] == 1


def limited(scope, needed):
    """A sender of logs may write the pipeline shop only."""
    globs = ("shop",) if scope["path"] == "/v1/logs" else ("*",)
    return Permit("token", Pipelines(globs))


def test_content_is_not_put_into_what_its_sender_may_not_write(tmp_path):
    with rig(tmp_path, limited) as site:
        send_spans(site, ROOT, CALL)
        send_logs(site, DETAILS)
        send_logs(site, DETAILS, service="bank")
        site.wait()
        assert content(site) == (None, None)
        assert site.counters.counts["otlp_logs", "pipeline_forbidden"] == 2


def test_the_name_of_an_event_is_read_by_classes_that_do_not_know_its_field():
    record = InstrumentationScope.FromString(b"\x62\x05hello")  # field 12, and a class without it
    assert _event_name(record) == "hello"
    assert _event_name(InstrumentationScope(name="n")) == ""
