"""The index of ids against a dictionary, with runs so short that they really happen."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.records import Position
from ragmon.stores import identity
from ragmon.stores.identity import (
    ENTRY,
    Filter,
    find_in_page,
    hash_id,
    pack_run,
    signed,
    unsigned,
)
from tests.support.stores import commit_of, opened, small_pieces

HASHES = st.integers(0, 2**64 - 1)
EDGES = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
many = st.lists(HASHES | EDGES, max_size=60, unique=True).map(lambda x: np.array(x, np.uint64))


@settings(deadline=None)
@given(HASHES | EDGES, HASHES | EDGES)
def test_signed_hashes_fit_sqlite_and_keep_their_order(a, b):
    assert -(2**63) <= signed(a) < 2**63
    assert unsigned(signed(a)) == a
    assert (signed(a) < signed(b)) == (a < b)


@settings(deadline=None)
@given(many, st.integers(1, 7), HASHES | EDGES)
def test_a_packed_run_finds_what_is_in_it_and_nothing_else(hashes, chunk, other):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "PAGE", chunk)
        packed = pack_run(hashes, np.arange(len(hashes)) * 10)
    assert sum(len(entries) for _, entries in packed) == ENTRY.itemsize * len(hashes)
    firsts = [first for first, _ in packed]
    assert firsts == sorted(firsts)

    def find(query_hash):
        chunks = [entries for first, entries in packed if first <= signed(query_hash)]
        return find_in_page(chunks[-1], query_hash) if chunks else None

    for at, each in enumerate(hashes.tolist()):
        assert find(each) == at * 10
    if other not in hashes.tolist():
        assert find(other) is None


@settings(deadline=None)
@given(many, many)
def test_a_filter_never_forgets(added, others):
    filter_ = Filter()
    filter_.add(added)
    assert filter_.may_hold(added).all()
    assert filter_.size == len(added)
    if not len(added):
        assert not filter_.may_hold(others).any()


def test_a_full_filter_is_seldom_wrong():
    random = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "_GENERATION", 1 << 16)
        patch.setattr(identity, "_WORDS", (1 << 16) * 16 // 64)
        filter_ = Filter()
        filter_.add(random.integers(0, 2**64, 1 << 16, dtype=np.uint64))
        wrong = filter_.may_hold(random.integers(0, 2**64, 200_000, dtype=np.uint64)).mean()
    assert 0 < wrong < 0.006


def test_the_filter_of_a_generation_has_room_for_whole_runs():
    assert identity._GENERATION % identity.RUN == 0
    assert identity._WORDS <= 1 << 24  # the hash bits that choose the word
    filter_ = Filter()
    filter_.size = identity._GENERATION - identity.RUN
    assert not filter_.full
    filter_.size += 1
    assert filter_.full


def test_the_seed_keeps_collisions_from_being_made_on_purpose():
    assert hash_id("query", 1) != hash_id("query", 2)
    assert hash_id("query", 1) == hash_id("query", 1)
    assert 0 <= hash_id("x" * 256, 2**63 - 1) < 2**64


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.data())
def test_ids_are_found_through_runs_generations_and_restarts(sizes, data):
    names = iter(f"id-{at}" for at in range(1_000))
    with (
        small_pieces(),
        tempfile.TemporaryDirectory() as name,
        contextlib.ExitStack() as closing,  # an example may end early, where data.draw has no more
    ):
        directory = Path(name)
        store = opened("sqlite", directory)
        closing.callback(store.close)
        held: dict[str, int] = {}
        for size in sizes:
            new = [next(names) for _ in range(size)]
            held.update({name: store.shard.next_sequence + at for at, name in enumerate(new)})
            store.shard.commit(commit_of(store, new, [float(len(held))] * size))
            if data.draw(st.booleans()):
                store.shard.index()
            if data.draw(st.integers(0, 9)) == 0:
                store.close()
                store = opened("sqlite", directory)
                closing.callback(store.close)
        assert {name: store.shard.find(store.shard.hash(name)) for name in held} == held
        strangers = np.array([store.shard.hash(f"stranger-{at}") for at in range(200)], np.uint64)
        assert store.shard.find_many(strangers) == [None] * len(strangers)
        store.close()


def test_runs_whose_records_are_gone_are_dropped(tmp_path):
    with small_pieces():
        store = opened("sqlite", tmp_path)
        for at in range(10):
            names = [f"id-{at}-{each}" for each in range(8)]
            store.shard.commit(commit_of(store, names, [float(at)] * 8))
            store.shard.index()
        runs = store._db.number("SELECT count(DISTINCT run) FROM runs")
        assert runs == 10
        assert len(store.shard._ids._generations) > 1
        store.state.save_windows([], b"", {0: Position(store.shard.next_sequence, 0)})
        while store.shard.expire(5.0, None):
            pass
        assert store._db.number("SELECT count(DISTINCT run) FROM runs") == 5
        assert store.shard.find(store.shard.hash("id-4-0")) is None
        assert store.shard.find(store.shard.hash("id-5-0")) == 40
        while store.shard.expire(100.0, None):
            pass
        assert store._db.number("SELECT count(DISTINCT run) FROM runs") == 0
        assert store.shard._ids._generations == []
        store.close()


def test_an_id_may_come_again_when_its_record_is_gone(tmp_path):
    with small_pieces():
        store = opened("sqlite", tmp_path)
        store.shard.commit(commit_of(store, ["a", "b"], [1.0, 1.0]))
        store.state.save_windows([], b"", {0: Position(store.shard.next_sequence, 0)})
        while store.shard.expire(2.0, None):
            pass
        assert store.shard.find(store.shard.hash("a")) is None
        store.shard.commit(commit_of(store, ["a"], [3.0]))
        assert store.shard.find(store.shard.hash("a")) == 2
        store.close()
        store = opened("sqlite", tmp_path)
        assert store.shard.find(store.shard.hash("a")) == 2
        assert store.shard.find(store.shard.hash("b")) is None
        store.close()


def test_a_new_id_costs_no_look_at_the_disk(tmp_path):
    store = opened("sqlite", tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "RUN", 64)
        names = [f"id-{at}" for at in range(640)]
        for start in range(0, 640, 64):
            store.shard.commit(commit_of(store, names[start : start + 64], [1.0] * 64))
            store.shard.index()
    statements: list[str] = []
    store._db.connection.set_trace_callback(statements.append)
    hashes = np.array([store.shard.hash(f"new-{at}") for at in range(1_000)], np.uint64)
    assert store.shard.find_many(hashes) == [None] * len(hashes)
    assert len(statements) < 10 * 20  # about 0.3 % of them, in ten runs
    store.close()


def test_what_is_sent_again_asks_for_each_block_once(tmp_path):
    """A client that repeats a batch must not cost more than the batch did."""
    names = [f"id-{at}" for at in range(640)]
    store = opened("sqlite", tmp_path)
    for start in range(0, len(names), 64):
        store.shard.commit(commit_of(store, names[start : start + 64], [1.0] * 64))
    statements: list[str] = []
    store._db.connection.set_trace_callback(statements.append)
    hashes = np.array([store.shard.hash(name) for name in names], np.uint64)
    assert store.shard.find_many(hashes) == list(range(640))
    assert len(statements) == 10  # one for each block of 64
    store.close()
