"""Workers that come and go under load, in both protocols, and partitions read on by hand."""

import json
import threading

import pytest

from ragmon.cli import main
from tests.chaos.fleet import BROKER, PROTOCOLS
from tests.sources.kafka.test_daemon import entry, feedback, query, send
from tests.support import postgres
from tests.support.daemons import Process, running
from tests.support.kafka import broker
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

PARTITIONS = 8


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A broker on which sessions end soon."""
    with broker(tmp_path_factory.mktemp("quick"), BROKER) as kafka:
        yield kafka


class Group:
    """An evaluator and some workers of one topic."""

    def __init__(self, folder, kafka, topic, options):
        self.folder, self.kafka, self.topic = folder, kafka, topic
        self.store = {
            "kind": "postgresql",
            "dsn": postgres.shared_server().url(),
            "schema_name": postgres.new_schema(),
            "lease_s": 3.0,
        }
        self.flags = [
            "--store", json.dumps(self.store),
            "--sources", json.dumps([entry(kafka, topic, options=options)]),
        ]  # fmt: skip
        self.more = ("--judge.grounding.enabled", "false", "--snapshot_every", "500ms")
        self.started = []
        self.evaluator = self.start("evaluator")
        self.workers = []

    def start(self, role, **options):
        data_dir = self.folder / f"{role}{len(self.started)}"
        process = Process(data_dir, *self.flags, *self.more, "--replica.role", role, **options)
        self.started.append(process)
        return process

    def scale(self, count):
        """So many workers; those that are too many end in order."""
        while len(self.workers) > count:
            assert self.workers.pop().terminate(30) == 0
        while len(self.workers) < count:
            self.workers.append(self.start("worker", ready=False))

    def owned(self):
        return [each.total("ragmon_shard_owned") for each in self.workers]

    def end(self):
        for process in self.started:
            if process.process.poll() is None:
                process.kill()


@pytest.fixture
def group(tmp_path, quick, request):
    topic = f"group-{postgres.new_schema()}"
    quick.create(topic, getattr(request, "param", {}).get("partitions", PARTITIONS))
    made = Group(tmp_path, quick, topic, getattr(request, "param", {}).get("options", {}))
    yield made
    made.end()


@pytest.mark.parametrize(
    "group",
    [pytest.param({"options": options}, id=name) for name, options in PROTOCOLS.items()],
    indirect=True,
)
def test_one_worker_becomes_four_and_two_under_load(quick, group):
    sent, stopping = [], threading.Event()

    def load():
        while not stopping.is_set():
            ids = [f"q{len(sent) + at}" for at in range(40)]
            rated = [(each, feedback(each), "feedback") for each in ids[::10]]
            send(quick, group.topic, [*((each, query(each), "") for each in ids), *rated])
            sent.extend(ids)
            stopping.wait(0.1)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for count in (1, 4, 2):
            group.scale(count)

            def is_shared(count=count):
                owned = group.owned()
                return sum(owned) == PARTITIONS and min(owned) >= PARTITIONS // count - 1

            eventually(is_shared, f"{count} workers share the partitions", 240)
            now = len(sent)
            eventually(lambda now=now: len(sent) >= now + 400, "more is sent", 180)
    finally:
        stopping.set()
        thread.join()
    total, rated = len(sent), len(range(0, 40, 10)) * len(sent) // 40
    site = group.evaluator
    eventually(lambda: site.total("ragmon_queries_total") >= total, "all are counted", 240)
    eventually(lambda: site.total("ragmon_feedback_total") >= rated, "all are rated", 180)
    assert site.total("ragmon_queries_total") == total
    assert site.total("ragmon_feedback_total") == rated
    eventually(
        lambda: sum(each.total("ragmon_kafka_lag_records") for each in group.workers) == 0,
        "nothing is left to read", 60,
    )  # fmt: skip
    assert sum(each.total("ragmon_fenced_total") for each in group.workers) == 0


@pytest.mark.parametrize("group", [{"partitions": 1}], indirect=True)
def test_a_topic_of_one_partition_has_one_worker_at_a_time(quick, group):
    group.scale(2)
    eventually(lambda: sum(group.owned()) == 1, "one has it", 180)
    has_it = group.owned().index(1.0)
    send(quick, group.topic, [(f"q{n}", query(f"q{n}"), "") for n in range(50)])
    eventually(lambda: group.evaluator.total("ragmon_queries_total") == 50, "counted", 180)
    assert group.workers.pop(has_it).terminate(30) == 0
    eventually(lambda: group.owned() == [1.0], "the other takes it", 180)
    send(quick, group.topic, [(f"r{n}", query(f"r{n}"), "") for n in range(50)])
    eventually(lambda: group.evaluator.total("ragmon_queries_total") == 100, "counted", 180)
    assert group.evaluator.total("ragmon_shards_stalled") == 0


@pytest.mark.parametrize("group", [{"partitions": 2}], indirect=True)
def test_a_topic_that_was_made_anew_is_read_on_when_somebody_says_so(quick, group, capsys):
    group.scale(1)
    send(quick, group.topic, [(f"q{n}", query(f"q{n}"), "") for n in range(20)])
    eventually(lambda: group.evaluator.total("ragmon_queries_total") == 20, "counted", 180)
    [worker] = group.workers
    quick.delete(group.topic)
    eventually(lambda: quick.has_made(group.topic, 2), "it is made anew", 60)
    send(quick, group.topic, [(f"q{n}", query(f"q{n}"), "") for n in range(10, 30)])
    eventually(
        lambda: worker.total("ragmon_log_stopped_partitions", reason="topic_made_anew") == 2,
        "both are stopped", 240,
    )  # fmt: skip
    assert worker.total("ragmon_kafka_partitions") == 2
    assert main(["shards", "list", "--json", *group.flags]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert [each["partition"] for each in listed] == [0, 1]
    # The end of the new topic may lie before the position, which is noticed before its identity.
    assert {each["stopped"] for each in listed} <= {"topic_made_anew", "went_back"}
    assert main(["shards", "reset", "--partition", "0", "--to", "oldest", *group.flags]) == 0
    assert "Partition 0 is read from 0 on" in capsys.readouterr().out
    assert main(["shards", "reset", "--partition", "1", "--to", "0", "--json", *group.flags]) == 0
    assert json.loads(capsys.readouterr().out)["offset"] == 0
    eventually(lambda: group.evaluator.total("ragmon_queries_total") == 30, "read on", 180)
    assert worker.total("ragmon_log_stopped_partitions") == 0
    assert main(["shards", "list", *group.flags]) == 0
    table = capsys.readouterr().out
    assert f"kafka:ragmon:{group.topic}" in table
    for words in (["--partition", "7", "--to", "end"], ["--partition", "0", "--to", "99"]):
        assert main(["shards", "reset", *words, *group.flags]) == 2
        assert "partition" in capsys.readouterr().err


def test_one_process_has_to_end_before_its_topic_is_read_on(quick, tmp_path, capsys):
    quick.create("alone", 1)
    sources = [entry(quick, "alone")]
    flags = ["--data_dir", str(tmp_path / "data"), "--sources", json.dumps(sources)]
    reset = ["shards", "reset", "--partition", "0", "--to", "end", *flags]
    with running(tmp_path / "data", sources=sources) as site:
        send(quick, "alone", [("a", query("a"), "")])
        eventually(lambda: site.total("ragmon_queries_total") == 1, "counted", 120)
        assert main(reset) != 0
        assert "another" in capsys.readouterr().err
    send(quick, "alone", [("b", query("b"), "")])
    assert main(reset) == 0
    assert "read from 2 on; it was at 1" in capsys.readouterr().out
    with running(tmp_path / "data", sources=sources) as site:
        send(quick, "alone", [("c", query("c"), "")])
        eventually(lambda: site.total("ragmon_queries_total") == 2, "a and c", 120)
    assert main(["shards", "list", *flags]) == 2
    assert "for one process" in capsys.readouterr().err


@pytest.mark.parametrize("group", [{"partitions": 257}], indirect=True)
def test_a_topic_of_very_many_partitions_is_refused_with_the_reason(quick, group):
    group.scale(1)

    def refused():
        said = [each for each in group.workers[0].events() if each.get("event") == "cannot_read"]
        return [each["error"] for each in said if "257 partitions" in each["error"]]

    error = eventually(refused, "it says why", 180)[0]
    assert "at most 256" in error
    assert "16 to 64" in error
    assert group.workers[0].get("/readyz").status == 503
