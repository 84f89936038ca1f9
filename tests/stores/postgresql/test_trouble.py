"""Whatever is wrong with the database, the store says so, names the setting, and what to do."""

import re
import sys

import psycopg
import pytest

from ragmon.errors import (
    SettingsError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
)
from ragmon.plugins import resolve
from ragmon.stores.postgresql import Options, build
from ragmon.stores.postgresql.connecting import DatabaseAccess, translate
from ragmon.stores.postgresql.opening import open_store
from ragmon.stores.postgresql.store import prepare
from tests.support.postgres import new_schema, shared_server
from tests.support.stores import commit_of, nothing, opened


def start(url: str, schema: str = "") -> None:
    """Open a store, and close it."""
    open_store(
        DatabaseAccess(dsn=lambda: url), schema or new_schema(), ttl_s=60.0, wait_s=0.0
    ).close()


def in_database(name: str, how: str) -> str:
    server = shared_server()
    if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)):
        server.execute(f"CREATE DATABASE {name} {how}")
    return server.url(name)


def as_role(name: str, how: str) -> str:
    server = shared_server()
    if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)):
        server.execute(f"CREATE ROLE {name} LOGIN")
    server.execute(f"ALTER ROLE {name} {how}")
    return server.url(user=name)


def test_nobody_listens():
    with pytest.raises(StoreUnreachableError, match=r"PostgreSQL at /nowhere:5432/x: .*store\.dsn"):
        start("postgresql://ragmon:secret@/x?host=/nowhere")


def test_a_database_that_is_not_there():
    with pytest.raises(StoreUnreachableError, match=r"does not exist.* Create it"):
        start(shared_server().url("nothing_here"))


def test_a_wrong_password_is_refused_and_not_shown():
    shared_server().execute("DROP ROLE IF EXISTS with_password")
    shared_server().execute("CREATE ROLE with_password LOGIN SUPERUSER PASSWORD 'right'")
    with pytest.raises(
        StoreUnreachableError, match=r"Correct user and password in store\.dsn"
    ) as e:
        start(shared_server().url(user="with_password", password="wrong-one"))
    assert "wrong-one" not in str(e.value)
    start(shared_server().url(user="with_password", password="right"))


def test_another_encoding():
    url = in_database("latin", "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreError, match=r"encoding LATIN1.* CREATE DATABASE … ENCODING 'UTF8'"):
        start(url)


def test_a_read_only_database():
    url = as_role("reader_only", "SET default_transaction_read_only = on")
    with pytest.raises(StoreError, match=r"read-only.* target_session_attrs=read-write"):
        start(url)


def test_a_role_that_may_not_make_the_schema():
    url = as_role("nobody_much", "NOCREATEDB")
    with pytest.raises(StoreError, match=r"permission denied.* GRANT the role of store\.dsn"):
        start(url)


def test_a_format_of_the_future():
    schema = new_schema()
    start(shared_server().url(), schema)
    shared_server().execute(f"UPDATE {schema}.meta SET value = '99' WHERE name = 'format'")
    with pytest.raises(
        StoreError, match=r"format 99, which a newer ragmon made; .* Use the ragmon version"
    ):
        start(shared_server().url(), schema)


def test_making_the_tables_again_changes_nothing():
    schema = new_schema()
    access = DatabaseAccess(dsn=shared_server().url)
    assert prepare(access, schema) is None
    seed = shared_server().execute(f"SELECT value FROM {schema}.meta WHERE name = 'seed'")
    assert prepare(access, schema) is None
    assert shared_server().execute(f"SELECT value FROM {schema}.meta WHERE name = 'seed'") == seed


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (psycopg.errors.DiskFull("could not extend file"), StoreFullError, True),
        (psycopg.errors.LockNotAvailable("locked"), StoreBusyError, True),
        (psycopg.errors.DataCorrupted("bad page"), StoreCorruptError, False),
        (psycopg.errors.AdminShutdown("terminating connection"), StoreUnreachableError, True),
        (psycopg.OperationalError("server closed the connection"), StoreUnreachableError, True),
        (psycopg.errors.ReadOnlySqlTransaction("read-only"), StoreError, True),
        (psycopg.errors.QueryCanceled("statement timeout"), StoreError, True),
        (psycopg.errors.UndefinedTable("relation"), StoreError, True),
        (psycopg.errors.SyntaxError("a defect"), StoreError, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_error_of_the_server_has_a_remedy(error, kind, retryable):
    translated = translate(error)
    assert type(translated) is kind
    assert translated.retryable == retryable
    assert translated.hint


# ---- settings -------------------------------------------------------------------------------


def test_what_is_no_connection_string_is_not_shown(tmp_path):
    options = Options(dsn="postgresql://me:secret@host:notaport/x y=")
    with pytest.raises(SettingsError, match="no connection string of libpq") as caught:
        build(options, tmp_path)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "exactly one of"),
        ({"dsn": "a", "dsn_env": "B"}, "exactly one of"),
        ({"dsn": "a", "schema_name": 'x"; DROP'}, "store.schema_name"),
        ({"dsn": "a", "timeout": 3}, "unknown option"),
    ],
)
def test_options_that_cannot_be(values, problem):
    with pytest.raises(SettingsError, match=re.escape(problem)):
        resolve("ragmon.stores", "store", {"kind": "postgresql"} | values)


