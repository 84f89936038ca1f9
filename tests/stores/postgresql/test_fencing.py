"""Two owners of one store: whoever has the older epoch changes nothing any more."""

import numpy as np
import psycopg
import pytest

from ragmon.clock import ManualClock
from ragmon.errors import StoreFencedError
from ragmon.records import Position
from ragmon.stores import Waiting
from ragmon.stores.erasure import ErasedBlock, ErasureRow
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.lease import PostgresLease
from ragmon.stores.postgresql.store import prepare
from ragmon.stores.protocols import BaselineRow, MappedSpans, Notification, Settled, SpanRow, Turn
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.windows.snapshot import SavedBucket
from tests.support.postgres import new_schema, shared_server
from tests.support.stores import commit_of, copied, nothing, opened, small_pieces

ITEM = QuarantinedItem("decode", "bad", 1.0, "name", "error", b"body")
TURN = Turn(
    state=b"", buckets=[], oldest=(), book=b"", catching_up=False, positions={0: Position(9, 9)}
)


@pytest.fixture
def owners(tmp_path):
    """Handles of one schema: of the owner before, and of the one that took over."""
    with small_pieces():
        (tmp_path / "0").mkdir()
        first = opened("postgresql", tmp_path / "0")
        for at in range(4):
            first.shard.commit(commit_of(first, [f"q{at}-{each}" for each in range(3)], [1.0] * 3))
        first.shard.commit(nothing(waiting=[Waiting(7, "feedback", b"", 1.0)]))
        first.shard.quarantine().put([ITEM])
        first.state.outbox().put([Notification("chat", "e", "i", 1.0, b"")])
        first.state.save_windows([], b"", {0: Position(12, 0)})
        second = opened("postgresql", copied(tmp_path / "0", tmp_path / "1"))
        yield first, second
        first.close()
        second.close()


WRITES = {
    "commit": lambda s: s.shard.commit(commit_of(s, ["new"], [2.0])),
    "commit with quarantine": lambda s: s.shard.commit(nothing(quarantined=[ITEM])),
    "expire": lambda s: s.shard.expire(5.0, None),
    "expire waiting": lambda s: s.shard.expire_waiting(5.0),
    "compact": lambda s: s.shard.compact(0, 12),
    "index": lambda s: s.shard.index(),
    "spans": lambda s: s.shard.spans().append([SpanRow(b"t", 1, True, b"")]),
    "mapped spans": lambda s: s.shard.spans().keep([MappedSpans(b"t", 1, 1, True, b"")], 1.0),
    "marks": lambda s: s.shard.spans().mark([b"t"], 1.0),
    "awaited": lambda s: s.shard.awaited().abandon([1]),
    "summaries": lambda s: s.shard.summaries().put([]),
    "quarantine": lambda s: s.shard.quarantine().put([ITEM]),
    "quarantine deleted": lambda s: s.shard.quarantine().delete([1]),
    "erased": lambda s: s.shard.erasure().delete_waiting([7]),
    "windows": lambda s: s.state.save_windows([SavedBucket(0, 1, b"")], b"", {0: Position()}),
    "windows expired": lambda s: s.state.expire_windows([9, 9]),
    "outbox": lambda s: s.state.outbox().put([Notification("chat", "f", "i", 1.0, b"")]),
    "outbox settled": lambda s: s.state.outbox().settle([Settled(1, "delivered", 1.0)]),
    "detection": lambda s: s.state.alert_log().save(TURN),
    "alerts expired": lambda s: s.state.alert_log().expire(9.0),
    "baselines": lambda s: s.state.baselines().add(
        BaselineRow(
            name="b", kind="traffic", created_at=1.0, created_by="", provenance="", samples=1.0
        ),
        b"",
    ),
    "probes": lambda s: s.state.probe_runs().save("p", b""),
    "remembered": lambda s: s.state.remembered().save("r", b""),
    "erasure requests": lambda s: s.state.erasure().add(1.0, "subject", b""),
    "erasure requests changed": lambda s: s.state.erasure().update(ErasureRow(1, 1.0, "", b"")),
}


