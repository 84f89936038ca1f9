"""Commands that read a store, or copy it, where it is in PostgreSQL."""

import json

import pytest

from ragmon.cli import main
from tests.support.daemons import running
from tests.support.postgres import new_schema, shared_server

QUERIES = [
    {"query_id": f"q{at}", "pipeline": "docs", "query": f"question {at}", "chunks": []}
    for at in range(30)
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A daemon that runs on PostgreSQL, and the flags of its store."""
    store = f"{{kind: postgresql, dsn: '{shared_server().url()}', schema_name: {new_schema()}}}"
    data_dir = tmp_path_factory.mktemp("data")
    with running(data_dir / "data", store=store) as site:
        assert site.post("/v1/queries", QUERIES).json["accepted"] == len(QUERIES)
        yield site, ("--store", store, "--data_dir", str(data_dir / "none"))


def test_queries_are_exported_beside_the_daemon(site, tmp_path):
    _, flags = site
    target = tmp_path / "queries.jsonl"
    assert main(["export", str(target), *flags]) == 0
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert {line["record"]["query_id"] for line in lines} == {one["query_id"] for one in QUERIES}


def test_a_backtest_reads_the_stored_queries(site, tmp_path, capsys):
    _, (_, store, *_) = site
    config = tmp_path / "ragmon.yaml"
    config.write_text(f"store: {store}\n", encoding="utf-8")
    assert main(["backtest", "--config", str(config)]) == 0
    assert "30" in capsys.readouterr().out


def test_series_are_counted_for_the_stored_traffic(site, capsys):
    _, flags = site
    assert main(["check-config", "--json", *flags]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["series"]["pipelines"] == 1


@pytest.mark.parametrize("command", ["backup", "restore", "verify"])
def test_what_copies_a_file_says_what_to_use_instead(site, tmp_path, capsys, command):
    _, flags = site
    words = {"backup": [str(tmp_path / "b")], "restore": [str(tmp_path)], "verify": []}[command]
    assert main([command, *words, *flags]) == 2
    said = capsys.readouterr().err
    assert f"`ragmon {command}` is for the embedded store" in said
    assert "pg_dump" in said


@pytest.mark.parametrize("command", ["export", "backtest"])
def test_a_schema_without_a_store_is_refused_and_not_made(tmp_path, capsys, command):
    schema = new_schema()
    store = f"{{kind: postgresql, dsn: '{shared_server().url()}', schema_name: {schema}}}"
    config = tmp_path / "ragmon.yaml"
    config.write_text(f"store: {store}\n", encoding="utf-8")
    words = [str(tmp_path / "out.jsonl")] if command == "export" else []
    assert main([command, *words, "--config", str(config)]) == 2
    assert f"there is no store in schema {schema}" in capsys.readouterr().err
    assert not shared_server().execute("SELECT to_regnamespace(%s)", (schema,))[0][0]
