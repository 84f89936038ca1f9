"""The daemon on a real PostgreSQL: kill -9 of either loses nothing and doubles nothing."""

import signal

import pytest

from tests.end_to_end.test_crash import counted
from tests.support import metrics
from tests.support.daemons import Process
from tests.support.load import Load, expected
from tests.support.postgres import PostgresServer, needed
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

ROUNDS = 2  # the server is killed, then the daemon
BETWEEN_KILLS = 200  # queries acknowledged before the next one
SILENCE = {
    "matchers": [{"name": "pipeline", "value": "docs", "regex": False}],
    "duration": "2h",
    "created_by": "ann",
    "comment": "reindexing",
}


@pytest.fixture
def server():
    server = PostgresServer(needed())
    server.start()
    yield server
    server.remove()


def flags(server) -> tuple[str, ...]:
    store = f"{{kind: postgresql, dsn: '{server.url()}', lease_s: 2}}"
    return ("--store", store, "--snapshot_every", "200ms")


def test_kill_9_of_daemon_and_database_loses_nothing_acknowledged(tmp_path, server):
    load = Load()
    site = Process(tmp_path / "data", *flags(server))
    load.start(site)
    for kill in range(1, ROUNDS + 1):
        eventually(
            lambda at=kill: len(load.acknowledged) > at * BETWEEN_KILLS,
            "enough is acknowledged",
            60,
        )
        if kill % 2:
            server.kill()
            server.start()
        else:
            site.kill()
            load.wait()
            site = Process(tmp_path / "data", *flags(server))
            load.start(site)
    eventually(lambda: not load.doubtful, "nothing is in doubt", 60)
    load.stop()
    assert counted(site) == expected(load.acknowledged)
    for query_id in sorted(load.acknowledged)[:: max(1, len(load.acknowledged) // 20)]:
        found = site.get(f"/v1/queries/{query_id}")
        assert found.status == 200, query_id
        assert found.json["record"]["query_id"] == query_id
    assert site.terminate() == 0
    with Process(tmp_path / "data", *flags(server)) as again:  # what was saved is the same
        assert counted(again) == expected(load.acknowledged)


def test_what_is_not_in_the_database_has_a_folder(tmp_path, server):
    data_dir = tmp_path / "data"
    with Process(data_dir, *flags(server)) as site:
        assert site.post("/v1/silences", SILENCE).status in (200, 201)
        assert site.get("/v1/audit").json["entries"]
        page = site.page()
        assert metrics.total(page, "ragmon_audit_lost_entries_total") == 0.0
        assert 'limit="disk"' not in page, "this machine's is not that of the database"
        assert "watch the disk of the database server" in site.get("/ragmon").text
    assert data_dir.stat().st_mode & 0o777 == 0o700
    assert (data_dir / "audit.jsonl").exists()


def standby_of(active_flags, data_dir) -> Process:
    return Process(data_dir, *active_flags, "--replica.standby", "true", ready=False)


def test_a_standby_takes_over_from_a_killed_replica_and_has_all_that_was_acknowledged(
    tmp_path, server
):
    load = Load()
    with (
        Process(tmp_path / "a", *flags(server)) as active,
        standby_of(flags(server), tmp_path / "b") as standby,
    ):
        load.start(active)
        eventually(lambda: len(load.acknowledged) > BETWEEN_KILLS, "enough is acknowledged", 60)
        eventually(lambda: active.url in standby.get("/readyz").text, "it sends requests on")
        active.kill()
        load.wait()
        standby.wait_active()
        load.start(standby)
        eventually(lambda: not load.doubtful, "nothing is in doubt", 60)
        load.stop()
        assert counted(standby) == expected(load.acknowledged)
        assert standby.total("ragmon_leader", lease="evaluator") == 1
        assert 'ragmon_loop_last_turn_timestamp_seconds{loop="lease"}' in standby.page()
        assert standby.terminate() == 0


def test_a_replica_that_was_replaced_while_it_slept_ends_and_writes_nothing(tmp_path, server):
    with (
        Process(tmp_path / "a", *flags(server)) as active,
        standby_of(flags(server), tmp_path / "b") as standby,
    ):
        assert active.post("/v1/queries", [{"query_id": "before"}]).status == 200
        active.process.send_signal(signal.SIGSTOP)
        standby.wait_active()
        assert standby.post("/v1/queries", [{"query_id": "after"}]).status == 200
        active.process.send_signal(signal.SIGCONT)
        assert active.process.wait(30) != 0
        assert "replaced" in {event["event"] for event in active.events()}
        assert standby.get("/readyz").status == 200
        assert standby.total("ragmon_queries_total") == 2
