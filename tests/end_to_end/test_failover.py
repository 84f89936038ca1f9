"""Two real replicas on a real PostgreSQL, the active one killed again and again.

Clients lose nothing, receivers of notifications miss nothing, and nothing is counted or told twice.
"""

import itertools
import json
from collections import defaultdict

import pytest

from ragmon.client import Monitor, Options
from ragmon.clock import SystemClock
from ragmon.daemon.notify.routing import Route, notifications
from ragmon.stores.postgresql import Options as StoreOptions
from ragmon.stores.postgresql import build
from tests.end_to_end.test_alerts import FLAGS, day, send, told
from tests.support.alerts import story
from tests.support.daemons import Process
from tests.support.postgres import PostgresServer, needed
from tests.support.receiver import OK, Reply, receiving
from tests.support.service import service
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

LEASE_S = 2
LATEST_S = LEASE_S + 15.0  # on a machine that does much else; two seconds more on a quiet one


@pytest.fixture
def server():
    server = PostgresServer(needed())
    server.start()
    yield server
    server.remove()


class Replicas:
    """An active replica and a standby; whoever is killed is started again as the standby."""

    def __init__(self, folder, server, *flags):
        store = f"{{kind: postgresql, dsn: '{server.url()}', lease_s: {LEASE_S}}}"
        self._flags = ("--store", store, "--replica.standby", "true", *flags)
        self._folder = folder
        self._numbers = itertools.count()
        self.active = self._start(ready=True)
        self.standby = self._start(ready=False)
        self.took_s = []  # from each kill until the other was ready

    def _start(self, *, ready):
        data_dir = self._folder / f"replica{next(self._numbers)}"
        return Process(data_dir, *self._flags, "--snapshot_every", "200ms", ready=ready)

    def both(self):
        return self.active, self.standby

    def fail_over(self):
        """Kill the active one, and wait until the other is ready."""
        clock = SystemClock()
        self.active.kill()
        killed = clock.monotonic()
        self.standby.wait_active()
        self.took_s.append(clock.monotonic() - killed)
        self.active, self.standby = self.standby, self._start(ready=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for replica in self.both():
            if replica.process.poll() is None:
                replica.kill()


def test_clients_with_a_spool_lose_nothing_and_double_nothing(tmp_path, server):
    with (
        Replicas(tmp_path, server) as replicas,
        service() as front,
        Monitor(front.url, pipeline="p", spool_dir=tmp_path / "spool", options=Options()) as client,
    ):
        numbers = itertools.count()

        def log(count):
            for _ in range(count):
                number = next(numbers)
                client.log_query(f"question {number}", query_id=f"q{number}", chunks=[])

        front.replicas = replicas.both()
        log(100)
        assert client.flush(30)
        for _ in range(2):
            log(150)  # some of them are under way when it is killed
            replicas.fail_over()
            log(150)
            front.replicas = replicas.both()
        sent = next(numbers)
        assert client.flush(60)
        stats = client.stats()
        assert replicas.active.total("ragmon_queries_total", pipeline="p") == sent == 700
        for number in range(0, sent, 10):
            assert replicas.active.get(f"/v1/queries/q{number}").status == 200
        assert replicas.active.total("ragmon_leader", lease="evaluator") == 1
        assert replicas.standby.total("ragmon_leader", lease="evaluator") == 0
    assert stats.dropped == {}
    assert max(replicas.took_s) < LATEST_S, replicas.took_s


def test_both_replicas_take_requests_and_give_the_same_answers(tmp_path, server):
    with Replicas(tmp_path, server) as replicas:
        for replica in replicas.both():
            replica.wait_ready()
        assert replicas.active.url in replicas.standby.get("/readyz").text
        for number in range(40):
            replica = replicas.both()[number % 2]
            sent = replica.post("/v1/queries", [{"query_id": f"q{number}", "pipeline": "p"}])
            assert sent.json["accepted"] == 1
        for replica in replicas.both():
            assert replica.get("/v1/queries/q39").json["record"]["query_id"] == "q39"
            assert replica.get("/v1/report").json["queries"] == 40
        assert replicas.active.total("ragmon_queries_total", pipeline="p") == 40
        assert "ragmon_queries_total" not in replicas.standby.page()
        assert [each.total("ragmon_leader") for each in replicas.both()] == [1, 0]
        former = replicas.active
        replicas.fail_over()
        replicas.standby.wait_ready()  # the new one, once it has found the new active one
        assert replicas.active.url != former.url
        assert replicas.active.url in replicas.standby.get("/readyz").text
        assert replicas.standby.post("/v1/queries", [{"query_id": "later"}]).json["accepted"] == 1


def test_a_database_that_forgets_is_noticed_and_the_standby_goes_on_with_what_is_there(
    tmp_path, server
):
    def send(replica, first, count):
        records = [{"query_id": f"q{at}", "pipeline": "p"} for at in range(first, first + count)]
        return replica.post("/v1/queries", records).json

    with Replicas(tmp_path, server) as replicas:
        former, heir = replicas.both()
        assert send(former, 0, 20)["accepted"] == 20
        server.keep_copy()
        eventually(lambda: former.get("/readyz").status == 200, "it is back", 30)
        assert send(former, 20, 10)["accepted"] == 10
        server.fail_over()
        assert former.process.wait(30) != 0
        assert "store_went_back" in {event["event"] for event in former.events()}
        heir.wait_active()
        assert heir.total("ragmon_store_lost_queries") == 10
        assert heir.total("ragmon_queries_total", pipeline="p") == 20
        again = send(heir, 0, 30)  # who still has them sends them again
        assert (again["duplicates"], again["accepted"]) == (20, 10)
        assert heir.total("ragmon_queries_total", pipeline="p") == 30


def accepted_of(receiver):
    """Ids of notifications by their incident, in the order in which they were accepted."""
    by_incident = defaultdict(list)
    for post in list(receiver.accepted):
        name = post.headers["webhook-id"]
        by_incident[name.split("-")[0]].append(name)
    return by_incident


def test_no_notification_is_missed_contradicted_or_new_under_another_name(tmp_path, server):
    events = [each for number in range(30) for each in story(number, 3)]
    options = StoreOptions.model_validate({"dsn": server.url()})
    store = build(options, tmp_path)
    store.state.outbox().put(notifications(events, [Route(name="hook", sink=None)]))
    store.close()
    replies = itertools.count()
    with receiving() as receiver:
        hook = {"kind": "webhook", "name": "hook", "url": receiver.url, "give_up_after": "36500d"}
        sinks = json.dumps([hook])
        receiver.answer = lambda _: Reply(503) if next(replies) % 4 == 3 else OK
        with Replicas(tmp_path, server, "--sinks", sinks) as replicas:
            for kill in (1, 2):
                eventually(
                    lambda enough=25 * kill: len(receiver.accepted) >= enough, "some arrived", 60
                )
                replicas.fail_over()
            ids = {each.id for each in events}
            eventually(
                lambda: {each.headers["webhook-id"] for each in list(receiver.accepted)} >= ids,
                "all of them arrived",
                60,
            )
            active = replicas.active
            eventually(lambda: active.total("ragmon_notification_queue_length") == 0, "written")
            assert active.total("ragmon_notification_dead_letters") == 0
    expected = defaultdict(list)
    for each in events:
        expected[each.id.split("-")[0]].append(each.id)
    by_incident = accepted_of(receiver)
    # A notification may come again, under its own id, and never after a later one.
    assert {
        name: [key for key, _ in itertools.groupby(several)]
        for name, several in by_incident.items()
    } == expected
    repeated = sum(map(len, by_incident.values())) - len(events)
    assert repeated <= 2 * len(expected)  # of each incident at most the one that was under way


def test_alerts_are_those_of_a_replica_that_never_failed(tmp_path, server):
    now = SystemClock().now() // 60 * 60
    records = day(now, 6_000)
    with Process(tmp_path / "steady", *FLAGS) as steady:
        send(steady, records)
        expected = told(steady, now)
    assert len(expected) > 2
    third = len(records) // 3
    with Replicas(tmp_path, server, *FLAGS) as replicas:
        for first in range(0, len(records), third):
            send(replicas.active, records[first : first + third])
            if first + third < len(records):
                replicas.fail_over()
        assert told(replicas.active, now) == expected
