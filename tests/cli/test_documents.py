"""``ragmon documents``: tables, JSON, CSV, and documents that are never retrieved."""

import csv
import io

import pytest

from ragmon.cli import main
from ragmon.clock import SystemClock
from tests.support.daemons import json_among_logs


@pytest.fixture(scope="module")
def site(daemon):
    now = SystemClock().now() - 600.0
    batch = [
        {
            "query_id": f"document-{at}",
            "pipeline": "kb",
            "timestamp": now + at,
            "chunks": [{"id": "=kb-1", "source": "kb.md"}, {"id": f"kb-{2 + at % 2}"}],
            "feedback": "negative" if at % 3 == 0 else "positive",
        }
        for at in range(30)
    ]
    assert daemon.post("/v1/queries", batch).json["accepted"] == 30
    return daemon


def ask(site, *flags):
    return main(["documents", "--url", site.url, "--pipeline", "kb", *flags])


@pytest.fixture
def ids(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("=kb-1\nkb-2\nkb-3\n\nkb-4\n kb-5 \nkb-4\n", encoding="utf-8")
    return str(path)


def test_the_table_names_documents_with_their_figures(site, capsys):
    assert ask(site) == 0
    out = capsys.readouterr().out
    assert "3 documents in 30 queries; 30 answers rated, 0 judged" in out
    assert "kb-2" in out
    assert "33.3 %" in out


def test_json_is_the_answer_of_the_api(site, capsys):
    assert ask(site, "--json", "--limit", "2") == 0
    report = json_among_logs(capsys.readouterr().out)
    assert [row["id"] for row in report["rows"]] == ["=kb-1", "kb-2"]
    assert "dead" not in report
    assert "retrieved_ids" not in report


def test_live_lists_need_no_store(site, capsys):
    assert ask(site, "--live", "--json") == 0
    (kb,) = json_among_logs(capsys.readouterr().out)["pipelines"]
    assert (kb["queries"], kb["documents"][0]["id"]) == (30, "=kb-1")
    assert ask(site, "--live") == 0
    out = capsys.readouterr().out
    assert "kb: 30 queries" in out
    assert "30 – 30" in out
    assert ask(site, "--live", "--csv") == 2
    assert "--live goes neither with --csv" in capsys.readouterr().err


def test_no_id_controls_the_terminal(site, capsys):
    record = {"query_id": "esc", "pipeline": "esc", "chunks": [{"id": "a\x1b[2Jb"}]}
    site.post("/v1/queries", [record])
    for flags in ([], ["--csv"], ["--json"]):
        assert main(["documents", "--url", site.url, "--pipeline", "esc", *flags]) == 0
        out = capsys.readouterr().out
        assert "[2Jb" in out
        assert "\x1b[2J" not in out


def test_documents_that_were_never_retrieved_are_dead(site, capsys, ids):
    assert ask(site, "--all", ids, "--json") == 0
    assert json_among_logs(capsys.readouterr().out)["dead"] == ["kb-4", "kb-5"]
    assert ask(site, "--all", ids) == 0
    assert "2 documents never retrieved" in capsys.readouterr().out


def test_csv_holds_the_documents_and_the_dead_and_nothing_a_spreadsheet_computes(site, capsys, ids):
    assert ask(site, "--csv", "--all", ids) == 0
    text = capsys.readouterr().out
    rows = [*csv.DictReader(io.StringIO(text[text.index("pipeline,id") :]))]
    assert [row["id"] for row in rows] == ["'=kb-1", "kb-2", "kb-3", "kb-4", "kb-5"]
    assert rows[0]["retrieved"] == "30"
    assert rows[0]["disliked"].startswith("0.33")
    assert [row["findings"] for row in rows[3:]] == ["dead", "dead"]


def test_sources_can_be_counted_instead(site, capsys):
    assert ask(site, "--by", "source", "--json") == 0
    report = json_among_logs(capsys.readouterr().out)
    assert [row["id"] for row in report["rows"]] == ["kb.md"]
    assert report["without_source"] == 30


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--all", "/nowhere/ids.txt"], "cannot read /nowhere/ids.txt"),
        (["--since", "soon"], "neither unix seconds"),
        (["--k", "0"], "not a number from 1 to 100"),
    ],
)
def test_what_cannot_be_asked_is_refused(site, capsys, flags, said):
    assert ask(site, *flags) != 0
    assert said in capsys.readouterr().err
