"""Standbys: they wait while another process has the store, and take over when it is gone."""

import signal
import socket
import threading

import pytest

from ragmon.clock import SystemClock
from ragmon.daemon.build import open_store
from ragmon.daemon.serve import Daemon
from ragmon.daemon.standby import take_place
from ragmon.errors import StoreBusyError, StoreCorruptError, StoreUnreachableError
from tests.support.daemons import Process, Running, running
from tests.support.standbys import Stores, WaitingSite, settings
from tests.support.wait import eventually


@pytest.fixture
def stores():
    return Stores()


@pytest.fixture
def waiting(tmp_path, stores):
    standby = WaitingSite(tmp_path, stores)
    yield standby
    standby.standby.stop()
    standby.end()
    standby.bound.close()


def test_a_standby_is_alive_and_not_ready_and_says_who_has_the_store(waiting):
    assert waiting.get("/livez").status == 200
    ready = waiting.get("/readyz")
    assert ready.status == 503
    assert "in use by another ragmon (process 7)" in ready.text


def test_what_is_sent_to_a_standby_is_refused_for_a_moment_and_counted(waiting):
    answer = waiting.post("/v1/queries", [{"query_id": "a"}])
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "process 7" in answer.text
    shown = waiting.get("/metrics").text
    assert 'ragmon_rejected_total{reason="standby",source="standby"} 1.0' in shown
    assert 'ragmon_leader{lease="evaluator"} 0.0' in shown


def test_a_standby_takes_the_store_once_it_is_free_and_its_port_stays_open(waiting, stores):
    eventually(lambda: stores.attempts > 1, "it tries again")
    stores.error = None
    assert waiting.end() is stores
    with socket.create_connection(waiting.bound.getsockname()):
        pass  # it waits for the daemon, in the backlog
    assert stores.closed == 0


def test_a_standby_goes_on_while_the_server_of_the_store_is_away(waiting, stores):
    assert waiting.total("ragmon_store_up") == 1
    stores.error = StoreUnreachableError("PostgreSQL at db: no answer")
    eventually(lambda: waiting.total("ragmon_store_up") == 0, "it sees that")
    assert "PostgreSQL at db: no answer" in waiting.get("/readyz").text
    stores.error = StoreBusyError("in use by another ragmon (process 8)")
    eventually(lambda: waiting.total("ragmon_store_up") == 1, "and that it is back")
    stores.error = None
    assert waiting.end() is stores


def test_a_first_start_without_the_server_of_the_store_fails(tmp_path, stores):
    stores.error = StoreUnreachableError("PostgreSQL at db: no answer")
    waiting = WaitingSite(tmp_path, stores)
    assert waiting.end() is stores.error
    waiting.bound.close()


def test_a_standby_that_is_asked_to_end_ends(waiting, stores):
    assert waiting.get("/livez").status == 200
    waiting.standby.stop()
    assert waiting.end() is None
    assert stores.closed == 0


def test_a_store_that_is_opened_while_the_standby_ends_is_given_back(waiting, stores):
    assert waiting.get("/livez").status == 200
    opened = stores.open

    def open_late():
        stores.error = None
        waiting.standby.stop()
        return opened()

    waiting.standby._open = open_late
    assert waiting.end() is None
    assert stores.closed == 1


def test_a_store_that_cannot_be_opened_ends_the_standby_with_its_error(waiting, stores):
    assert waiting.get("/livez").status == 200
    stores.error = StoreCorruptError("not a database")
    assert waiting.end() is stores.error


def test_a_free_store_is_taken_without_waiting(tmp_path):
    chosen = settings(tmp_path / "data", **{"replica.standby": True})
    place = take_place(chosen, SystemClock())
    daemon = Daemon(chosen, SystemClock(), place)
    ready = threading.Event()
    thread = threading.Thread(target=daemon.run, args=(lambda _url: ready.set(),))
    thread.start()
    try:
        assert ready.wait(20)
        site = Running(daemon.url, daemon)
        assert site.get("/readyz").status == 200
        assert site.total("ragmon_leader", lease="evaluator") == 1
        with pytest.raises(StoreBusyError):
            open_store(chosen)
    finally:
        daemon.stop()
        thread.join(20)


class LapsedLease:
    """A lease whose time is over; nobody else has it yet."""

    is_held = False
    is_lost = False
    is_reachable = False
    clock_ahead_s = 0.0
    epoch = 0

    def release(self) -> None: ...


@pytest.fixture
def lapsed(tmp_path):
    """A ready daemon whose lease can no longer be renewed."""
    with running(tmp_path / "data") as site:
        assert site.post("/v1/queries", [{"query_id": "a", "pipeline": "p"}]).status == 200
        assert site.total("ragmon_queries_total", pipeline="p") == 1
        held, site.lease = site.daemon._engine.store.lease, LapsedLease()
        site.daemon._engine.store.lease = site.lease
        yield site
        site.daemon._engine.store.lease = held


def test_without_the_lease_a_daemon_is_alive_not_ready_and_shows_no_numbers(lapsed):
    assert lapsed.get("/livez").status == 200
    ready = lapsed.get("/readyz")
    assert ready.status == 503
    assert "another replica may take over" in ready.text
    page = lapsed.get("/metrics").text
    assert "ragmon_queries_total{" not in page
    assert lapsed.total("ragmon_leader", lease="evaluator") == 0


def test_a_daemon_that_was_replaced_ends(lapsed):
    lapsed.lease.is_lost = True
    eventually(lambda: lapsed.daemon.ending, "it ends")


@pytest.mark.end_to_end
def test_a_standby_takes_over_from_a_process_that_was_killed_and_has_all_it_answered(tmp_path):
    data_dir = tmp_path / "data"
    with (
        Process(data_dir) as active,
        Process(data_dir, "--replica.standby", "true", ready=False) as standby,
    ):
        records = [{"query_id": f"q{at}"} for at in range(20)]
        assert active.post("/v1/queries", records[:10]).status == 200
        standby.wait_ready()
        assert standby.get("/readyz").text == f"ok: standby of {active.url}\n"
        assert standby.get("/livez").status == 200
        assert standby.post("/v1/queries", records).json["accepted"] == 10
        active.kill()
        assert standby.get("/readyz").status == 503
        standby.wait_active()
        again = standby.post("/v1/queries", [*records, {**records[0], "query_id": "new"}])
        assert again.json["duplicates"] == 20
        assert again.json["accepted"] == 1
        assert standby.terminate() == 0


@pytest.mark.end_to_end
def test_a_standby_ends_on_sigterm_with_success(tmp_path):
    data_dir = tmp_path / "data"
    with (
        Process(data_dir) as active,
        Process(data_dir, "--replica.standby", "true", ready=False) as standby,
    ):
        assert standby.terminate() == 0
        assert active.get("/readyz").status == 200
        active.process.send_signal(signal.SIGTERM)
        assert active.process.wait(10) == 0