def test_without_psycopg_the_extra_is_named(tmp_path, monkeypatch):
    for name in [each for each in sys.modules if each.startswith("ragmon.stores.postgresql.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[cluster\]'"):
        build(Options(dsn="postgresql:///x"), tmp_path)


# ---- a server that goes away ----------------------------------------------------------------


def end_sessions(schema: str) -> None:
    """Every connection is closed by the server, as when it is started again."""
    shared_server().execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND query LIKE %s",
        (f'%"{schema}"%',),
    )


def test_a_connection_that_was_closed_is_opened_again(tmp_path):
    store = opened("postgresql", tmp_path)
    store.shard.commit(commit_of(store, ["a"], [1.0]))
    with store.reader() as reader:
        assert reader.record(0) is not None
    end_sessions(store.shard._db.schema)
    store.shard.commit(commit_of(store, ["b"], [1.0]))
    end_sessions(store.shard._db.schema)
    assert store.shard.record(0) is not None
    store.state.remembered().save("name", b"value")
    with store.reader() as reader:
        assert reader.record(1) is not None
    store.close()


def test_a_password_that_rotates_needs_no_restart(tmp_path):
    server = shared_server()
    as_role("with_password", "SUPERUSER PASSWORD 'one'")
    secret = tmp_path / "dsn"
    secret.write_text(server.url(user="with_password", password="one"))
    schema = new_schema()
    options = {"kind": "postgresql", "dsn_file": str(secret), "schema_name": schema}
    module, checked = resolve("ragmon.stores", "store", options)
    store = module.build(checked, tmp_path)
    store.shard.commit(commit_of(store, ["a"], [1.0]))
    server.execute("ALTER ROLE with_password PASSWORD 'two'")
    end_sessions(schema)
    with pytest.raises(StoreUnreachableError, match="password"):
        store.shard.commit(commit_of(store, ["b"], [1.0]))
    secret.write_text(server.url(user="with_password", password="two"))
    assert store.shard.settle() is False
    store.shard.commit(commit_of(store, ["b"], [1.0]))
    store.close()


def lost(store, monkeypatch, *, after: bool, times: int) -> None:
    """Lose the connection before or after a commit is done, and for some questions after it."""
    database = store.shard._db
    real_once, real_rows = database.once, database.rows
    left = [times]

    def once(sql, values):
        if left[0] <= 0:
            return real_once(sql, values)
        left[0] -= 1
        if after:
            real_once(sql, values)
        raise StoreUnreachableError("the connection was lost")

    def rows(sql, *values):
        if "commits" in sql and left[0] > 0:
            left[0] -= 1
            raise StoreUnreachableError("nobody answers")
        return real_rows(sql, *values)

    monkeypatch.setattr(database, "once", once)
    monkeypatch.setattr(database, "rows", rows)


@pytest.mark.parametrize("after", [False, True], ids=["before it", "its answer"])
def test_a_commit_whose_connection_is_lost_is_made_once(tmp_path, monkeypatch, after):
    store = opened("postgresql", tmp_path)
    lost(store, monkeypatch, after=after, times=1)
    store.shard.commit(commit_of(store, ["a", "b"], [1.0, 1.0]))
    assert store.shard.next_sequence == 2
    assert store.shard.find(store.shard.hash("b")) == 1
    store.shard.commit(commit_of(store, ["c"], [1.0]))
    assert [store.shard.record(at) is None for at in range(4)] == [False, False, False, True]
    store.close()


@pytest.mark.parametrize("after", [False, True], ids=["not made", "made"])
def test_a_commit_in_doubt_is_settled_before_the_next(tmp_path, monkeypatch, after):
    store = opened("postgresql", tmp_path)
    lost(store, monkeypatch, after=after, times=3)
    with pytest.raises(StoreUnreachableError):
        store.shard.commit(commit_of(store, ["a"], [1.0]))
    with pytest.raises(StoreUnreachableError):
        store.shard.commit(nothing(offsets=[("source", b"1")]))
    with pytest.raises(StoreUnreachableError):
        store.shard.settle()
    assert store.shard.settle() is after
    assert store.shard.settle() is False
    assert (store.shard.find(store.shard.hash("a")) == 0) is after
    store.shard.commit(commit_of(store, ["b"], [1.0]))
    assert store.shard.next_sequence == 1 + after
    store.close()
