"""Readers and look-ups over the shards of several writers."""

import msgspec
import numpy as np
import pytest

from ragmon.records import number_of, sequence_of, shard_of
from ragmon.stores import Restatement
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.shards import PostgresShards
from ragmon.stores.summaries import SummaryRow
from tests.support.postgres import shared_server
from tests.support.stores import encode, nothing, numbers, opened, packed, small_pieces


@pytest.fixture
def store(tmp_path):
    """The evaluator's, with index and blocks in small pieces."""
    with small_pieces():
        store = opened("postgresql", tmp_path)
        yield store
        store.close()


@pytest.fixture
def workers(store):
    """A process with the evaluator's database."""
    workers = PostgresShards(
        DatabaseAccess(dsn=shared_server().url), store.shard._db.schema, "worker"
    )
    yield workers
    workers.close()


def commit(shard, ids, times, **fields):
    """New records, each of which is its id, and whose observation is its number in its shard."""
    first = shard.next_sequence
    shard.commit(
        msgspec.structs.replace(
            nothing(**fields),
            records=encode(ids),
            hashes=np.array([shard.hash(each) for each in ids], dtype="uint64"),
            first_timestamp=min(times),
            last_timestamp=max(times),
            observations=packed(range(first, first + len(ids)), times),
        )
    )


@pytest.fixture
def filled(store, workers):
    """Three shards with records whose times lie between one another."""
    shards = [store.shard, workers.take(1), workers.take(7)]
    for at, shard in enumerate(shards):
        commit(shard, [f"s{shard.number}-a", f"s{shard.number}-b"], [10.0 + at, 11.0 + at])
        commit(shard, [f"s{shard.number}-c"], [20.0 + at])
    return shards


def test_numbers_say_their_shard():
    for shard, sequence in ((0, 0), (0, 5), (1, 0), (10_000, (1 << 40) - 1)):
        number = number_of(shard, sequence)
        assert (shard_of(number), sequence_of(number)) == (shard, sequence)
        assert number < 1 << 63
    assert number_of(0, 12_345) == 12_345  # of one process nothing changes


def test_blocks_of_all_shards_come_newest_first(store, filled):
    with store.reader() as reader:
        blocks = [*reader.blocks(0.0, 100.0)]
        outlines = [*reader.outlines(0.0, 100.0)]
        assert [block.last_timestamp for block in blocks] == [22.0, 21.0, 20.0, 13.0, 12.0, 11.0]
        assert [shard_of(block.first_sequence) for block in blocks] == [7, 1, 0, 7, 1, 0]
        assert [each.first_sequence for each in outlines] == [
            each.first_sequence for each in blocks
        ]
        assert [numbers(block.observations) for block in blocks] == [[2]] * 3 + [[0, 1]] * 3
        assert [block.first_sequence for block in reader.blocks(12.5, 21.0)] == [
            number_of(1, 2),
            2,
            number_of(7, 0),
        ]


def test_records_and_their_amendments_are_found_by_number(store, filled):
    shard = filled[2]
    body = encode({})
    shard.commit(nothing(amendments=[(1, body)], restatement=Restatement(b"", b"")))
    own, other = 1, number_of(7, 1)
    with store.reader() as reader:
        assert reader.record(own) == (encode("s0-b"), None)
        assert reader.record(other) == (encode("s7-b"), body)
        assert reader.record(number_of(3, 0)) is None
        assert reader.amendments([own, other]) == {other: body}
        block = reader.block(number_of(7, 0))
        assert block.amendments == {other: body}
        assert reader.block(number_of(7, 0), with_amendments=False).amendments == {}
        assert reader.records(number_of(7, 0)) == [encode("s7-a"), encode("s7-b")]
        assert reader.some_records(number_of(7, 0), [1]) == {1: encode("s7-b")}
        assert reader.contents(number_of(1, 2)) == (encode(["s1-c"]), {})
        assert reader.stored_bytes(number_of(1, 2)) > 0


def test_a_walk_goes_through_one_shard_after_another(store, filled):
    with store.reader() as reader:
        walked, at = [], 0
        while (block := reader.hashes_from(at)) is not None:
            walked.append(block[0])
            at = block[0] + len(block[1])
        assert walked == [number_of(shard, at) for shard in (0, 1, 7) for at in (0, 2)]
        assert [each.first_sequence for each in reader.block_times()] == walked
        stored = reader.stored_block(number_of(1, 3))
        assert stored.first_sequence == number_of(7, 0)
        assert reader.stored_block(number_of(7, 3)) is None


def test_each_shard_has_summaries_of_its_own(store, filled):
    summaries = filled[1].summaries()
    with store.reader() as reader:
        due = reader.due_summaries(5, number_of(1, 3), 10)
        assert [each.first_sequence for each in due] == [number_of(1, 2), number_of(1, 0)]
        summaries.begin(
            [each._replace(first_sequence=sequence_of(each.first_sequence)) for each in due]
        )
        assert summaries.put([SummaryRow(2, 5, b"facts", b"keys")]) == 1
        assert reader.keys([2, number_of(1, 2), number_of(7, 2)]) == {number_of(1, 2): b"keys"}
        facts = {each.first_sequence: each.facts for each in reader.outlines(0.0, 100.0)}
        assert facts[number_of(1, 2)] == b"facts"
        assert facts[2] is None
        assert [each.first_sequence for each in reader.due_summaries(5, 3, 10)] == [2, 0]


def hashes_of(store, *ids):
    return np.array([store.shard.hash(each) for each in ids], dtype="uint64")


def test_ids_that_workers_store_are_found_before_and_after_their_index_is_written(store, filled):
    others = store.others()
    one = filled[1]
    asked = hashes_of(store, "s1-b", "s7-c", "s0-a", "never", "s1-b")
    found = [number_of(1, 1), number_of(7, 2), None, None, number_of(1, 1)]
    assert others.find_many(asked) == found
    assert others.find_many(asked, newest_only=True) == found
    for at in range(40):  # runs of eight ids
        commit(one, [f"more-{at}"], [30.0 + at])
        one.index()
    assert others.find_many(hashes_of(store, "more-3", "more-39", "s1-b")) == [
        number_of(1, 6),
        number_of(1, 42),
        number_of(1, 1),
    ]
    late = store.others()  # which has read nothing but what no index holds
    assert late.find_many(asked) == found
    assert late.find_many(asked, newest_only=True)[0] is None
    assert late.find_many(hashes_of(store, "more-39")) == [number_of(1, 42)]
    others.close()
    late.close()


def test_ids_whose_records_are_gone_or_forgotten_are_not_found(store, filled):
    others = store.others()
    asked = hashes_of(store, "s7-c", "s7-a")
    assert others.find_many(asked) == [number_of(7, 2), number_of(7, 0)]
    schema = store.shard._db.schema
    shared_server().execute(f"DELETE FROM {schema}.blocks WHERE shard = 7 AND first_sequence = 2")
    assert others.find_many(asked) == [None, number_of(7, 0)]
    shared_server().execute(f"UPDATE {schema}.shards SET next_sequence = 2 WHERE shard = 7")
    shard = filled[2]
    shard.next_sequence = 2  # as after a failover, which forgot the last commit
    assert others.find_many(asked) == [None, number_of(7, 0)]
    commit(shard, ["s7-d"], [40.0])
    assert others.find_many(hashes_of(store, "s7-d")) == [number_of(7, 2)]
    others.close()
