"""The daemon on a real PostgreSQL: kill -9 of either loses nothing and doubles nothing."""

import pytest

from tests.end_to_end.test_crash import counted
from tests.support.daemons import Process
from tests.support.load import Load, expected
from tests.support.postgres import PostgresServer, needed
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

ROUNDS = 2  # the server is killed, then the daemon
BETWEEN_KILLS = 200  # queries acknowledged before the next one


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
