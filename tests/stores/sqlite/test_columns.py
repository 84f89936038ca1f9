"""Every column of every table with a value of a wrong type: an error of the store, no other."""

import sqlite3
from contextlib import closing, suppress
from types import NoneType

import pytest

from ragmon.errors import StoreError
from ragmon.records import Position
from ragmon.stores import Restatement, Waiting
from ragmon.stores.sqlite.columns import COLUMNS, ascending, checked
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.stores.sqlite.verification import verify
from ragmon.windows.snapshot import SavedBucket
from tests.support.stores import commit_of, small_pieces

TYPES = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}
EXAMPLES = {int: 1, float: 5.0, str: "text", bytes: b"body"}
STRANGE = ("12 text", b"\xff\x00", None, float("inf"), (1 << 63) - 1)
SEALED = {("meta", "value"), ("offsets", "position")}  # read as bytes, whatever they are


def opened(directory):
    """A store with the tables of all its parts."""
    store = SqliteStore(directory, synchronous="OFF")
    for part in (
        store.shard.spans,
        store.state.alert_log,
        store.state.baselines,
        store.state.probe_runs,
    ):
        part()
    return store


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with something in each table."""
    directory = tmp_path_factory.mktemp("whole")
    with small_pieces():
        store = opened(directory)
        for start in range(0, 20, 4):
            store.shard.commit(
                commit_of(
                    store,
                    [f"id-{start + at}" for at in range(4)],
                    [float(start)] * 4,
                    amendments=[(start, b"amended")],
                    restatement=Restatement(b"old", b"new"),
                    waiting=[Waiting(store.shard.hash(f"late-{start}"), "label", b"x", 1.0)],
                )
            )
            store.shard.index()
        store.state.save_windows([SavedBucket(0, 1, b"bucket")], b"totals", {0: Position(0, 0)})
        store.close()
    with closing(sqlite3.connect(directory / FILE)) as db:
        for table, columns in tables(db).items():
            if not db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
                values = [
                    "traffic" if name == "kind" else EXAMPLES[TYPES[kind]]
                    for name, kind in columns.items()
                ]
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        db.commit()
    return (directory / FILE).read_bytes()


def tables(db):
    """Columns of each table, with their declared types."""
    names = [
        name
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]
    return {
        name: {column[1]: column[2] for column in db.execute(f"PRAGMA table_info({name})")}
        for name in names
    }


def reads(store, path):
    """Calls of everything that reads."""
    yield lambda: [store.shard.record(at) for at in range(20)]
    yield lambda: store.shard.amendments(range(20))
    yield lambda: [each.received + 1 for each in store.shard.waiting([store.shard.hash("late-0")])]
    yield lambda: [store.shard.find(store.shard.hash(f"id-{at}")) for at in range(20)]
    yield lambda: store.shard.offset("text")
    yield lambda: list(store.state.load_windows()[2])
    yield lambda: list(store.state.follow({}))
    yield lambda: store.shard.compact(0, 20)
    yield lambda: store.shard.expire(2.0, None)
    yield lambda: store.state.expire_windows([0])
    yield lambda: store.shard.expire_waiting(0.0)
    yield lambda: [span.since + span.sequence for span in store.shard.awaited().awaited(0, 5)]
    yield lambda: store.state.remembered().load("text")
    yield lambda: store.state.probe_runs().load()
    yield lambda: store.state.alert_log().load()
    yield lambda: store.state.alert_log().silences()
    yield lambda: store.state.baselines().rows()
    yield lambda: [each.at + each.attempts for each in store.state.outbox().due("text", 9.0, 5)[0]]
    yield lambda: store.state.outbox().undelivered()
    yield lambda: [each.at + each.buried_at for each in store.state.outbox().dead(5)]
    yield lambda: store.state.outbox().abandon(["other"], 9.0, "gone")
    yield lambda: [each.at + each.attempts for each in store.shard.quarantine().rows(5)]
    yield lambda: store.shard.quarantine().expire(0.0)
    yield lambda: store.shard.spans().marked()
    yield lambda: store.shard.spans().pending()
    yield lambda: store.shard.spans().mapped([b"body"])
    yield lambda: store.shard.spans().close(9.0, 0, 5)
    yield lambda: [each.at + each.number for each in store.state.erasure().rows()]
    yield lambda: store.state.erasure().alert_rows((0, -1), 10)
    with store.reader() as reader:
        yield lambda: [each.last_timestamp + 1 for each in reader.blocks(0.0, 1e9)]
        yield lambda: [each.records + each.first_timestamp for each in reader.block_times()]
        yield lambda: list(reader.saved_buckets(0, 0, 9))
        yield lambda: [reader.record(at) for at in range(20)]
        yield lambda: reader.stored_block(0)
        yield lambda: reader.hashes_from(0)
    yield lambda: verify(path)


def test_one_name_has_one_type_and_every_column_is_known(tmp_path):
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        columns = [
            (table, name, kind)
            for table, names in tables(db).items()
            for name, kind in names.items()
        ]
    assert len(columns) > 60
    for table, name, kind in columns:
        if (table, name) not in SEALED:
            assert COLUMNS.get(name) is TYPES[kind], (table, name)


@pytest.mark.parametrize("value", STRANGE, ids=repr)
def test_a_value_of_a_wrong_type_is_damage(whole, tmp_path, value):
    path = tmp_path / FILE
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as db:
        columns = [(table, name) for table, names in tables(db).items() for name in names]
    for table, name in columns:
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as db, suppress(sqlite3.IntegrityError):
            db.execute(f"UPDATE OR IGNORE {table} SET {name} = ?", (value,))
            db.commit()
        try:
            store = opened(tmp_path)
        except StoreError:
            continue
        try:
            for read in reads(store, path):
                with suppress(StoreError):
                    read()
        except Exception as error:
            error.add_note(f"{table}.{name} = {value!r}")
            raise
        finally:
            store.close()


def test_the_column_and_the_type_are_named():
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE t (at REAL, x)")
        db.execute("INSERT INTO t VALUES (1, NULL), ('soon', NULL)")
        with pytest.raises(TypeError, match="column at holds str"):
            checked(db.execute("SELECT at, x FROM t"))
        assert checked(db.execute("SELECT x FROM t")) == [(None,), (None,)]
        assert COLUMNS["min(at)"] == (float, NoneType)


@pytest.mark.parametrize(
    ("rows", "after"),
    [([(0,), (10,)], 10), ([(11,), (11,)], 10), ([(12,), (11,)], 10), ([(10,)], 10)],
)
def test_keys_that_do_not_ascend_are_damage(rows, after):
    with pytest.raises(ValueError, match="out of order"):
        ascending(rows, after)


def test_keys_that_ascend_are_given_as_numbers():
    assert ascending([(11, "x"), (14, "y")], 10) == [11, 14]
    assert ascending([], 10) == []
