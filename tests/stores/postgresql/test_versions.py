"""Another version of PostgreSQL than the system's."""

import pytest

from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from tests.stores.test_copying import check_goes_on, content, filled
from tests.support.postgres import PostgresServer, needed, new_schema
from tests.support.stores import small_pieces


@pytest.mark.parametrize("version", ["17"])
def test_everything_is_written_and_read(version):
    server = PostgresServer(needed(version))
    try:
        server.start()
        [(shown,)] = server.execute("SHOW server_version")
        assert shown.split(".")[0] == version
        access, schema = DatabaseAccess(dsn=server.url), new_schema()
        with small_pieces():
            store = open_store(access, schema, ttl_s=600.0, wait_s=0.0)
            filled(store)
            before, numbers = content(store), store.tables().numbers()
            store.close()
            server.stop()
            server.start()
            again = open_store(access, schema, ttl_s=600.0, wait_s=0.0)
            check_goes_on(again, before, numbers)
            again.close()
    finally:
        server.remove()
