"""A database that forgets its last commits, as after a failover to an asynchronous standby."""

import msgspec
import numpy as np
import pytest

from ragmon.errors import StoreFencedError
from ragmon.records import Position
from ragmon.stores import JournalEntry
from ragmon.stores.postgresql import Options, build
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.shards import PostgresShards
from ragmon.stores.postgresql.takeovers import KEPT
from ragmon.stores.protocols import Turn
from tests.support.postgres import PostgresServer, needed
from tests.support.stores import commit_of, nothing, packed
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


SHARD = 3


class Cluster:
    """An evaluator's store, what it follows by, and workers that take one shard in turn."""

    def __init__(self, server, data_dir):
        options = Options.model_validate({"dsn": server.url(), "lease_s": 600})
        self.store = build(options, data_dir)  # its next renewal is far away
        self.store.share()
        self._workers = PostgresShards(DatabaseAccess(dsn=server.url), "ragmon", "worker")
        self.follower = self.store.follower()

    def take(self):
        return self._workers.take(SHARD)

    def count(self, counted):
        """Positions after everything that was committed since; None: the store went back."""
        positions = dict(counted)
        for entry in self.follower.follow(counted):
            if not isinstance(entry, JournalEntry):
                return positions
            positions[entry.shard] = entry.position
        return None

    def close(self):
        self.follower.close()
        self._workers.close()
        self.store.close()


@pytest.fixture
def cluster(server, tmp_path):
    cluster = Cluster(server, tmp_path)
    yield cluster
    cluster.close()


def commit(shard, records):
    first = shard.next_sequence
    times = [float(first + at) for at in range(records)]
    shard.commit(
        msgspec.structs.replace(
            nothing(),
            records=msgspec.msgpack.encode([str(at) for at in times]),
            hashes=np.array([shard.hash(str(at)) for at in times], dtype="uint64"),
            first_timestamp=times[0],
            last_timestamp=times[-1],
            observations=packed(range(first, first + records), times),
        )
    )


def begun(cluster, server, *, takes_again):
    """What was counted, of which the database forgets three; the next owner commits more."""
    shard = cluster.take()
    commit(shard, 4)
    cluster.count({})
    server.keep_copy()
    if takes_again:
        shard = cluster.take()
    commit(shard, 3)
    counted = cluster.count({})
    assert counted == {SHARD: Position(7, 0)}
    server.fail_over()
    with pytest.raises(StoreFencedError):
        commit(shard, 1)
    shard = cluster.take()
    commit(shard, 2)
    commit(shard, 5)  # over the end of what was counted
    return counted


FORGOTTEN = pytest.mark.parametrize(
    "takes_again",
    [
        pytest.param(False, id="commits of an owner"),
        pytest.param(True, id="all of an owner"),
    ],
)


@FORGOTTEN
def test_as_many_records_again_are_not_taken_for_those_that_were_counted(
    cluster, server, takes_again
):
    counted = begun(cluster, server, takes_again=takes_again)
    assert cluster.count(counted) is None
    assert cluster.store.lease.is_lost


def turn(positions):
    return Turn(state=b"", buckets=[], oldest=(), book=b"", catching_up=False, positions=positions)


SAVES = {
    "windows": lambda state, counted: state.save_windows([], b"", counted),
    "detection": lambda state, counted: state.alert_log().save(turn(positions=counted)),
}


@FORGOTTEN
@pytest.mark.parametrize("name", SAVES)
def test_what_was_counted_of_it_is_not_saved(cluster, server, name, takes_again):
    SAVES[name](cluster.store.state, {0: Position()})
    counted = begun(cluster, server, takes_again=takes_again)
    with pytest.raises(StoreFencedError, match="older"):
        SAVES[name](cluster.store.state, counted)
    assert cluster.store.fenced()["evaluator"] == 1
    assert cluster.store.state.load_windows()[0] == {0: Position()}


def test_owners_come_and_go_without_harm(cluster, server):
    counted = {}
    for _ in range(3):
        shard = cluster.take()
        commit(shard, 2)
        counted = cluster.count(counted)
        commit(shard, 1)
    cluster.take()
    server.keep_copy()
    server.fail_over()  # which forgot nothing
    cluster.store.state.save_windows([], b"", counted)
    assert cluster.count(counted) == {SHARD: Position(9, 0)}
    commit(cluster.take(), 2)
    assert cluster.count({}) == {SHARD: Position(11, 0)}


def test_an_owner_of_the_version_before_that_tells_nothing_is_followed(cluster, server):
    shard = cluster.take()
    server.execute("DELETE FROM ragmon.takeovers")
    server.execute("UPDATE ragmon.shards SET takeover = NULL")
    commit(shard, 2)
    counted = cluster.count({})
    commit(cluster.take(), 2)
    assert cluster.count(counted) == {SHARD: Position(4, 0)}


def test_old_takeovers_are_forgotten(cluster, server):
    for _ in range(KEPT + 6):
        cluster.take()
    rows = server.execute("SELECT count(*), max(number) FROM ragmon.takeovers WHERE shard = 3")
    assert rows == [(KEPT, KEPT + 6)]
