"""A database that forgets its last commits, as after a failover to an asynchronous standby."""

import pytest

from ragmon.errors import StoreFencedError
from ragmon.records import Position
from ragmon.stores.postgresql import Options, build
from tests.support.postgres import PostgresServer, needed
from tests.support.stores import commit_of
from tests.support.wait import eventually


@pytest.fixture
def server():
    server = PostgresServer(needed())
    server.start()
    yield server
    server.remove()


@pytest.fixture
def opened(tmp_path, server):
    """Stores of one database, closed at the end."""
    stores = []

    def open_one():
        options = Options.model_validate({"dsn": server.url(), "lease_s": 1})
        stores.append(build(options, tmp_path))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def fail_over_without(server, store):
    """Commit what the database then forgets: three commits of two queries each."""
    server.keep_copy()
    for at in range(3):
        store.shard.commit(commit_of(store, [f"lost{at}", f"gone{at}"], [1.0] * 2))
    server.fail_over()


def test_what_the_database_forgot_is_noticed_told_and_left_alone(server, opened):
    store = opened()
    store.shard.commit(commit_of(store, ["kept"], [1.0]))
    fail_over_without(server, store)
    eventually(lambda: store.lease.is_lost, "it is noticed without a commit", 20)
    assert not store.lease.is_held
    assert store.lease.lost.commits == 3
    assert store.lease.lost.queries == 6
    store.close()
    again = opened()
    assert (again.recovery.lost.commits, again.recovery.lost.queries) == (3, 6)
    assert again.shard.next_sequence == 1
    assert again.shard.find(again.shard.hash("lost0")) is None
    again.shard.commit(commit_of(again, ["lost0"], [1.0]))  # sent again, it is no duplicate
    again.close()
    assert not opened().recovery.lost  # told once


WRITES = {
    "commit": lambda store: store.shard.commit(commit_of(store, ["after"], [2.0])),
    "windows": lambda store: store.state.save_windows([], b"", {0: Position(7, 0)}),
    "outbox": lambda store: store.state.outbox().put([]) or store.state.remembered().save("a", b""),
    "waiting": lambda store: store.shard.expire_waiting(5.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_on_top_of_what_was_forgotten(server, tmp_path, name):
    options = Options.model_validate({"dsn": server.url(), "lease_s": 600})
    store = build(options, tmp_path)  # its next renewal is far away
    try:
        store.shard.commit(commit_of(store, ["kept"], [1.0]))
        fail_over_without(server, store)
        with pytest.raises(StoreFencedError, match="older"):
            WRITES[name](store)
    finally:
        store.close()
    assert server.execute("SELECT commits, next_sequence FROM ragmon.shards") == [(1, 1)]


def test_an_epoch_that_was_forgotten_is_not_shared_with_its_next_owner(server, opened):
    store = opened()
    store.shard.commit(commit_of(store, ["kept"], [1.0]))
    server.execute("UPDATE ragmon.lease SET owner = 'another replica'")
    with pytest.raises(StoreFencedError):
        store.state.remembered().save("a", b"")
    assert not store.lease.renew()
    assert not store.lease.lost
