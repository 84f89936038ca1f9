"""The source ``sql`` on SQLite: each row once, across ties, refusals, restarts and kills."""

import re
import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pydantic import ValidationError

from ragmon.errors import OverloadedError, RemoteError, SettingsError
from ragmon.plugins import resolve
from ragmon.sources import SourceContext, sql
from ragmon.sources.sql import Options, SqlSource, pack, unpack
from tests.support.daemons import running
from tests.support.jsonl import Disk, Killed
from tests.support.modules import module
from tests.support.wait import eventually

QUERY = "SELECT id, question, tenant FROM logs"
MAPPING = {"query_id": "to_string(id)", "query": "question", "tags.tenant": "tenant"}


class Database:
    """A table, and a source that reads it and can be restarted."""

    def __init__(self, folder, **options):
        module("sqlalchemy")
        self.path = folder / "logs.db"
        self.disk = Disk()
        self.db = sqlite3.connect(self.path)
        self.db.execute("CREATE TABLE logs (id INTEGER, question TEXT, tenant TEXT)")
        given = {"name": "logs", "url": self.url, "query": QUERY, "cursor": "id", "batch": 3}
        self._options = Options(**given | {"mapping": MAPPING} | options)
        self.restart()

    @property
    def url(self):
        return f"sqlite:///{self.path}"

    def restart(self):
        self.source = SqlSource(
            self._options,
            SourceContext(
                sink=self.disk,
                counters=self.disk,
                clock=self.disk.clock,
                offset=self.disk.offsets.get,
                retention_s=7 * 86_400,
                max_skew_s=300,
            ),
        )

    def add(self, *ids, tenant="acme"):
        self.db.executemany(
            "INSERT INTO logs VALUES (?, ?, ?)", [(each, f"q{each}", tenant) for each in ids]
        )
        self.db.commit()

    def read(self):
        while self.source.step():
            pass
        return self.disk.records


@pytest.fixture
def table(tmp_path):
    database = Database(tmp_path)
    yield database
    database.source.stop()
    database.db.close()


def test_rows_are_read_as_they_come(table):
    assert table.read() == []
    table.add(*range(1, 9))
    assert table.read() == [str(at) for at in range(1, 9)]
    assert table.read() == [str(at) for at in range(1, 9)]
    table.restart()
    table.add(9)
    assert table.read()[-2:] == ["8", "9"]
    assert table.disk.counted == {"accepted": 9, "duplicates": 0}


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([1, 2, 2, 2, 2, 3], id="ties across the end of a batch"),
        pytest.param([5] * 10, id="nothing but ties, more than a batch"),
        pytest.param([1, 1, 1, 2, 2, 2, 3, 3, 3], id="ties as long as a batch"),
    ],
)
def test_rows_with_the_same_value_are_read_together(table, ids):
    table.add(*ids)
    assert table.read() == [str(each) for each in ids]


def test_rows_without_a_value_are_left_out(table):
    table.add(1, None, 2)
    assert table.read() == ["1", "2"]


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_kill_neither_repeats_nor_skips_a_row(table, instant):
    table.add(*range(1, 41))
    for _ in range(4):
        table.disk.killed = instant
        with pytest.raises(Killed):
            table.source.step()
        table.disk.killed = ""
        table.restart()
        table.source.step()
    assert table.read() == [str(at) for at in range(1, 41)]


def test_a_full_queue_is_tried_again(table):
    table.disk.trouble = [OverloadedError("full", retry_after_s=1.0)]
    table.add(1)
    assert table.read() == ["1"]


def test_bad_rows_are_counted_and_the_rest_is_read(table):
    table.add(1)
    table.add(2, tenant="x" * 300)
    table.add(3, tenant=None)
    assert table.read() == ["1", "3"]
    assert table.disk.counted == {
        "accepted": 2, "duplicates": 0, "invalid": 1, "no tags.tenant": 1,
    }  # fmt: skip
    assert [item.name for item in table.disk.quarantined] == ["sql:logs, row 2 since the start"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({"query": "SELECT 1 FROM nowhere"}, "no such table: nowhere", id="a table"),
        pytest.param({"cursor": "number"}, "no such column", id="a column"),
    ],
)
def test_what_the_database_refuses_is_told(tmp_path, options, says):
    database = Database(tmp_path, **options)
    database.add(1)
    with pytest.raises(RemoteError, match=says):
        database.source.step()
    database.db.close()


