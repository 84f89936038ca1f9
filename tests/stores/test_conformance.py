"""Every store, whatever is done to it in whatever order, against plain dictionaries."""

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ragmon.plugins import kinds
from ragmon.records import Position
from ragmon.stores import Restatement, Waiting
from ragmon.windows.snapshot import SavedBucket
from tests.support import stores
from tests.support.postgres import shared_server
from tests.support.stores import (
    KINDS,
    commit_of,
    copied,
    encode,
    nothing,
    numbers,
    opened,
    small_pieces,
)

IDS = [f"query-{at}" for at in range(40)]
some_ids = st.lists(st.sampled_from(IDS), max_size=9, unique=True)
moments = st.floats(0.0, 1_000.0)
bodies = st.binary(max_size=20)
TIERS = 4


class StoreMachine(RuleBasedStateMachine):
    """A store, and what it should hold."""

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(small_pieces())
        self.root = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.directory = self.root / "0"
        self.directory.mkdir()
        self._open()
        self.records: dict[int, tuple[str, float]] = {}  # by sequence number
        self.amendments: dict[int, bytes] = {}
        self.awaited: list[tuple[str, Waiting]] = []
        self.offsets: dict[str, bytes] = {}
        self.restatements: dict[int, Restatement] = {}
        self.windows: dict[tuple[int, int], bytes] = {}
        self.totals: bytes | None = None
        self.position = Position()
        self.next_sequence = 0
        self.last_restatement = 0
        self.compacted = 0

    def _open(self) -> None:
        self.store = opened(self.kind, self.directory)
        self.shard = self.store.shards[0]

    def teardown(self) -> None:
        self.store.close()
        self.stack.close()

    # ---- writing ----------------------------------------------------------------------------

    @rule(ids=some_ids, at=moments, late=moments, offset=st.none() | bodies)
    def commit(self, ids, at, late, offset):
        held = {name for name, _ in self.records.values()}
        new = [each for each in ids if each not in held]
        timestamps = [late if each % 3 == 2 else at for each in range(len(new))]
        offsets = [] if offset is None else [("source", offset)]
        arrived = sorted({w.query_hash for name, w in self.awaited if name in new})
        assert self.shard.next_sequence == self.next_sequence
        self.shard.commit(commit_of(self.store, new, timestamps, offsets=offsets, arrived=arrived))
        for name, timestamp in zip(new, timestamps, strict=True):
            self.records[self.next_sequence] = (name, timestamp)
            self.next_sequence += 1
        self.awaited = [(name, w) for name, w in self.awaited if name not in new]
        self.offsets.update(offsets)

    @precondition(lambda self: self.records)
    @rule(data=st.data(), body=bodies, old=bodies)
    def amend(self, data, body, old):
        chosen = data.draw(
            st.lists(st.sampled_from(sorted(self.records)), min_size=1, max_size=3, unique=True)
        )
        restatement = Restatement(old, body)
        self.shard.commit(
            nothing(amendments=[(each, body) for each in chosen], restatement=restatement)
        )
        self.amendments.update(dict.fromkeys(chosen, body))
        self.last_restatement += 1
        self.restatements[self.last_restatement] = restatement

    @rule(name=st.sampled_from(IDS), body=bodies, received=moments)
    def wait(self, name, body, received):
        if any(name == held for held, _ in self.records.values()):
            return
        waiting = Waiting(self.shard.hash(name), "feedback", body, received)
        self.shard.commit(nothing(waiting=[waiting]))
        self.awaited.append((name, waiting))

    @rule(data=st.data(), totals=bodies)
    def save_windows(self, data, totals):
        keys = st.tuples(st.integers(0, TIERS - 1), st.integers(0, 20))
        buckets = data.draw(st.dictionaries(keys, bodies, max_size=4))
        self.position = Position(self.next_sequence, self.last_restatement)
        saved = [SavedBucket(tier, bucket, body) for (tier, bucket), body in buckets.items()]
        self.store.state.save_windows(iter(saved), totals, {0: self.position})
        self.windows.update(buckets)
        self.totals = totals
        self.restatements = {}

    # ---- upkeep -----------------------------------------------------------------------------

    @rule()
    def index(self):
        self.shard.index()

    @rule(steps=st.integers(1, 4))
    def compact(self, steps):
        for _ in range(steps):
            joined, self.compacted = self.shard.compact(self.compacted, self.position.sequence)
            assert joined >= 0
            assert self.compacted <= self.position.sequence
            if self.compacted == self.position.sequence:
                self.compacted = 0

    @rule(before=moments, to_the_end=st.booleans())
    def expire(self, before, to_the_end):
        deleted = step = self.shard.expire(before, None)
        while step and to_the_end:
            step = self.shard.expire(before, None)
            deleted += step
        gone = [each for each in self.records if self.shard.record(each) is None]
        assert len(gone) == deleted
        assert all(self.records[each][1] < before for each in gone)
        assert all(each < self.position.sequence for each in gone)
        for each in gone:
            del self.records[each]
            self.amendments.pop(each, None)

    @rule(oldest=st.integers(0, 20), waiting_before=moments)
    def expire_windows(self, oldest, waiting_before):
        self.store.state.expire_windows([oldest, 0, oldest, 0])
        waiting = [each for each in self.awaited if each[1].received >= waiting_before]
        expired = self.shard.expire_waiting(waiting_before)
        assert expired == len(self.awaited) - len(waiting)
        self.awaited = waiting
        limits = (oldest, 0, oldest, 0)
        self.windows = {
            (tier, bucket): body
            for (tier, bucket), body in self.windows.items()
            if bucket >= limits[tier]
        }

    @rule(crash=st.booleans())
    def reopen(self, crash):
        if crash:
            target = self.root / str(int(self.directory.name) + 1)
            before, self.directory = self.store, copied(self.directory, target)
            before.close()
        else:
            self.store.close()
        self._open()

    # ---- what must always hold --------------------------------------------------------------

    @invariant()
    def numbers_go_on(self):
        assert self.shard.next_sequence == self.next_sequence
        assert self.shard.last_restatement == self.last_restatement

    @invariant()
    def records_are_found_by_id_and_number(self):
        by_id = {name: sequence for sequence, (name, _) in self.records.items()}
        hashes = np.array([self.shard.hash(each) for each in IDS], dtype=np.uint64)
        assert [each is not None for each in self.shard.find_many(hashes)] == [
            each in by_id for each in IDS
        ]
        for each in IDS:
            assert self.shard.find(self.shard.hash(each)) == by_id.get(each)
        for sequence, (name, _) in self.records.items():
            assert self.shard.record(sequence) == encode(name)
        assert self.shard.record(self.next_sequence) is None

    @invariant()
    def amendments_and_offsets_are_kept(self):
        assert self.shard.amendments(range(self.next_sequence)) == self.amendments
        assert self.shard.offset("source") == self.offsets.get("source")
        assert self.shard.offset("another") is None

    @invariant()
    def waiting_is_kept(self):
        hashes = [self.shard.hash(each) for each in IDS]
        expected = sorted(waiting for _, waiting in self.awaited)
        assert sorted(self.shard.waiting(hashes)) == expected
        assert self.shard.waiting(hashes[:1]) == sorted(
            (w for name, w in self.awaited if name == IDS[0]), key=lambda w: w.received
        )
        assert self.shard.waiting_count() == len(expected)

    @invariant()
    def windows_and_what_follows_them_are_kept(self):
        positions, totals, buckets = self.store.state.load_windows()
        assert (positions, totals) == ({0: self.position}, self.totals)
        expected = [SavedBucket(*key, body) for key, body in sorted(self.windows.items())]
        assert list(buckets) == (expected if totals is not None else [])
        entries = list(self.store.state.follow(positions))
        after = [each.change for each in entries]
        restated = [each for each in after if isinstance(each, Restatement)]
        assert after[len(after) - len(restated) :] == restated  # after what they restate
        assert restated == [each for _, each in sorted(self.restatements.items())]
        folded = [number for each in after if isinstance(each, bytes) for number in numbers(each)]
        assert folded == [each for each in sorted(self.records) if each >= self.position.sequence]
        for at, entry in enumerate(entries, start=1):  # each is a place to go on from
            assert entry.shard == 0
            assert list(self.store.state.follow({0: entry.position})) == entries[at:]

    @invariant()
    def readers_see_the_same(self):
        with self.store.reader() as reader:
            seen: dict[int, bytes] = {}
            newest = float("inf")
            for block in reader.blocks(0.0, float("inf")):
                assert block.last_timestamp <= newest
                newest = block.last_timestamp
                records = reader.records(block.first_sequence)
                held = range(block.first_sequence, block.first_sequence + len(records))
                assert numbers(block.observations) == list(held)
                assert newest == max(self.records[each][1] for each in held)
                seen.update(zip(held, records, strict=True))
                assert block.amendments == {
                    each: self.amendments[each] for each in held if each in self.amendments
                }
            assert seen == {each: encode(name) for each, (name, _) in self.records.items()}
            for each in range(self.next_sequence + 1):
                found = None
                if each in self.records:
                    found = (encode(self.records[each][0]), self.amendments.get(each))
                assert reader.record(each) == found


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_as_good_as_dictionaries(kind):
    run_state_machine_as_test(
        type(f"Machine_{kind}", (StoreMachine,), {"kind": kind}),
        settings=settings(
            max_examples=60 if kind == "sqlite" else 8,  # each has a schema of its own
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_another_version_of_postgresql_is_as_good(monkeypatch):
    monkeypatch.setattr(stores, "shared_server", partial(shared_server, "17"))
    run_state_machine_as_test(
        type("Machine_17", (StoreMachine,), {"kind": "postgresql"}),
        settings=settings(
            max_examples=2,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_both_stores_are_among_them():
    assert set(KINDS) == set(kinds("ragmon.stores"))
