"""Shards that workers take from one another, and what their evaluator follows."""

import os

import msgspec
import numpy as np
import pytest

from ragmon.errors import StoreFencedError
from ragmon.records import Position
from ragmon.stores import JournalEntry
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.maintenance import BlockMaintenance
from ragmon.stores.postgresql.positions import DETECTION, save_positions
from ragmon.stores.postgresql.schema import add_day
from ragmon.stores.postgresql.shards import PostgresShards
from tests.support.postgres import shared_server
from tests.support.stores import commit_of, nothing, opened, packed

SHARD = 3


@pytest.fixture
def store(tmp_path):
    """The evaluator's."""
    store = opened("postgresql", tmp_path)
    yield store
    store.close()


@pytest.fixture
def workers(store):
    """Two processes with the evaluator's database."""
    access = DatabaseAccess(dsn=shared_server().url)
    made = [PostgresShards(access, store.shard._db.schema, name) for name in ("one", "two")]
    yield made
    for worker in made:
        worker.close()


def commit(shard, *ids, offset=b"", records=b""):
    hashes = [shard.hash(each) for each in ids]
    times = [float(each) for each in range(len(ids))]
    shard.commit(
        msgspec.structs.replace(
            nothing(offsets=[("topic:2", offset)]),
            records=records or msgspec.msgpack.encode([*ids]),
            hashes=np.array(hashes, dtype="uint64"),
            first_timestamp=times[0],
            last_timestamp=times[-1],
            observations=packed([*range(len(ids))], times),
        )
    )


def test_nobody_takes_any_before_an_evaluator_shares_them(store, workers):
    assert not store.is_shared
    assert not workers[0].is_shared
    store.share()
    store.share()
    assert store.is_shared
    assert workers[0].is_shared


def test_the_owner_before_changes_nothing_and_the_next_goes_on_behind_it(workers):
    first, second = workers
    before = first.take(SHARD)
    commit(before, "a", "b", offset=b"2")
    now = second.take(SHARD)
    with pytest.raises(StoreFencedError):
        commit(before, "c", offset=b"3")
    assert first.fenced == 1
    assert now.offset("topic:2") == b"2"
    assert now.next_sequence == 2
    assert now.find(now.hash("b")) == 1
    commit(now, "c", offset=b"3")
    assert now.position == Position(3, 0)
    first.take(SHARD)
    with pytest.raises(StoreFencedError):
        commit(now, "d", offset=b"4")


def test_a_commit_that_lost_its_epoch_leaves_no_part_of_it(store, workers):
    first, second = workers
    before = first.take(SHARD)
    second.take(SHARD)
    with pytest.raises(StoreFencedError):
        commit(before, "a", offset=b"1")
    schema = store.shard._db.schema
    for table in ("blocks", "sides", "waiting", "amendments"):
        assert shared_server().execute(f"SELECT * FROM {schema}.{table}") == []


def test_the_evaluator_follows_every_shard_but_its_own(store, workers):
    store.shard.commit(commit_of(store, ["own"], [1.0]))
    shards = [workers[0].take(1), workers[1].take(2)]
    for shard in shards:
        commit(shard, "a", "b")
    workers[0].complete({1: 60.0})
    follower = store.follower()
    *entries, progress = follower.follow({})
    assert [(each.shard, each.position) for each in entries] == [
        (1, Position(2, 0)),
        (2, Position(2, 0)),
    ]
    assert all(isinstance(each, JournalEntry) for each in entries)
    assert {number: each.complete_until for number, each in progress.items()} == {1: 60.0, 2: None}
    positions = {number: each.position for number, each in progress.items()}
    assert [*follower.follow(positions)] == [progress]
    commit(shards[1], "c")
    assert [
        each.shard for each in follower.follow(positions) if isinstance(each, JournalEntry)
    ] == [2]
    follower.close()


def stored_bytes(store, where="true"):
    sql = f"SELECT coalesce(sum(size), 0)::bigint FROM {store.shard._db.schema}.blocks"
    return shared_server().execute(f"{sql} WHERE {where}")[0][0]


def measured_anew(shard):
    return BlockMaintenance(shard._db, shard.number, lambda: shard.position).size_bytes


def test_the_size_of_the_store_is_that_of_all_shards(store, workers):
    store.share()
    shard = workers[0].take(SHARD)
    store.shard.expire(0.0, None)  # measures
    before = store.size_bytes()
    commit(shard, "a", records=os.urandom(1_000_000))
    store.shard.expire(0.0, None)
    assert store.size_bytes() >= before + 1_000_000


def test_a_day_that_is_dropped_takes_from_each_shard_what_it_had_of_it(store, workers):
    """The room of max_disk is counted wrongly otherwise, the further the longer it runs."""
    store.share()
    shard = workers[0].take(SHARD)
    commit(shard, *(f"old{number}" for number in range(1_000)))
    store.shard.commit(commit_of(store, ["own"], [1.0]))
    db = store.shard._db
    today = db.number("SELECT floor(extract(epoch FROM now()) / 86400)::int")
    add_day(db, today - 9)
    shared_server().execute(f"UPDATE {db.schema}.blocks SET day = {today - 9}")
    store.shard.commit(commit_of(store, ["new"], [today * 86_400.0]))
    follower = store.follower()
    *_, progress = follower.follow({})
    follower.close()
    assert progress[SHARD].position == Position(1_000, 0)
    counted = {0: Position(1, 0), SHARD: progress[SHARD].position}
    store.state.save_windows([], b"", counted)
    with db.transaction() as cursor:
        save_positions(db, cursor, DETECTION, counted, store.lease.epoch)
    before = (today - 7) * 86_400.0
    assert store.shard.expire(before, None) == 1_001
    assert store.size_bytes() == measured_anew(store.shard)
    shard.expire(before, None)
    assert shard.size_bytes == measured_anew(shard)


def test_what_is_complete_is_not_told_of_a_shard_that_another_has(store, workers):
    workers[0].take(1)
    workers[1].take(1)
    workers[0].complete({1: 99.0})
    follower = store.follower()
    assert follower.progress()[1].complete_until is None
    follower.close()


def test_a_database_that_forgot_what_was_counted_ends_the_evaluator(store, workers):
    shard = workers[0].take(1)
    commit(shard, "a")
    follower = store.follower()
    assert [*follower.follow({1: Position(5, 0)})] == []
    assert store.lease.is_lost
    assert not store.lease.is_held
    follower.close()


def test_the_position_of_one_process_before_is_found_by_workers(store, workers):
    store.shard.commit(nothing(offsets=[("topic:2", b"7")]))
    assert workers[0].offset_before("topic:2") == b"7"
    assert workers[0].offset_before("topic:1") is None