@pytest.mark.parametrize(
    "value",
    [17, 2.5, "2026", Decimal("1.10"), date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC)],
)
def test_a_value_outlives_a_restart(value):
    assert unpack(pack(value)) == value
    assert type(unpack(pack(value))) is type(value)


def test_a_value_that_cannot_be_compared():
    with pytest.raises(RemoteError, match="a bytes"):
        pack(b"x")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({"url": None}, "exactly one of url", id="no url"),
        pytest.param({"name": "a b"}, "name", id="a name"),
        pytest.param({"mapping": {"query": "a b"}}, "character 3", id="a mapping"),
    ],
)
def test_options_that_cannot_be(options, says):
    given = {"name": "logs", "url": "sqlite://", "query": QUERY, "cursor": "id"}
    with pytest.raises(ValidationError, match=says):
        Options(**given | options)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "knows no such database"),
        ("nodb://user:pa55@host/db", "knows no such database"),
        ("firebird+nodriver://user:pa55@h/d", "knows no such database"),
        ("oracle+oracledb://user:pa55@h/d", "driver oracledb is not installed"),
    ],
)
def test_a_database_that_is_not_known_stops_the_start(url, says):
    module("sqlalchemy")
    entry = {"kind": "sql", "name": "logs", "url": url, "query": QUERY, "cursor": "id"}
    plugin, options = resolve("ragmon.sources", "sources.0", entry)
    with pytest.raises(SettingsError, match=says) as refused:
        plugin.build(options, None)
    assert "pa55" not in str(refused.value)


def test_a_daemon_reads_a_table_once_across_a_restart(tmp_path):
    database = Database(tmp_path)
    database.add(*range(1, 31))
    entry = {"kind": "sql", "name": "logs", "url": database.url, "query": QUERY, "cursor": "id"}
    entry |= {"mapping": MAPPING, "poll_s": 0.05, "batch": 7}

    def stored(site):
        return site.get("/v1/queries?limit=100&until=2100-01-01").json["matches"]

    with running(tmp_path / "data", sources=[entry]) as site:
        eventually(lambda: stored(site) == 30, "all rows are stored", timeout_s=60)
    database.add(31)
    with running(tmp_path / "data", sources=[entry]) as site:
        eventually(lambda: stored(site) == 31, "the new row is stored", timeout_s=60)
        figures = site.get("/metrics").text
    assert re.search(r'ragmon_ingest_records_total{source="sql"} 1\b', figures)
    assert not re.search(r'ragmon_duplicates_total{source="sql"} [1-9]', figures)
    database.db.close()


def test_large_rows_are_asked_for_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(sql, "_MOST_BYTES", 10_000)
    table = Database(tmp_path, batch=1_000)
    table.db.executemany(
        "INSERT INTO logs VALUES (?, ?, 'a')", [(n, "x" * 2_000) for n in range(60)]
    )
    table.add(*range(60, 400))
    table.db.commit()
    asked = []
    ask = table.source._table._ask

    def counted(condition, limit):
        rows = ask(condition, limit)
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(table.source._table, "_ask", counted)
    assert table.read() == [str(n) for n in range(400)]
    assert asked[0] == 16
    assert max(asked[1:10]) <= 8
    assert max(asked) > 100


def test_too_many_rows_with_one_value_are_told(table, monkeypatch):
    monkeypatch.setattr(sql, "_MOST_ALIKE", 5)
    table.add(*[7] * 6)
    with pytest.raises(RemoteError, match="more than 5 rows have one value of id"):
        table.read()


def test_a_row_that_json_cannot_hold_costs_only_itself(table, monkeypatch):
    table.add(1, 2, 3)
    ask = table.source._table._ask

    def odd(condition, limit):
        return [
            row | ({"question": Decimal("sNaN")} if row["id"] == 2 else {})
            for row in ask(condition, limit)
        ]

    monkeypatch.setattr(table.source._table, "_ask", odd)
    assert table.read() == ["1", "3"]
    assert table.disk.counted["malformed"] == 1
