"""The clock of this machine beside the database server's: measured, and told when they differ."""

import pytest
from structlog.testing import capture_logs

from ragmon.clock import ManualClock, SystemClock
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from ragmon.stores.postgresql.server_clock import ServerClock
from ragmon.stores.postgresql.shards import PostgresShards
from tests.support.postgres import new_schema, shared_server


@pytest.fixture
def access():
    return DatabaseAccess(dsn=shared_server().url)


@pytest.mark.parametrize("ahead_s", [60.0, -60.0])
def test_a_clock_that_differs_is_told_once_and_when_it_is_set(ahead_s):
    clock = ManualClock(1_000.0 + ahead_s)
    server = ServerClock(clock)
    with capture_logs() as lines:
        server.note(clock.now(), 1_000.0)
        server.note(clock.now(), 1_000.0)
        assert server.ahead_s == ahead_s
        clock.step(-ahead_s)
        server.note(clock.now(), 1_000.0)
    assert [line["event"] for line in lines] == ["clocks_differ", "clocks_agree"]
    assert lines[0]["ahead_s"] == ahead_s
    assert "store.dsn" in lines[0]["remedy"]
    assert server.ahead_s == 0.0


@pytest.mark.parametrize("took_s", [3.0, -1.0])
def test_an_answer_that_was_slow_or_before_its_question_tells_nothing(took_s):
    clock = ManualClock(1_000.0)
    server = ServerClock(clock)
    clock.step(took_s)
    server.note(1_000.0, 900.0)
    assert server.ahead_s == 0.0


def test_an_evaluator_measures_it_with_each_renewal(access):
    clock = ManualClock(SystemClock().now() - 90.0)
    store = open_store(access, new_schema(), ttl_s=60.0, wait_s=0.0, clock=clock)
    try:
        assert store.lease.renew()
        assert store.lease.clock_ahead_s == pytest.approx(-90.0, abs=20.0)
    finally:
        store.close()


def test_a_worker_measures_it_while_it_has_shards(access):
    schema = new_schema()
    open_store(access, schema, ttl_s=60.0, wait_s=0.0).close()
    worker = PostgresShards(access, schema, "worker", ManualClock(SystemClock().now() + 90.0))
    try:
        worker.take(1)
        worker.check_owned()
        assert worker.clock_ahead_s == pytest.approx(90.0, abs=20.0)
    finally:
        worker.close()
