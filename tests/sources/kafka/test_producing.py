"""Queries over HTTP through a topic: a real broker, workers, kill -9, and brokers that are down."""

import json
import os

import pytest

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from ragmon.errors import SettingsError
from tests.sources.kafka.test_daemon import entry, feedback, send
from tests.sources.kafka.test_workers import Cluster
from tests.support import postgres
from tests.support.daemons import running
from tests.support.kafka import broker
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

PARTITIONS = 4


def record(query_id, **fields):
    return {"query_id": query_id, "query": "?", "pipeline": "sent"} | fields


def random_text():
    """Some 200 kB that do not become smaller than 100."""
    return os.urandom(100_000).hex()


def values_of(kafka, topic):
    """Messages of a topic: their keys and contents."""
    consumer = kafka.client("Consumer", group_id="look", auto_offset_reset="earliest")
    consumer.subscribe([topic])
    messages = []
    eventually(lambda: messages.extend(consumer.consume(100, 1.0)) or messages, "messages", 30)
    consumer.close()
    return {message.key().decode(): json.loads(message.value()) for message in messages}


@pytest.fixture
def cluster(tmp_path, kafka):
    topic = f"produced-{postgres.new_schema()}"
    kafka.create(topic, PARTITIONS)
    cluster = Cluster(tmp_path, kafka, topic, source={"produce": True, "partitioner": "crc32"})
    yield cluster
    cluster.kill_all()


def test_what_is_acknowledged_over_http_is_stored_once_by_workers(kafka, cluster):
    evaluator = cluster.start("evaluator")
    worker = cluster.start("worker")
    sent = 0
    for round_ in range(3):
        for part in range(5):
            ids = [f"q{round_}-{part}-{number}" for number in range(40)]
            answer = evaluator.post("/v1/queries", [record(query_id) for query_id in ids])
            assert answer.json["accepted"] == 40
            sent += 40
        evaluator.kill()  # what it acknowledged is in the topic, and nowhere else
        if round_ == 1:
            worker.kill()
            worker = cluster.start("worker", ready=False)
        evaluator = cluster.start("evaluator")
    repeats = evaluator.post("/v1/queries", [record(f"q0-0-{number}") for number in range(40)])
    assert (repeats.json["accepted"], repeats.json["duplicates"]) == (40, 0)  # the worker tells
    eventually(lambda: worker.total("ragmon_duplicates_total") >= 40, "repeats are known", 60)
    eventually(lambda: evaluator.total("ragmon_queries_total") >= sent, "all are counted", 60)
    assert evaluator.total("ragmon_queries_total") == sent
    assert evaluator.total("ragmon_produced_total", outcome="delivered") == 40
    own = postgres.shared_server().execute(
        f"SELECT coalesce(sum(records), 0) FROM {cluster.schema}.blocks WHERE shard = 0"
    )
    assert own == [(0,)]

    # Both ways to rate a query find it: the API, and the topic with the partitioner of the sender.
    over_http = {"query_id": "q0-0-1", "rating": "negative"}
    assert evaluator.post("/v1/feedback", over_http).json["accepted"] == 1
    send(kafka, cluster.topic, [("q2-4-7", feedback("q2-4-7"), "feedback")])
    eventually(lambda: evaluator.total("ragmon_feedback_total") == 2, "both ratings", 60)
    assert evaluator.get("/v1/queries/q2-4-7").json["feedback"]["rating"] == -1.0
    assert evaluator.terminate() == 0
    assert worker.terminate() == 0


def test_one_process_reads_what_it_wrote_redacted_and_without_what_is_too_large(kafka, tmp_path):
    topic = f"whole-{postgres.new_schema()}"
    kafka.create(topic, 2, **{"max.message.bytes": "1000000"})
    sources = [entry(kafka, topic, produce=True)]
    with running(tmp_path / "data", sources=sources, privacy__text="redact") as site:
        answer = site.post(
            "/v1/queries",
            [
                record("a", query="write to ann@example.com", latency_ms=12.5, tags={"kind": "é"}),
                record("b", chunks=[{"id": f"{at}", "text": random_text()} for at in range(20)]),
                record("c", feedback="positive", timestamp="2026-01-01T00:00:00Z"),
            ],
        )
        assert answer.status == 200
        assert answer.json["accepted"] == 1
        errors = {one["line"]: one["error"] for one in answer.json["rejected"]}
        assert "takes no message of this size" in errors[2]
        assert 3 in errors  # older than what is kept
        eventually(lambda: site.total("ragmon_queries_total") == 1, "it is counted", 60)
        stored = site.get("/v1/queries/a").json["record"]
        assert stored["latency_ms"]["total"] == 12.5
        rejected = site.total("ragmon_rejected_total", source="http", reason="too_large_for_topic")
        assert rejected == 1
    [(key, value)] = values_of(kafka, topic).items()
    assert (key, value["tags"]) == ("a", {"kind": "é"})
    assert "ann@example.com" not in value["query"]


def test_brokers_that_are_down_are_named_and_taken_again(tmp_path_factory, tmp_path, monkeypatch):
    monkeypatch.setattr("ragmon.sources.kafka.options.PRODUCE_S", 2)
    with broker(tmp_path_factory.mktemp("down")) as kafka:
        kafka.create("down", 1)
        sources = [entry(kafka, "down", produce=True)]
        with running(tmp_path / "data", sources=sources) as site:
            assert site.post("/v1/queries", record("a")).status == 200
            kafka.kill()
            answer = site.post("/v1/queries", record("b"))
            assert answer.status == 503
            assert f"topic down at {kafka.brokers}" in answer.json["detail"]
            assert site.get("/readyz").status == 503
            again = site.post("/v1/queries", record("b"))
            assert again.status == 503
            assert site.get("/livez").status == 200
            assert site.post("/v1/feedback", {"query_id": "a", "rating": 1}).status == 200
            kafka.start()
            eventually(lambda: site.get("/readyz").status == 200, "it is ready again", 60)
            assert site.post("/v1/queries", record("b")).status == 200
            eventually(lambda: site.total("ragmon_queries_total") == 2, "both are counted", 60)


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        pytest.param(
            [{"topic": "a", "produce": True}, {"topic": "b", "produce": True}],
            "sources.1.produce: sources.0 has it already", id="two topics",
        ),
        pytest.param(
            [{"topic": "a", "format": "otlp", "produce": True}],
            "produce is for the format queries", id="a topic of traces",
        ),
        pytest.param(
            [{"topic": "a", "produce": True, "options": {"acks": 1}}],
            "acks cannot be set: what is acknowledged must be in the topic", id="fewer promises",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_the_start(tmp_path, sources, says):
    entries = [{"kind": "kafka", "brokers": ["127.0.0.1:1"]} | source for source in sources]
    folder = str(tmp_path / "data")
    settings = load(None, {"data_dir": folder, "sources": entries}, {}).settings
    with pytest.raises(SettingsError, match=says):
        Daemon(settings, SystemClock())
