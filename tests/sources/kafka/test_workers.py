"""Workers of one group and their evaluator on a real broker and database, killed as they work."""

import json
import random

import pytest
import requests

from tests.sources.kafka.test_daemon import entry, feedback, query, send
from tests.support import postgres
from tests.support.daemons import Process, serve_once
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

IDS = 3_000
PARTITIONS = 6


class Cluster:
    """Processes with one store and one topic."""

    def __init__(self, tmp_path, kafka, topic, **options):
        self._folder = tmp_path
        store = {"kind": "postgresql", "dsn": postgres.shared_server().url(), "lease_s": 3.0}
        store["schema_name"] = postgres.new_schema()
        settings = options or {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        self.flags = (
            "--store", json.dumps(store),
            "--sources", json.dumps([entry(kafka, topic, options=settings)]),
            "--judge.grounding.enabled", "false", "--snapshot_every", "500ms",
        )  # fmt: skip
        self.topic = topic
        self._started = []

    def start(self, role, **options):
        folder = self._folder / f"{role}-{len(self._started)}"
        process = Process(folder, *self.flags, "--replica.role", role, **options)
        self._started.append(process)
        return process

    def kill_all(self):
        for process in self._started:
            if process.process.poll() is None:
                process.kill()


@pytest.fixture
def cluster(tmp_path, kafka):
    topic = f"shared-{postgres.new_schema()}"
    kafka.create(topic, PARTITIONS)
    cluster = Cluster(tmp_path, kafka, topic)
    yield cluster
    cluster.kill_all()


def rounds_of(seed, rounds=3):
    """Messages in rounds: each id once, of some a repeat and of some feedback."""
    chance = random.Random(seed)
    made = []
    for round_ in range(rounds):
        messages = []
        for number in range(round_, IDS, rounds):
            query_id = f"q{number}"
            messages.append((query_id, query(query_id), ""))
            if chance.random() < 0.02:
                messages.append((query_id, query(query_id), ""))
            if chance.random() < 0.1:
                at = chance.randrange(len(messages) + 1)  # also before its query
                messages.insert(at, (query_id, feedback(query_id), "feedback"))
        made.append(messages)
    return made


def test_each_message_counts_once_whatever_is_killed(kafka, cluster):
    rounds = rounds_of(11)
    rated = sum(kind == "feedback" for messages in rounds for _, _, kind in messages)
    evaluator = cluster.start("evaluator")
    workers = [cluster.start("worker") for _ in range(3)]
    sent = 0
    for number, messages in enumerate(rounds):
        send(kafka, cluster.topic, messages)
        before = sent
        sent += IDS // len(rounds)
        eventually(
            lambda site=evaluator, before=before: site.total("ragmon_queries_total") > before,
            "it is counted", 60,
        )  # fmt: skip
        workers.pop(0).kill()
        workers.append(cluster.start("worker", ready=False))
        if number % 2:
            evaluator.kill()
            evaluator = cluster.start("evaluator")
    eventually(lambda: evaluator.total("ragmon_queries_total") >= IDS, "all are counted", 90)
    again = [(f"q{number}", query(f"q{number}"), "") for number in range(60)]
    send(kafka, cluster.topic, [*again, *((f"l{n}", query(f"l{n}"), "") for n in range(60))])
    eventually(lambda: evaluator.total("ragmon_queries_total") >= IDS + 60, "the last too", 60)
    assert evaluator.total("ragmon_queries_total") == IDS + 60
    assert evaluator.total("ragmon_feedback_total") == rated
    assert evaluator.total("ragmon_loop_last_turn_timestamp_seconds", loop="following") > 0
    report = evaluator.get("/v1/report?window=1h").json
    assert report["queries"] == IDS + 60
    eventually(
        lambda: sum(each.total("ragmon_shard_owned") for each in workers) == PARTITIONS,
        "each partition has one owner", 60,
    )  # fmt: skip
    for process in (*workers, evaluator):
        assert process.terminate() == 0


def test_a_worker_that_ends_in_order_hands_over_and_answers_nothing_else(kafka, cluster):
    evaluator = cluster.start("evaluator")
    workers = [cluster.start("worker") for _ in range(2)]
    eventually(lambda: all(each.total("ragmon_shard_owned") for each in workers), "both", 60)
    assert workers.pop().terminate() == 0
    ids = [f"q{number}" for number in range(300)]
    send(kafka, cluster.topic, [(each, query(each), "") for each in ids])
    eventually(lambda: evaluator.total("ragmon_queries_total") >= 300, "all are counted", 60)
    assert evaluator.total("ragmon_queries_total") == 300
    assert workers[0].total("ragmon_shard_owned") == PARTITIONS
    assert workers[0].get("/v1/report").status == 404
    assert requests.delete(f"{evaluator.url}/v1/users/u", timeout=10).status_code == 400


def test_one_process_for_all_is_refused_where_workers_share_the_store(kafka, cluster, tmp_path):
    assert cluster.start("evaluator").terminate() == 0
    refused = serve_once(tmp_path / "all", *cluster.flags)
    assert refused.returncode != 0
    assert "replica.role: evaluator" in refused.stdout + refused.stderr
