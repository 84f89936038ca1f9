"""Baselines of a running daemon: set from its traffic, promoted, compared with, kept."""

import json

import pytest

from ragmon.cli import main
from ragmon.clock import SystemClock
from tests.support.daemons import json_among_logs, running
from tests.support.http import PROBLEM
from tests.support.wait import eventually

ADMIN = {"name": "ops", "token": "admin-token", "scopes": ["admin"]}
READER = {"name": "eyes", "token": "read-token", "scopes": ["read"]}
RUN = {
    "schema": "ragmon/evaluation/1",
    "name": "nightly",
    "created_at": 1.0,
    "metrics": [{"name": "hit@5", "mean": 0.8, "samples": 1}],
    "cases": [{"case_id": "a"}],
}


def traffic(hours: float) -> list[dict[str, object]]:
    """Queries until now, one in ten of them without documents."""
    now = SystemClock().now()
    return [
        {
            "query_id": f"q{at}",
            "timestamp": now - 20.0 * at - 1.0,
            "pipeline": "docs",
            "chunks": [{"id": "a"}] if at % 10 else [],
        }
        for at in range(int(hours * 180))
    ]


def put(site, name, **wanted):
    return site.request("PUT", f"/v1/baselines/{name}", json.dumps(wanted).encode())


def judged(site):
    """Wait until the detectors have seen the traffic."""

    def kept():
        answer = put(site, "main", **{"from": "3h"})
        return answer if answer.status == 201 and answer.json["samples"] > 300 else None

    return eventually(kept, "the traffic is judged", 30)


def active(site):
    return site.get("/v1/baselines").json["active"]


def test_from_set_to_deleted(tmp_path, monkeypatch, capsys):
    with running(tmp_path / "data", auth__tokens=[ADMIN, READER]) as opened:
        site, reader = opened.with_token("admin-token"), opened.with_token("read-token")
        assert site.post("/v1/queries", traffic(3.0)).status == 200
        kept = judged(site).json
        assert (kept["kind"], kept["promoted"], kept["name"]) == ("traffic", False, "main")
        assert active(site) is None
        version = kept["version"]
        assert site.post(f"/v1/baselines/main/promote?version={version}", b"").json["promoted"]
        assert active(reader)["name"].startswith("main")
        shown = reader.get("/v1/baselines/main").json
        (zero,) = [
            each
            for each in shown["levels"]
            if each["metric"] == "zero_result" and not each["dimension"]
        ]
        assert zero["level"] == pytest.approx(0.1, abs=0.02)
        page = reader.get("/metrics").text
        assert 'ragmon_baseline_info{baseline="main' in page
        assert 'ragmon_baseline_ratio{metric="zero_result",pipeline="docs"} 0.' in page
        monkeypatch.setenv("RAGMON_API_TOKEN", "admin-token")
        assert main(["baseline", "list", "--url", opened.url, "--json"]) == 0
        listed = json_among_logs(capsys.readouterr().out)
        assert listed == reader.get("/v1/baselines").json
    with running(tmp_path / "data", auth__tokens=[ADMIN]) as opened:
        site = opened.with_token("admin-token")
        eventually(lambda: active(site), "the promoted baseline counts again")
        assert site.request("DELETE", "/v1/baselines/main").json["deleted"] >= 1
        assert active(site) is None


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("live") / "data", auth__tokens=[ADMIN, READER]) as opened:
        yield opened


@pytest.mark.parametrize(
    ("token", "method", "path", "body", "status", "says"),
    [
        ("", "GET", "/v1/baselines", b"", 401, "token"),
        ("read-token", "PUT", "/v1/baselines/a", b"{}", 403, "lacks scope 'admin'"),
        ("read-token", "DELETE", "/v1/baselines/a", b"", 403, "lacks scope 'admin'"),
        ("read-token", "POST", "/v1/baselines/a/promote", b"", 403, "lacks scope 'admin'"),
        ("admin-token", "GET", "/v1/baselines/a", b"", 404, "no baseline 'a'"),
        ("admin-token", "GET", "/v1/baselines/a?version=x", b"", 400, "is no number"),
        ("admin-token", "DELETE", "/v1/baselines/a?version=3", b"", 404, "version 3 of baseline"),
        ("admin-token", "POST", "/v1/baselines/a/promote", b"", 404, "no baseline 'a'"),
        ("admin-token", "POST", "/v1/baselines/a", b"", 405, "Method Not Allowed"),
        ("admin-token", "PUT", "/v1/baselines/a", b"{", 400, "truncated"),
        ("admin-token", "PUT", "/v1/baselines/a", b'{"form": "7d"}', 400, "form"),
        ("admin-token", "PUT", "/v1/baselines/a", b"{}", 400, "exactly one of from and run"),
        ("admin-token", "PUT", "/v1/baselines/a", b'{"from": "x"}', 400, "not a duration"),
        ("admin-token", "PUT", "/v1/baselines/a", b'{"from": "7d"}', 400, "no traffic"),
        ("admin-token", "PUT", "/v1/baselines/-", b'{"from": "7d"}', 400, "name: '-'"),
        ("admin-token", "PUT", "/v1/baselines/a", b'{"run": {}}', 400, "run: is no evaluation"),
    ],
)
def test_what_is_refused_is_a_problem(site, token, method, path, body, status, says):
    answer = site.with_token(token).request(method, path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, PROBLEM)
    assert says in answer.json["detail"]


def test_a_golden_run_goes_in_and_out(site):
    admin = site.with_token("admin-token")
    kept = put(admin, "golden", run=RUN, promote=True, by="ci").json
    assert (kept["kind"], kept["promoted"], kept["created_by"]) == ("golden", True, "ci")
    assert admin.get("/v1/baselines/golden").json["run"] == RUN
    assert active(admin) is None  # it is never compared with traffic


def test_who_shows_no_token_is_told_how(site, monkeypatch, capsys):
    monkeypatch.delenv("RAGMON_API_TOKEN", raising=False)
    assert main(["baseline", "list", "--url", site.url]) == 4
    assert "Pass a token with --token-file or RAGMON_API_TOKEN" in capsys.readouterr().err


def test_what_is_no_address_is_said_to_be_none(capsys):
    assert main(["report", "--url", "ragmon:8321"]) == 2
    said = capsys.readouterr().err
    assert "'ragmon:8321' is not a URL. Write for example http://127.0.0.1:8321" in said


def test_a_name_leads_nowhere_else(site, monkeypatch, capsys):
    monkeypatch.setenv("RAGMON_API_TOKEN", "admin-token")
    assert main(["baseline", "show", "../report", "--url", site.url]) == 2
    assert "answered 404" in capsys.readouterr().err
