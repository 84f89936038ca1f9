"""Steps between formats of the tables, and two versions of ragmon on one database."""

from types import MappingProxyType

import pytest

from ragmon.clock import ManualClock
from ragmon.errors import StoreBusyError, StoreError
from ragmon.stores import Migration
from ragmon.stores.postgresql import schema as tables
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from ragmon.stores.postgresql.schema import FORMAT, MIGRATIONS, FormatStep
from ragmon.stores.postgresql.store import inspect, prepare
from tests.support.postgres import new_schema, shared_server

NEXT = FORMAT + 1


@pytest.fixture
def access():
    return DatabaseAccess(dsn=shared_server().url)


@pytest.fixture
def newer(monkeypatch):
    """Make this process the next release, whose step is usable by releases from a format on."""

    def become(readable_by):
        def add(database, cursor):
            database.execute(cursor, "ALTER TABLE @.probes ADD COLUMN note text")

        monkeypatch.setattr(tables, "FORMAT", NEXT)
        steps = {**MIGRATIONS, FORMAT: FormatStep(add, readable_by)}
        monkeypatch.setattr(tables, "MIGRATIONS", MappingProxyType(steps))

    yield become
    monkeypatch.undo()


def columns(schema):
    rows = shared_server().execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = 'probes'",
        (schema,),
    )
    return {name for (name,) in rows}


def opened(access, schema, clock=None):
    return open_store(access, schema, ttl_s=60.0, wait_s=0.0, clock=clock)


def test_a_step_is_made_once_and_told(access, newer):
    schema = new_schema()
    prepare(access, schema)
    assert inspect(access, schema) == (FORMAT, FORMAT, FORMAT)
    newer(readable_by=NEXT)
    assert inspect(access, schema) == (FORMAT, NEXT, FORMAT)
    assert "note" not in columns(schema)  # to look changes nothing
    assert prepare(access, schema) == Migration(FORMAT, NEXT, None)
    assert "note" in columns(schema)
    assert prepare(access, schema) is None
    assert inspect(access, schema) == (NEXT, NEXT, NEXT)


def test_nothing_is_changed_while_an_older_ragmon_runs_that_could_not_use_it(access, newer):
    schema = new_schema()
    older = opened(access, schema)
    newer(readable_by=NEXT)
    with pytest.raises(StoreBusyError, match=rf"format {FORMAT} and is in use.* Stop that one"):
        opened(access, schema)
    assert "note" not in columns(schema)
    older.close()
    store = opened(access, schema)
    assert store.migration == Migration(FORMAT, NEXT, None)
    store.close()


def test_a_start_waits_for_the_lease_of_an_older_ragmon_that_was_killed(access, newer):
    schema = new_schema()
    older = opened(access, schema)
    newer(readable_by=NEXT)

    class Clock(ManualClock):
        """Ends the lease of the other while it is waited for."""

        def sleep(self, seconds):
            shared_server().execute(f"UPDATE {schema}.lease SET until = clock_timestamp()")
            super().sleep(seconds)

    store = open_store(access, schema, ttl_s=60.0, wait_s=5.0, clock=Clock())
    assert store.migration == Migration(FORMAT, NEXT, None)
    store.close()
    older.close()


def test_a_step_that_only_adds_is_made_beside_an_older_ragmon(access, newer, monkeypatch):
    schema = new_schema()
    older = opened(access, schema)
    newer(readable_by=FORMAT)
    assert prepare(access, schema) == Migration(FORMAT, NEXT, None)
    older.state.remembered().save("still", b"works")
    older.close()
    monkeypatch.undo()  # the older release is started again
    again = opened(access, schema)
    assert again.migration is None
    assert again.state.remembered().load("still") == b"works"
    again.close()
    assert inspect(access, schema) == (NEXT, FORMAT, FORMAT)


def test_an_older_ragmon_refuses_what_it_cannot_use(access, newer, monkeypatch):
    schema = new_schema()
    newer(readable_by=NEXT)
    prepare(access, schema)
    monkeypatch.undo()
    for refused in (lambda: opened(access, schema), lambda: inspect(access, schema)):
        with pytest.raises(StoreError, match=rf"format {NEXT}, which a newer ragmon made"):
            refused()


def test_tables_that_changed_between_a_look_and_the_lease_are_refused(access, newer, monkeypatch):
    schema = new_schema()
    prepare(access, schema)
    newer(readable_by=NEXT)
    prepare(access, schema)
    monkeypatch.undo()
    monkeypatch.setattr("ragmon.stores.postgresql.opening.prepare", lambda *_: None)
    with pytest.raises(StoreError, match="which a newer ragmon made"):
        opened(access, schema)


def test_a_step_keeps_away_who_was_kept_away_before(access, newer):
    schema = new_schema()
    prepare(access, schema)
    newer(readable_by=1)
    prepare(access, schema)
    assert inspect(access, schema).readable_by == FORMAT
