"""`ragmon migrate` on both kinds of store."""

import json
import sqlite3

import pytest
import zstandard

from ragmon.cli import main
from ragmon.stores import CHANGING, COPYING, sqlite
from ragmon.stores.sqlite.schema import FORMAT
from ragmon.stores.sqlite.store import FILE
from tests.support.paths import DATA
from tests.support.postgres import new_schema, shared_server

BEFORE = DATA / "stores" / "format2.sqlite.zst"


@pytest.fixture
def old(tmp_path):
    """A data directory with a store of format 2."""
    with BEFORE.open("rb") as packed, (tmp_path / FILE).open("wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    return tmp_path


def version(path):
    db = sqlite3.connect(path)
    try:
        return db.execute("PRAGMA user_version").fetchone()[0]
    finally:
        db.close()


def result(capsys, *words):
    status = main(["migrate", "--json", *words])
    return status, json.loads(capsys.readouterr().out)


def test_check_says_that_an_older_store_would_be_changed_and_changes_nothing(old, capsys):
    status, said = result(capsys, "--check", "--data_dir", str(old))
    assert status == 1
    assert said == {"before": 2, "format": 2, "current": FORMAT, "backup": None}
    assert version(old / FILE) == 2


def test_an_older_store_is_brought_up_to_date_beside_a_copy(old, capsys):
    status, said = result(capsys, "--data_dir", str(old))
    assert status == 0
    assert (said["before"], said["format"]) == (2, FORMAT)
    assert version(old / FILE) == FORMAT
    assert version(said["backup"]) == 2
    assert main(["migrate", "--check", "--data_dir", str(old)]) == 0
    assert "as this ragmon needs it" in capsys.readouterr().out


def test_a_migration_tells_how_much_of_the_copy_and_of_the_steps_is_done(old):
    said = []
    done = sqlite.migrate(sqlite.Options(), old, lambda *stage: said.append(stage))
    copied = [(part, of) for stage, part, of in said if stage == COPYING]
    steps = [(part, of) for stage, part, of in said if stage == CHANGING]
    assert copied == sorted(copied)
    assert copied[-1] == (copied[-1][1], done.backup.stat().st_size)
    assert steps == [(step, FORMAT - 2) for step in range(FORMAT - 2)]
    assert sqlite.migrate(sqlite.Options(), old) is None


def test_a_store_of_the_future_is_refused(old, capsys):
    db = sqlite3.connect(old / FILE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    for words in ((), ("--check",)):
        assert main(["migrate", *words, "--data_dir", str(old)]) == 2
        assert "store format 99" in capsys.readouterr().err


def test_a_file_that_is_no_store_is_refused(tmp_path, capsys):
    (tmp_path / FILE).write_bytes(b"no database at all, but long enough to be looked at" * 20)
    assert main(["migrate", "--check", "--data_dir", str(tmp_path)]) == 2
    assert "not a database" in capsys.readouterr().err


def test_tables_are_made_in_a_database(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DSN_OF_TEST", shared_server().url())
    store = f"{{kind: postgresql, dsn_env: DSN_OF_TEST, schema_name: {new_schema()}}}"
    words = ("--store", store, "--data_dir", str(tmp_path))
    status, said = result(capsys, "--check", *words)
    assert status == 1
    assert said["format"] is None
    status, said = result(capsys, *words)
    assert status == 0
    assert said["before"] is None
    assert said["format"] == said["current"]
    assert result(capsys, "--check", *words)[0] == 0
    assert main(["migrate", "--check", *words]) == 0
    assert "as this ragmon needs it" in capsys.readouterr().out
