"""Forgetting from the command line: counted, erased, waited for, and proved."""

import pytest

from ragmon.cli import main
from tests.support.daemons import json_among_logs, running


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("forget") / "data") as site:
        yield site


def ragmon(capsys, site, *words: str):
    status = main(["forget", *words, "--url", site.url])
    said = capsys.readouterr()
    return status, said.out, said.err


def send(site, user, *ids):
    site.post("/v1/queries", [{"query_id": each, "user_id": user, "query": "x"} for each in ids])


def test_a_dry_run_counts_and_changes_nothing(capsys, site):
    send(site, "dry", "d1", "d2")
    status, out, _ = ragmon(capsys, site, "--user", "dry", "--dry-run")
    assert status == 0
    assert "Would be erased of user dry" in out
    assert "2 queries" in out
    assert site.get("/v1/queries/d1").status == 200


def test_it_is_erased_when_the_command_ends(capsys, site):
    send(site, "u/ 1", "e1", "e2", "e3")
    status, out, _ = ragmon(capsys, site, "--user", "u/ 1", "--json")
    receipt = json_among_logs(out)
    assert (status, receipt["state"], receipt["removed"]["records"]) == (0, "done", 3)
    assert site.get("/v1/queries/e1").status == 404


def test_one_pipeline_alone(capsys, site):
    send(site, "p", "p1")
    _, out, _ = ragmon(capsys, site, "--user", "p", "--pipeline", "other")
    assert "0 queries" in out
    assert "in pipeline other" in out
    assert "backups and volume snapshots" in out


def test_nobody_is_named(capsys, site):
    with pytest.raises(SystemExit):
        ragmon(capsys, site)
    assert "one of the arguments --user --session is required" in capsys.readouterr().err


def test_an_empty_id_is_refused(capsys, site):
    status, _, err = ragmon(capsys, site, "--session", "")
    assert status == 2
    assert "404" in err or "400" in err or "405" in err