def content(store):
    """Every row of every table that the writes touch."""
    schema = store.shard._db.schema
    tables = [
        name
        for (name,) in shared_server().execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relkind = 'r'",
            (schema,),
        )
    ]
    return {
        name: sorted(map(repr, shared_server().execute(f"SELECT * FROM {schema}.{name}")))
        for name in tables
    }


def refused(write, store) -> bool:
    try:
        write(store)
    except StoreFencedError:
        return True
    return False


def test_the_owner_before_changes_nothing(owners):
    first, second = owners
    before = content(first)
    assert [name for name, write in WRITES.items() if not refused(write, first)] == []
    assert content(first) == before
    fenced = first.fenced()
    assert sum(fenced.values()) >= len(WRITES)
    assert fenced["shard"] > 0 < fenced["evaluator"]
    assert sum(second.fenced().values()) == 0
    assert first.name == second.name
    assert not first.lease.renew()
    assert not first.lease.is_held
    hashes = np.array([second.shard.hash("q0-0")], dtype=np.uint64)
    assert first.shard.find_many(hashes) == second.shard.find_many(hashes) == [0]


def test_the_next_owner_does_all_of_it(owners):
    _, second = owners
    for write in WRITES.values():
        write(second)
    assert second.fenced() == {"shard": 0, "evaluator": 0}
    assert second.lease.renew()


def test_a_block_is_not_erased_by_the_owner_before(owners):
    first, _ = owners
    with first.reader() as reader:
        stored = reader.stored_block(0)
    body = first.shard.erasure().pack(b"\x90", 0)
    block = ErasedBlock(
        first_sequence=0, stored=stored.stored, body=body, sequences=[], amend=lambda *_: b""
    )
    with pytest.raises(StoreFencedError):
        first.shard.erasure().swap(block, None)
    assert first.shard.record(0) is not None


@pytest.fixture
def leases():
    access, schema = DatabaseAccess(dsn=shared_server().url), new_schema()
    prepare(access, schema)
    clocks = ManualClock(), ManualClock()
    held = [PostgresLease(access, schema, f"r{at}", clock=clocks[at]) for at in range(2)]
    yield schema, clocks[0], *held
    for lease in held:
        lease.release()


def test_a_lease_has_one_holder_and_its_number_only_rises(leases):
    schema, clock, first, second = leases
    assert not first.is_held
    assert first.acquire()
    assert not second.acquire()
    assert second.holder().name == "r0"
    assert 10.0 < second.holder().valid_s <= 15.0
    clock.sleep(11.0)
    assert first.is_held
    assert first.renew()
    clock.sleep(11.0)
    assert first.is_held
    clock.sleep(2.0)
    assert not first.is_held  # before others may begin: it may have been renewed in vain
    shared_server().execute(f"UPDATE {schema}.lease SET until = clock_timestamp()")
    assert second.acquire()
    assert second.epoch == first.epoch + 1
    assert not first.renew()
    first.release()  # of what it no longer has: nothing
    assert second.renew()
    second.release()
    assert first.acquire()
    assert first.epoch == 3


def test_who_stopped_in_a_transaction_holds_nobody_up(tmp_path):
    """A process that was stopped keeps its locks for as long as its socket lives."""
    store = opened("postgresql", tmp_path)
    store.shard.commit(commit_of(store, ["a"], [1.0]))
    schema = store.shard._db.schema
    with psycopg.connect(shared_server().url()) as stopped:
        stopped.execute(f"SELECT 1 FROM {schema}.shards FOR UPDATE")
        stopped.execute(f"SELECT 1 FROM {schema}.lease FOR UPDATE")
        store._close()  # its lease was not given back
        with psycopg.connect(shared_server().url()) as other:
            state = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
            assert other.execute(state).fetchone()[0]
        lease = PostgresLease(DatabaseAccess(dsn=shared_server().url), schema, "next")
        assert not lease.acquire()  # it was waited for, and ended
        lease.release()
        with pytest.raises(psycopg.OperationalError):
            stopped.execute("SELECT 1")
