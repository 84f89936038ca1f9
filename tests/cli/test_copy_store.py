"""`ragmon copy-store`: a daemon goes on in PostgreSQL with what it had in a directory, and back."""

import pytest

from ragmon.cli import main
from ragmon.stores import copying
from ragmon.stores.sqlite.store import FILE
from tests.support.daemons import json_among_logs, running
from tests.support.postgres import new_schema, shared_server

QUERIES = [{"query_id": f"q{at}", "query": "how?", "chunks": []} for at in range(40)]
COUNTERS = ("ragmon_queries_total", "ragmon_zero_result_queries_total", "ragmon_feedback_total")


@pytest.fixture
def filled(tmp_path):
    """The data directory of a daemon that has ended, and its counters."""
    place = tmp_path / "data"
    with running(place) as site:
        assert site.post("/v1/queries", QUERIES).json["accepted"] == len(QUERIES)
        feedback = [{"query_id": "q3", "rating": "negative"}, {"query_id": "late", "rating": 1}]
        assert site.post("/v1/feedback", feedback).status == 200
        silence = {"matchers": [{"name": "pipeline", "value": "docs"}], "duration": "2h"}
        assert site.post("/v1/silences", silence).status in {200, 201}
        counters = {name: site.total(name) for name in COUNTERS}
    return place, counters


def check(site, counters):
    assert {name: site.total(name) for name in COUNTERS} == counters
    assert site.get("/v1/queries/q3").json["feedback"]["rating"] == -1.0
    assert len(site.get("/v1/silences").json["silences"]) == 1
    assert site.post("/v1/queries", QUERIES[:7]).json["duplicates"] == 7


def test_a_daemon_goes_on_in_the_other_store_and_back(tmp_path, capsys, filled):
    place, counters = filled
    schema = new_schema()
    file = tmp_path / "dsn"
    file.write_text(shared_server().url())
    words = ("--schema", schema, "--json", "--quiet")
    capsys.readouterr()
    assert main(["copy-store", str(place), "--to", str(file), *words]) == 0
    tables = json_among_logs(capsys.readouterr().out)["tables"]
    assert tables["waiting"] == tables["silences"] == tables["amendments"] == 1
    assert tables["windows"] > 0
    store = f"{{kind: postgresql, dsn_file: '{file}', schema_name: {schema}}}"
    with running(tmp_path / "b", store=store) as site:
        check(site, counters)
        assert site.post("/v1/queries", [{"query_id": "late"}]).status == 200
        assert site.get("/v1/queries/late").json["feedback"] is not None
    back = tmp_path / "back"
    assert main(["copy-store", shared_server().url(), "--to", str(back), *words]) == 0
    capsys.readouterr()
    counters = {**counters, "ragmon_queries_total": counters["ragmon_queries_total"] + 1}
    counters["ragmon_feedback_total"] += 1
    with running(back) as site:
        check(site, counters)


def test_a_store_in_use_is_refused_and_not_touched(tmp_path, capsys, filled):
    place, _ = filled
    with running(place):
        assert main(["copy-store", str(place), "--to", str(tmp_path / "x")]) == 2
    assert "in use by another ragmon" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_directory_without_a_store_is_refused(tmp_path, capsys):
    assert main(["copy-store", str(tmp_path / "none"), "--to", str(tmp_path / "x")]) == 2
    assert f"{FILE} does not exist" in capsys.readouterr().err


def test_an_unfinished_copy_is_not_served(tmp_path, capsys, filled, monkeypatch):
    place, counters = filled
    target = tmp_path / "target"
    monkeypatch.setattr(copying.StoreCopy, "_compare", _interrupted)
    assert main(["copy-store", str(place), "--to", str(target)]) == 130
    assert main(["serve", "--data_dir", str(target), "--port", "0"]) == 2
    assert "copy of" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(["copy-store", str(place), "--to", str(target)]) == 0
    assert "Every row is the same" in capsys.readouterr().out
    with running(target) as site:
        check(site, counters)


def _interrupted(*_):
    raise KeyboardInterrupt
