"""A daemon that reads a topic: all kinds of messages, its metrics, and kill -9 of both sides."""

import json
import random

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from ragmon.errors import SettingsError
from tests.support.daemons import Process, running
from tests.support.modules import module
from tests.support.otlp import as_json, span
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

IDS = 3_000
ROUNDS = 2
PARTITIONS = 4


def entry(kafka, topic, **options):
    return {"kind": "kafka", "brokers": [kafka.brokers], "topic": topic, "linger_s": 0.05} | options


def query(query_id, **fields):
    return json.dumps({"query_id": query_id, "query": "?", "pipeline": "logged"} | fields).encode()


def feedback(query_id):
    return json.dumps({"query_id": query_id, "rating": "negative"}).encode()


def send(kafka, topic, messages):
    """Messages as (key, value, kind), acknowledged by the broker."""
    producer = kafka.client(enable_idempotence=True)
    for key, value, kind in messages:
        headers = [("ragmon-kind", kind)] if kind else None
        producer.produce(topic, value, key=key, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def test_queries_and_what_follows_them(kafka, tmp_path):
    kafka.create("all-kinds", 2)
    entries = [entry(kafka, "all-kinds")]
    with running(tmp_path / "data", sources=entries) as site:
        send(kafka, "all-kinds", [("a", feedback("a"), "feedback"), ("a", query("a"), "")])
        verdict = json.dumps({"query_id": "a", "judge": "ours", "score": 0.25}).encode()
        send(kafka, "all-kinds", [("a", verdict, "verdict"), ("b", b"poison", "")])
        label = json.dumps({"query_id": "a", "relevant_ids": ["d"]}).encode()
        send(kafka, "all-kinds", [("a", label, "label")])

        def whole():
            answer = site.get("/v1/queries/a")
            text = answer.text if answer.status == 200 else ""
            return '"ours"' in text and "relevant_ids" in text and '"feedback"' in text

        eventually(whole, "the query has what followed it", 30)
        eventually(
            lambda: site.total("ragmon_rejected_total", source="kafka", reason="malformed") == 1,
            "the poison message is counted",
        )
        eventually(
            lambda: 'ragmon_kafka_lag_records{partition="1",topic="all-kinds"} 0' in site.page(),
            "the lag is shown",
        )
        assert 'ragmon_log_lost_total{topic="all-kinds"} 0' in site.page()
        listed = site.get("/v1/quarantine").text
        assert "kafka topic all-kinds, partition" in listed
        assert site.get("/readyz").status == 200


def one_trace():
    """A retrieval and a generation under their root, just now."""
    kinds = ("CHAIN", "RETRIEVER", "LLM")
    start = int(SystemClock().now() * 1e9)
    return [
        span(
            number,
            0 if number == 1 else 1,
            {"openinference.span.kind": kind, "input.value": "where?", "output.value": "here"},
            start_ns=start + number,
            end_ns=start + number + 1_000_000,
        )
        for number, kind in enumerate(kinds, 1)
    ]


def as_protobuf(*spans):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for each in spans:
        made = scope.spans.add(
            trace_id=each.trace_id,
            span_id=each.span_id,
            parent_span_id=each.parent_id,
            name=each.name,
            start_time_unix_nano=each.start_ns,
            end_time_unix_nano=each.end_ns,
        )
        for key, value in each.attributes.items():
            made.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


FORMS = {"otlp": as_protobuf, "otlp_json": as_json}


@pytest.mark.parametrize("format_", FORMS)
def test_traces_as_the_collector_writes_them(kafka, tmp_path, format_):
    topic = f"traces-{format_}"
    kafka.create(topic, 2)
    entries = [entry(kafka, topic, format=format_)]
    request = FORMS[format_](*one_trace())
    with running(tmp_path / "data", sources=entries, otlp__linger="100ms") as site:
        kafka.send(topic, request, request, b"no trace")  # one is a repeat
        eventually(lambda: site.total("ragmon_queries_total") == 1, "the trace is a query", 30)
        reasons = {"source": "kafka", "reason": "malformed"}
        eventually(lambda: site.total("ragmon_rejected_total", **reasons) == 1, "it is counted")
        assert site.total("ragmon_queries_total") == 1


def test_a_broker_that_is_not_there_does_not_stop_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("ragmon.sources.kafka.client._ASK_S", 0.5)
    module("confluent_kafka")
    entries = [{"kind": "kafka", "brokers": ["127.0.0.1:1"], "topic": "any"}]
    with running(tmp_path / "data", sources=entries) as site:
        assert site.get("/readyz").status == 200
        eventually(
            lambda: site.total("ragmon_loop_failures_total", loop="kafka:ragmon:any") >= 1,
            "the loop fails",
            30,
        )


def test_settings_that_cannot_be_stop_the_start(tmp_path):
    module("confluent_kafka")
    source = {"kind": "kafka", "brokers": ["k:1"], "topic": "t", "options": {"no.such": 1}}
    settings = load(None, {"data_dir": str(tmp_path / "data"), "sources": [source]}, {}).settings
    with pytest.raises(SettingsError, match=r'No such configuration property: "no\.such"'):
        Daemon(settings, SystemClock())
    assert not (tmp_path / "data").exists()


def stream(seed):
    """Messages in rounds: each id once, of some a repeat and of some feedback."""
    chance = random.Random(seed)
    rounds = []
    for round_ in range(ROUNDS):
        messages = []
        for number in range(round_, IDS, ROUNDS):
            query_id = f"q{number}"
            messages.append((query_id, query(query_id), ""))
            if chance.random() < 0.02:
                messages.append((query_id, query(query_id), ""))
            if chance.random() < 0.1:
                at = chance.randrange(len(messages) + 1)  # also before its query
                messages.insert(at, (query_id, feedback(query_id), "feedback"))
        rounds.append(messages)
    return rounds


def test_each_message_counts_once_across_kill_9_of_both_sides(kafka, tmp_path):
    kafka.create("exactly-once", PARTITIONS)
    source = json.dumps([entry(kafka, "exactly-once")])
    rounds = stream(7)
    rated = sum(kind == "feedback" for messages in rounds for _, _, kind in messages)
    assert rated > 200
    sent = 0
    for number, messages in enumerate(rounds):
        site = Process(tmp_path / "data", "--snapshot_every", "200ms", "--sources", source)
        send(kafka, "exactly-once", messages)
        sent += IDS // ROUNDS
        least = sent - IDS // ROUNDS
        eventually(
            lambda site=site, least=least: site.total("ragmon_queries_total") > least,
            "it reads", 60,
        )  # fmt: skip
        if number % 2:
            kafka.kill()
        site.kill()
        if number % 2:
            kafka.start()
    with Process(tmp_path / "data", "--sources", source) as site:
        eventually(lambda: site.total("ragmon_queries_total") >= IDS, "all are read", 60)
        again = [(f"q{number}", query(f"q{number}"), "") for number in range(50)]
        before = site.total("ragmon_duplicates_total", source="kafka")
        send(kafka, "exactly-once", [*again, ("last", query("last"), "")])
        eventually(lambda: site.total("ragmon_queries_total") > IDS, "the last is read", 60)
        eventually(
            lambda: site.total("ragmon_duplicates_total", source="kafka") == before + 50,
            "every repeat is recognised",
        )
        assert site.total("ragmon_queries_total") == IDS + 1
        assert site.total("ragmon_feedback_total") == rated
        for number in range(0, IDS, 100):
            assert site.get(f"/v1/queries/q{number}").status == 200
        assert site.terminate() == 0
