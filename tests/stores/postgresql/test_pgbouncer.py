"""The store through pgbouncer in transaction mode, where each transaction gets any session."""

import pytest

from ragmon.errors import StoreBusyError, StoreFencedError
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from tests.stores.test_copying import check_goes_on, content, filled
from tests.support import pgbouncer as pooler
from tests.support.postgres import PostgresServer, needed, new_schema
from tests.support.stores import commit_of, small_pieces


@pytest.fixture(scope="module")
def pooled():
    pooler.needed()
    server = PostgresServer(needed())
    try:
        server.start()
        with pooler.pgbouncer(server) as url:
            yield server, DatabaseAccess(dsn=lambda: url, prepare=False)
    finally:
        server.remove()


@pytest.fixture(autouse=True)
def _small():
    with small_pieces():
        yield


def opened(access, schema, owner="test"):
    return open_store(access, schema, ttl_s=600.0, wait_s=0.0, owner=owner)


def test_everything_is_written_and_read_by_any_session(pooled):
    _, access = pooled
    schema = new_schema()
    store = opened(access, schema)
    filled(store)
    before, numbers = content(store), store.tables().numbers()
    with store.reader() as reader, reader.moment():
        assert len(reader.block_times()) == 10
        store.shard.commit(commit_of(store, ["beside"], [1.0]))
        assert len(reader.block_times()) == 10  # of its moment
    with store.reader() as reader:
        assert len(reader.block_times()) == 11
    assert store.shard.compact(0, 30)[0] > 1
    store.close()
    fresh = opened(access, new_schema())
    filled(fresh)
    check_goes_on(fresh, content(fresh), fresh.tables().numbers())
    fresh.close()
    assert (numbers.next_sequence, len(before["blocks"])) == (30, 10)


def test_the_lease_and_the_fence_hold(pooled):
    server, access = pooled
    schema = new_schema()
    first = opened(access, schema, "first")
    with pytest.raises(StoreBusyError, match="first"):
        opened(access, schema, "second")
    server.execute(f"UPDATE {schema}.lease SET until = clock_timestamp()")
    second = opened(access, schema, "second")
    with pytest.raises(StoreFencedError):
        first.shard.commit(commit_of(first, ["a"], [1.0]))
    with pytest.raises(StoreFencedError):
        first.state.remembered().save("name", b"value")
    second.shard.commit(commit_of(second, ["a"], [1.0]))
    assert second.shard.find(second.shard.hash("a")) == 0
    first.close()
    second.close()
