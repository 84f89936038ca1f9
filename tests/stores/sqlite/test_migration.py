"""A store of the format before opens, after a backup of it as it was."""

import shutil
import sqlite3
from collections import namedtuple
from types import MappingProxyType

import pytest
import zstandard

from ragmon.errors import StoreError, StoreFullError
from ragmon.stores.sealing import unseal
from ragmon.stores.sqlite import migration, schema
from ragmon.stores.sqlite.store import FILE, SqliteStore
from ragmon.stores.sqlite.summaries import TABLES
from tests.support.paths import DATA

BEFORE = DATA / "stores" / "format2.sqlite.zst"  # five batches, feedback, a snapshot
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def old(tmp_path):
    """A directory with a store as the last release of format 2 wrote it."""
    with BEFORE.open("rb") as packed, (tmp_path / FILE).open("wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    return tmp_path


def content(path):
    """Every row of the tables that both formats have, and the format."""
    db = sqlite3.connect(path)
    try:
        tables = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name not in {"quarantine", "mapping", "forgotten", "sqlite_sequence"}
        ]
        rows = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in sorted(tables)}
        return db.execute("PRAGMA user_version").fetchone()[0], rows
    finally:
        db.close()


def shape(path):
    """The tables and indexes, and their columns."""
    db = sqlite3.connect(path)
    try:
        names = db.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        return {
            name: [row[1:] for row in db.execute(f"PRAGMA table_info({name})")]
            for (name,) in names.fetchall()
        }
    finally:
        db.close()


def test_a_store_of_format_2_opens_with_all_it_held(old):
    assert content(old / FILE)[0] == 2
    before = content(old / FILE)[1]
    store = SqliteStore(old)
    assert store.shard.next_sequence == 10
    assert [store.shard.find(store.shard.hash(name)) for name in ("a1", "b1", "a5", "later")] == [
        0,
        1,
        8,
        None,
    ]
    assert [bool(store.shard.record(at)) for at in range(11)] == [True] * 10 + [False]
    assert set(store.shard.amendments(range(10))) == {0}
    assert store.shard.waiting_count() == 1
    positions, totals, buckets = store.state.load_windows()
    assert (positions[0].sequence, bool(totals), len(list(buckets))) == (10, True, 4)
    assert store.migration == (2, 3, old / f"{FILE}.format2.bak")
    store.close()
    after = dict(content(old / FILE)[1])
    assert [after.pop(table) for table in TABLES] == [[], []]  # summaries are made by and by
    names = [name for name, _ in after["meta"]]
    assert names == ["next_sequence", "position", "seed", "totals"]
    after["meta"] = [(name, unseal(value, "meta", name)) for name, value in after["meta"]]
    before["meta"] = [
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in before["meta"]
    ]
    assert after == before


def test_the_shape_is_that_of_a_new_store(old, tmp_path):
    SqliteStore(old).close()
    (tmp_path / "new").mkdir()
    SqliteStore(tmp_path / "new").close()
    new = shape(tmp_path / "new" / FILE)
    assert {"quarantine", "mapping", "forgotten"} <= new.keys()
    migrated = shape(old / FILE)
    assert {name: migrated[name] for name in new} == new


def test_the_backup_is_the_store_as_it_was(old):
    before = content(old / FILE)
    SqliteStore(old).close()
    backup = old / f"{FILE}.format2.bak"
    assert content(backup) == before
    assert backup.stat().st_mode & 0o777 == 0o600
    assert sorted(old.glob(f"{FILE}*")) == [old / FILE, backup]


def test_the_second_start_changes_nothing(old):
    SqliteStore(old).close()
    (old / f"{FILE}.format2.bak").unlink()
    again = SqliteStore(old)
    assert again.migration is None
    again.close()
    assert list(old.glob(f"{FILE}*")) == [old / FILE]


def test_without_space_for_the_backup_nothing_changes(old, monkeypatch):
    before = content(old / FILE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(100 << 30, 0, 60 << 20))
    with pytest.raises(StoreFullError, match=r"takes 64 MiB, 60 MiB are free. Free that much"):
        SqliteStore(old)
    assert content(old / FILE) == before
    assert [path.name for path in old.iterdir()] == [FILE]


def test_a_step_that_fails_changes_nothing_and_is_tried_again(old, monkeypatch):
    before = content(old / FILE)

    def half(db):
        db.execute("CREATE TABLE quarantine (number INTEGER PRIMARY KEY)")
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(migration, "MIGRATIONS", MappingProxyType({2: half}))
        with pytest.raises(StoreError, match="disk I/O error"):
            SqliteStore(old)
    assert content(old / FILE) == before
    SqliteStore(old).close()
    assert content(old / FILE)[0] == schema.FORMAT
    assert content(old / f"{FILE}.format2.bak") == before


def test_formats_that_are_too_old_are_refused_and_left_alone(old):
    with sqlite3.connect(old / FILE) as db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(StoreError, match=r"store format 1, this ragmon reads 2 to 3\. Use"):
        SqliteStore(old)
    assert content(old / FILE)[0] == 1
    assert [path.name for path in old.iterdir()] == [FILE]


def test_every_format_from_the_first_on_has_its_step():
    assert sorted(schema.MIGRATIONS) == list(range(min(schema.MIGRATIONS), schema.FORMAT))
