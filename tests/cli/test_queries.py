"""``ragmon queries``: the selection of ``GET /v1/queries``, as a table or as JSON."""

import pytest

from ragmon.cli import main
from ragmon.cli.exit_codes import ExitCode
from ragmon.clock import SystemClock
from tests.support.daemons import json_among_logs


@pytest.fixture(scope="module")
def site(daemon):
    now = SystemClock().now() - 60.0
    batch = [
        {
            "query_id": f"q{at}",
            "pipeline": "docs",
            "timestamp": now + at,
            "version": ["v1", "v2", ""][at % 3],
            "tags": {"tenant": "a=b" if at < 3 else "globex"},
            "latency_ms": 100 * at,
            "query": f"question\n{at}",
            **({"error": "boom"} if at == 4 else {}),
        }
        for at in range(6)
    ]
    assert daemon.post("/v1/queries", batch).json["accepted"] == 6
    return daemon


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], ["q5", "q4", "q3", "q2", "q1", "q0"], id="all, newest first"),
        pytest.param(["--version", "v2"], ["q4", "q1"], id="a version"),
        pytest.param(["--version", ""], ["q5", "q2"], id="no version"),
        pytest.param(["--tag", "tenant=a=b"], ["q2", "q1", "q0"], id="a tag"),
        pytest.param(["--tag", "tenant=a=b", "--version", "v1"], ["q0"], id="both"),
        pytest.param(["--failing", "error"], ["q4"], id="failing"),
        pytest.param(["--order", "slowest", "--limit", "2"], ["q5", "q4"], id="the slowest"),
        pytest.param(["--until", "10m"], [], id="before they came"),
        pytest.param(["--words", "QUESTION 3"], ["q3"], id="words"),
        pytest.param(["--failure-mode", "retrieval"], ["q4"], id="a failure mode"),
        pytest.param(["--user", "nobody"], [], id="a user"),
    ],
)
def test_which_queries(site, capsys, flags, expected):
    assert main(["queries", "--url", site.url, "--json", *flags]) == 0
    listed = json_among_logs(capsys.readouterr().out)["queries"]
    assert [each["record"]["query_id"] for each in listed] == expected
    assert main(["queries", "--url", site.url, *flags]) == 0
    printed = capsys.readouterr().out
    assert all(f" {name} " in printed for name in expected)
    assert ("No query fits." in printed) is not bool(expected)


def test_a_question_stays_on_its_line(site, capsys):
    assert main(["queries", "--url", site.url, "--failing", "error"]) == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if " q4 " in each]
    assert "retrieval" in line
    assert "400" in line


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(["--limit", "0"], "limit", id="out of range"),
        pytest.param(["--until", "soon"], "until", id="no time"),
    ],
)
def test_what_the_daemon_refuses_is_said(site, capsys, flags, says):
    assert main(["queries", "--url", site.url, *flags]) != 0
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["a table", "JSON"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("dcos", "there is no pipeline 'dcos'. Did you mean docs?", id="misspelt"),
        pytest.param("xyzzy", "Of these there are: docs", id="like no other"),
    ],
)
def test_a_pipeline_that_does_not_exist_is_an_error(site, capsys, name, says, form):
    assert main(["queries", "--url", site.url, "--pipeline", name, *form]) == ExitCode.UNUSABLE
    assert says in capsys.readouterr().err
    assert main(["queries", "--url", site.url, "--pipeline", "docs", "--user", "x", *form]) == 0


def test_a_tag_has_a_key_and_a_value(capsys):
    with pytest.raises(SystemExit):
        main(["queries", "--tag", "acme"])
    assert "KEY=VALUE" in capsys.readouterr().err
