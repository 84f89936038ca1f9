"""Workers of one group and their evaluator on a real broker and database, killed as they work."""

import json
import random

import pytest
import requests

from ragmon.clock import SystemClock
from tests.sources.kafka.test_daemon import entry, feedback, query, send
from tests.support import postgres
from tests.support.daemons import Process, serve_once
from tests.support.llm_server import serving
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

IDS = 3_000
PARTITIONS = 6


class Cluster:
    """Processes with one store and one topic."""

    def __init__(self, tmp_path, kafka, topic, *, source=None, **options):
        self._folder = tmp_path
        self.schema = postgres.new_schema()
        store = {"kind": "postgresql", "dsn": postgres.shared_server().url(), "lease_s": 3.0}
        store["schema_name"] = self.schema
        settings = options or {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        sources = [entry(kafka, topic, options=settings, **(source or {}))]
        self.flags = (
            "--store", json.dumps(store), "--sources", json.dumps(sources),
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


def test_the_evaluator_shows_every_query_that_workers_store(kafka, cluster):
    evaluator = cluster.start("evaluator")
    cluster.start("worker")
    ids = [f"q{number}" for number in range(120)]
    at = SystemClock().now() - 60.0
    bodies = [
        query(each, timestamp=at + number, latency_ms=float(number), answer=f"answer {number}")
        for number, each in enumerate(ids)
    ]
    send(kafka, cluster.topic, [(each, body, "") for each, body in zip(ids, bodies, strict=True)])
    rated = [(each, feedback(each), "feedback") for each in ids[:7]]
    send(kafka, cluster.topic, rated)
    own = {"query_id": "own", "query": "?", "pipeline": "logged", "timestamp": at - 1.0}
    assert evaluator.post("/v1/queries", own).status == 200
    eventually(lambda: evaluator.total("ragmon_queries_total") == 121, "all are counted", 60)
    eventually(lambda: evaluator.total("ragmon_feedback_total") == 7, "feedback is", 60)

    listed, cursor = [], ""
    while cursor is not None:
        page = evaluator.get(f"/v1/queries?pipeline=logged&limit=25{cursor and '&cursor='}{cursor}")
        listed += [each["record"]["query_id"] for each in page.json["queries"]]
        cursor = page.json.get("next_cursor")
    assert listed == [*reversed(ids), "own"]
    first = evaluator.get("/v1/queries?pipeline=logged&limit=1").json
    assert first["matches"] == 121
    slowest = evaluator.get("/v1/queries?pipeline=logged&order=slowest&limit=2").json["queries"]
    assert [each["record"]["query_id"] for each in slowest] == ["q119", "q118"]
    bad = evaluator.get("/v1/queries?pipeline=logged&failing=disliked").json["queries"]
    assert sorted(each["record"]["query_id"] for each in bad) == sorted(ids[:7])
    one = evaluator.get("/v1/queries/q3").json
    assert (one["record"]["answer"], one["feedback"]["rating"]) == ("answer 3", -1.0)
    assert evaluator.get("/v1/queries/own").status == 200
    assert evaluator.get("/v1/queries/nobody").status == 404
    exported = evaluator.get("/v1/export?pipeline=logged").text.splitlines()
    assert [json.loads(each)["record"]["query_id"] for each in exported] == listed


def posted(site, path, body):
    """True for what was acknowledged."""
    try:
        return site.post(path, body).status == 200
    except OSError:  # it was killed
        return False


def test_what_is_acknowledged_over_http_reaches_queries_of_workers_once(kafka, cluster):
    ids = [f"q{number}" for number in range(400)]
    evaluator = cluster.start("evaluator")
    workers = [cluster.start("worker") for _ in range(2)]
    send(kafka, cluster.topic, [(each, query(each), "") for each in ids[:200]])
    eventually(lambda: evaluator.total("ragmon_queries_total") == 200, "the first are counted", 60)
    left = [ids[at : at + 20] for at in range(0, len(ids), 20)]  # half of them before their query
    random.Random(5).shuffle(left)
    kills = {4: "worker", 9: "evaluator", 14: "worker"}
    for number, some in enumerate(left):
        ratings = [{"query_id": each, "rating": "negative"} for each in some]
        label = [{"query_id": some[0], "faithful": 1.0}]
        if kills.get(number) == "worker":
            workers.pop(0).kill()
            workers.append(cluster.start("worker", ready=False))
        elif kills.get(number) == "evaluator":
            evaluator.kill()
            evaluator = cluster.start("evaluator")
        for path, body in (("/v1/feedback", ratings), ("/v1/labels", label)):
            eventually(
                lambda site=evaluator, path=path, body=body: posted(site, path, body),
                "it is taken",
                60,
            )
            assert posted(evaluator, path, body)  # as a sender does that lost the answer
        if number == 10:
            send(kafka, cluster.topic, [(each, query(each), "") for each in ids[200:]])
    eventually(lambda: evaluator.total("ragmon_queries_total") == 400, "all are counted", 90)
    eventually(lambda: evaluator.total("ragmon_feedback_total") >= 400, "and rated", 90)
    assert evaluator.total("ragmon_feedback_total") == 400
    eventually(lambda: evaluator.total("ragmon_handed_changes") == 0, "nothing is left", 30)
    for some in left:
        labels = evaluator.get(f"/v1/queries/{some[0]}").json["labels"]
        assert [each["faithful"] for each in labels] == [1.0]
    report = evaluator.get("/v1/report?window=1h").json
    assert (report["queries"], report["metrics"]["negative_feedback"]["samples"]) == (400, 400)


def test_a_persons_content_is_erased_from_every_shard(kafka, cluster):
    evaluator = cluster.start("evaluator")
    workers = [cluster.start("worker") for _ in range(2)]
    ids = [f"q{number}" for number in range(60)]
    users = ("ada", "bob")
    send(kafka, cluster.topic, [
        (each, query(each, user_id=users[number % 2], answer=f"secret of {each}"), "")
        for number, each in enumerate(ids)
    ])  # fmt: skip
    eventually(lambda: evaluator.total("ragmon_queries_total") == 60, "all are counted", 60)
    workers.pop().kill()  # nobody has some of the partitions for a while
    asked = requests.delete(f"{evaluator.url}/v1/users/ada", timeout=30)
    assert asked.status_code == 202
    number = asked.json()["request"]
    eventually(
        lambda: evaluator.get(f"/v1/forgotten/{number}").json["state"] == "done", "it is done", 120
    )
    receipt = evaluator.get(f"/v1/forgotten/{number}").json
    assert receipt["removed"]["records"] == 30
    exported = evaluator.get("/v1/export?pipeline=logged").text
    assert [f'"secret of {each}"' in exported for each in ids] == [False, True] * 30
    assert evaluator.total("ragmon_queries_total") == 60


ANSWERS = 120


def judged_by(llm, per_hour):
    """Flags of a daemon whose answers a language model judges."""
    return (
        "--judge.llm.base_url", llm.url, "--judge.llm.model", "tiny",
        "--judge.llm.modes", "[claims]", "--judge.every", "200ms",
        "--judge.grounding.enabled", "true", "--judge.grounding.max_cpu", "1.0",
        "--sampling.judgements_per_hour", str(per_hour), "--sampling.judgements_per_day", "null",
    )  # fmt: skip


def answered(number):
    chunks = [{"id": "c", "text": f"It is {number}"}]
    return query(f"q{number}", answer=f"It is {number}. Penguins dance.", chunks=chunks)


def verdicts_of(site, count):
    """Verdicts by judge of each answer; of one that is not shown, none."""
    answers = [site.get(f"/v1/queries/q{number}") for number in range(count)]
    return [
        sorted(each["judge"] for each in answer.json["verdicts"]) if answer.status == 200 else []
        for answer in answers
    ]


def test_answers_of_workers_are_judged_once_whatever_is_killed(kafka, cluster):
    with serving() as llm:
        cluster.flags = (*cluster.flags, *judged_by(llm, 100_000))
        evaluator = cluster.start("evaluator")
        workers = [cluster.start("worker") for _ in range(2)]
        numbers = range(ANSWERS)
        send(kafka, cluster.topic, [(f"q{each}", answered(each), "") for each in numbers])
        for kill in (1, 2, 3):
            asked = ANSWERS * kill // 4
            eventually(lambda most=asked: len(llm.chats) > most, "some were asked about", 90)
            if kill == 2:
                evaluator.kill()
                evaluator = cluster.start("evaluator")
            else:
                workers.pop(0).kill()
                workers.append(cluster.start("worker", ready=False))
        samples = {"judge": "llm", "window": "1h", "pipeline": "logged"}
        eventually(
            lambda: evaluator.total("ragmon_faithfulness_ratio_samples", **samples) >= ANSWERS,
            "all were judged", 120,
        )  # fmt: skip
        assert evaluator.total("ragmon_faithfulness_ratio_samples", **samples) == ANSWERS
        assert evaluator.total("ragmon_faithfulness_ratio", **samples) == 0.5
        eventually(lambda: evaluator.total("ragmon_handed_changes") == 0, "nothing is left", 30)
        assert evaluator.total("ragmon_judge_queue_length", judge="llm") == 0
        assert verdicts_of(evaluator, ANSWERS) == [["grounding", "llm"]] * ANSWERS
        assert evaluator.get("/v1/queries/q7").json["draw"]["probability"] == 1.0


def test_one_budget_holds_for_the_answers_of_all_workers(kafka, cluster):
    with serving() as llm:
        cluster.flags = (*cluster.flags, *judged_by(llm, 10))
        evaluator = cluster.start("evaluator")
        for _ in range(2):
            cluster.start("worker")
        numbers = range(ANSWERS)
        send(kafka, cluster.topic, [(f"q{each}", answered(each), "") for each in numbers])
        samples = {"window": "1h", "pipeline": "logged"}
        eventually(
            lambda: evaluator.total("ragmon_grounding_ratio_samples", **samples) == ANSWERS,
            "the embedded judge read all", 120,
        )  # fmt: skip
        eventually(
            lambda: evaluator.total("ragmon_judged_total", judge="llm") > 0, "some were asked", 60
        )
        eventually(lambda: evaluator.total("ragmon_handed_changes") == 0, "all are stored", 60)
        draws = [evaluator.get(f"/v1/queries/q{each}").json["draw"] for each in numbers]
        assert all(0.0 < each["probability"] <= 1.0 for each in draws)
        assert any(each["probability"] < 1.0 for each in draws)
        judged = sum("llm" in each for each in verdicts_of(evaluator, ANSWERS))
        assert 0 < judged <= 10


def test_one_process_for_all_is_refused_where_workers_share_the_store(kafka, cluster, tmp_path):
    assert cluster.start("evaluator").terminate() == 0
    refused = serve_once(tmp_path / "all", *cluster.flags)
    assert refused.returncode != 0
    assert "replica.role: evaluator" in refused.stdout + refused.stderr
