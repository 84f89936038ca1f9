"""Silences from the command line to the daemon and back, and what the API refuses."""

import json

import pytest

from ragmon.cli import main
from tests.support.daemons import running
from tests.support.http import PROBLEM

ENDLESS = b"""{"duration": "1h",
    "matchers": [{"name": "pipeline", "value": "a{99999}", "regex": true}]}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("silences") / "data") as site:
        yield site


def ragmon(capsys, site, *words: str):
    status = main(["silence", *words, "--url", site.url])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_silence_is_added_listed_and_deleted(capsys, site):
    status, out, _ = ragmon(
        capsys, site, "add", "alertname=RagmonHitRate", "pipeline=~docs.*", "--for", "30m",
        "--comment", "reindexing", "--json",
    )  # fmt: skip
    assert status == 0
    kept = json.loads(out[out.index("{\n") :])  # the daemon logs to the same stream
    assert kept["ends_at"] - kept["starts_at"] == 1_800
    assert [each["value"] for each in kept["matchers"]] == ["RagmonHitRate", "docs.*"]
    _, out, _ = ragmon(capsys, site, "list", "--json")
    assert [(each["id"], each["state"]) for each in json.loads(out[out.index("[\n") :])] == [
        (kept["id"], "active")
    ]
    _, out, _ = ragmon(capsys, site, "list")
    assert "active" in out
    assert ragmon(capsys, site, "delete", kept["id"])[0] == 0
    _, out, _ = ragmon(capsys, site, "list")
    assert out.endswith("There are no silences.\n")


def test_a_list_shows_conditions_and_comments_as_they_were_written(capsys, site, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    added = ragmon(
        capsys, site, "add", "pipeline=~[a-z]+", "--comment", "[prod] the :key: is new", "--json"
    )
    _, out, _ = ragmon(capsys, site, "list")
    assert "pipeline=~[a-z]+" in out
    assert "[prod] the :key: is new" in out
    kept = json.loads(added[1][added[1].index("{\n") :])
    assert ragmon(capsys, site, "delete", kept["id"])[0] == 0


def test_an_id_stays_whole_in_a_narrow_terminal(capsys, site, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, added, _ = ragmon(capsys, site, "add", "pipeline=docs", "--json")
    kept = json.loads(added[added.index("{\n") :])
    _, out, _ = ragmon(capsys, site, "list")
    assert kept["id"] in out
    assert ragmon(capsys, site, "delete", kept["id"])[0] == 0


def test_somebody_without_a_name_may_silence(capsys, site, monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr("getpass.getuser", nobody)
    status, out, _ = ragmon(capsys, site, "add", "metric=hit", "--json")
    kept = json.loads(out[out.index("{\n") :])
    assert (status, kept["created_by"]) == (0, "")
    assert ragmon(capsys, site, "delete", kept["id"])[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["add"], "silence add needs a condition", id="no condition"),
        pytest.param(["add", "docs"], "'docs' is not a condition", id="half a condition"),
        pytest.param(["add", "alert=RagmonHitRate"], "no alert has a label 'alert'", id="no label"),
        pytest.param(["delete"], "silence delete needs an ID", id="no id"),
        pytest.param(["delete"], "`ragmon silence list` shows the ids", id="where ids are shown"),
        pytest.param(["list", "x"], "silence list takes no arguments", id="too much"),
        pytest.param(["delete", "nobody"], "there is no silence 'nobody'", id="unknown"),
        pytest.param(["add", "pipeline=~("], "'(' is no regular expression", id="no expression"),
        pytest.param(
            ["add", "pipeline=b", "--for", "soon"], "'soon' is not a duration", id="no time"
        ),
        pytest.param(
            ["add", "pipeline=b", "--for", "900d"], "not between 1s and 366d", id="too long"
        ),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, site, words, said):
    status, _, err = ragmon(capsys, site, *words)
    assert status == 2
    assert said in err


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("GET", "/v1/alerts?state=closed", None, 400, id="an unknown state"),
        pytest.param("GET", "/v1/alerts?limit=0", None, 400, id="no alerts"),
        pytest.param("GET", "/v1/alerts/nothing", None, 404, id="an unknown alert"),
        pytest.param("POST", "/v1/silences", b'{"matchers": []}', 400, id="a silence of nothing"),
        pytest.param("POST", "/v1/silences", b"\xff", 400, id="no text"),
        pytest.param("POST", "/v1/silences", ENDLESS, 400, id="an expression that nothing repeats"),
        pytest.param("DELETE", "/v1/silences/nothing", None, 404, id="an unknown silence"),
        pytest.param("PUT", "/v1/alerts", b"", 405, id="another method"),
    ],
)
def test_refusals_are_problems(site, method, path, body, status):
    answer = site.request(method, path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, PROBLEM)
    assert answer.json["detail"]


def test_silences_are_for_administrators(tmp_path):
    tokens = [
        {"name": "reader", "scopes": ["read"], "token": "r"},
        {"name": "chief", "scopes": ["admin"], "token": "a"},
    ]
    body = b'{"matchers": [{"name": "alertname", "value": "x"}], "duration": "1h"}'
    with running(tmp_path / "data", auth__tokens=tokens) as site:
        reader, chief = site.with_token("r"), site.with_token("a")
        assert site.get("/v1/alerts").status == 401
        assert reader.get("/v1/alerts").json == {"judged_until": None, "alerts": []}
        assert reader.request("POST", "/v1/silences", body).status == 403
        kept = chief.request("POST", "/v1/silences", body)
        assert kept.status == 201
        path = f"/v1/silences/{kept.json['id']}"
        assert reader.request("DELETE", path).status == 403
        assert chief.request("DELETE", path).status == 200
