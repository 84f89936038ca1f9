"""The commands: what they print, what they refuse, and how they end."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ragmon import __version__, cli
from ragmon.cli import flags, main
from ragmon.cli.commands import COMMANDS, command
from ragmon.cli.exit_codes import MEANINGS, ExitCode, code_of
from ragmon.config import load
from ragmon.config.loading import keys
from ragmon.daemon.ending import HUNG
from ragmon.errors import RemoteError, SettingsError, SinkError, StoreBusyError
from tests.support.daemons import json_among_logs, running, serve_once

pytestmark = pytest.mark.usefixtures("clean_environment")


def run(*words: str) -> int:
    """The exit status of a command, as a shell sees it."""
    try:
        return main([str(word) for word in words])
    except SystemExit as end:
        return end.code


# ----------------------------------------------------------------------------- in general


def test_the_commands_of_the_design_are_there():
    assert {"serve", "report", "check-config", "version", "replay", "demo", "backup"} <= set(
        COMMANDS
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    assert run(name, "--help") == 0
    out = capsys.readouterr().out
    assert f"usage: ragmon {name}" in out
    assert COMMANDS[name][0].islower()
    assert command(name).__doc__.split()[0] in out


def test_every_module_that_is_a_command_can_be_called():
    names = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    runnable = {name for name in names if hasattr(command(name), "run") and name != "__init__"}
    assert {command(name).__name__.rpartition(".")[2] for name in COMMANDS} == runnable
    assert list(COMMANDS) == sorted(COMMANDS)


def test_without_a_command_it_helps(capsys):
    assert run() == 0
    out = capsys.readouterr().out
    assert all(f" {name}" in out for name in COMMANDS)


def test_the_version_can_be_asked_for_as_of_other_programs(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"ragmon {__version__}\n"


def test_the_versions_as_json(capsys):
    assert run("version", "--json") == 0
    versions = json.loads(capsys.readouterr().out)
    assert set(versions) == {"ragmon", "python", "sqlite"}
    assert versions["ragmon"] == __version__


def test_a_mistyped_command_is_told_the_nearest(capsys):
    assert run("silance", "list") == 2
    assert "there is no command 'silance'; did you mean `silence`?" in capsys.readouterr().err


HEAVY = (
    "apscheduler",
    "google.protobuf",
    "jinja2",
    "numpy",
    "prometheus_client",
    "pydantic",
    "re2",
    "requests",
    "rich",
    "starlette",
    "structlog",
    "uvicorn",
    "yaml",
)
"""Packages that take longer to import than a light command may take."""


def imported(*words: str) -> list[str]:
    """The heavy packages that a command imports."""
    code = (
        "import sys; from ragmon.cli import main\n"
        "try: main(sys.argv[2:])\n"
        "except SystemExit: pass\n"
        "print('imported', *(set(sys.argv[1].split()) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, " ".join(HEAVY), *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["version"],
        ["--version"],
        ["silence", "--help"],
        ["silence", "list", "--url", "http://127.0.0.1:9"],
        ["silence", "list", "--url", "http://127.0.0.1:9", "--json"],
        ["forget", "--user", "u", "--url", "http://127.0.0.1:9", "--json"],
    ],
    ids=" ".join,
)
def test_a_light_command_imports_nothing_heavy(words):
    assert imported(*words) == []


def test_the_measure_of_imports_sees_a_heavy_one():
    assert "numpy" in imported("report", "--help")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("serv",), id="an unknown command"),
        pytest.param(("version", "--port", "1"), id="a setting for a command that takes none"),
        pytest.param(("report", "--windw", "1h"), id="an unknown flag"),
        pytest.param(("report", "--to", "http://127.0.0.1:1"), id="the start of a flag"),
        pytest.param(("backup",), id="a missing argument"),
    ],
)
def test_wrong_usage_is_2(words, capsys):
    assert run(*words) == 2
    assert "usage: ragmon" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("report", "--windw", "1h"), "did you mean `--window`?"),
        (("silence", "list", "--jsn"), "did you mean `--json`?"),
        (("version", "--zzz=1"), "unrecognized arguments: --zzz=1\n"),
        (("version", "--url=x"), "unrecognized arguments: --url=x\n"),
    ],
)
def test_a_mistyped_option_is_told_the_nearest(words, remedy, capsys):
    assert run(*words) == 2
    assert remedy in capsys.readouterr().err


def test_every_status_has_a_meaning():
    assert list(MEANINGS) == list(ExitCode)
    assert len({code.value for code in ExitCode}) == len(MEANINGS)
    assert ExitCode.FORCED == HUNG


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(SettingsError("x"), 2, id="a setting that cannot be used"),
        pytest.param(StoreBusyError("x"), 2, id="a store that another process owns"),
        pytest.param(RemoteError("x"), 3, id="no answer"),
        pytest.param(RemoteError("x", status=503), 3, id="a server that cannot now"),
        pytest.param(RemoteError("x", status=429), 3, id="a server that asks to wait"),
        pytest.param(RemoteError("x", status=302), 3, id="a redirect"),
        pytest.param(RemoteError("x", status=404), 2, id="a question that has no answer"),
        pytest.param(RemoteError("x", status=401), 4, id="no token"),
        pytest.param(RemoteError("x", status=403), 4, id="a token that may not"),
        pytest.param(SinkError("x", retryable=False, status=403), 4, id="a receiver that forbids"),
    ],
)
def test_the_status_of_an_error_is_that_of_the_table(error, code):
    assert code_of(error) == code


def test_a_defect_does_not_read_as_a_finding(monkeypatch, capsys):
    def broken(_):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(command("version"), "run", broken)
    assert run("version") == 70
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


def test_an_error_is_one_line_without_a_traceback(capsys):
    assert run("check-config", "--prot", "1") == 2
    err = capsys.readouterr().err
    assert err.startswith("ragmon: ")
    assert "did you mean `port`" in err
    assert err.count("\n") == 1


def test_python_m_ragmon_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "ragmon", "version"], capture_output=True, text=True, check=True
    )
    assert re.match(r"ragmon \d+\.\d+\.\d+ \(Python ", done.stdout)


def test_a_reader_that_stops_reading_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m ragmon check-config | head -n 1",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""


# ------------------------------------------------------------------------ settings as flags


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["--port", "1"], {"port": "1"}, id="two words"),
        pytest.param(["--port=1"], {"port": "1"}, id="one word"),
        pytest.param(["--data-dir", "a-b"], {"data_dir": "a-b"}, id="dashes in the name only"),
        pytest.param(["--retention.max-disk=5GB"], {"retention.max_disk": "5GB"}, id="a section"),
        pytest.param(["--host", "::"], {"host": "::"}, id="colons"),
        pytest.param(["--host="], {"host": ""}, id="an empty value"),
        pytest.param(["--store={a: b=c}"], {"store": "{a: b=c}"}, id="an equals sign in the value"),
        pytest.param(["--a", "--b"], {"a": "--b"}, id="a value that looks like a flag"),
    ],
)
def test_flags_are_settings(words, expected):
    assert flags.overrides(words) == expected


@pytest.mark.parametrize("words", [["--port"], ["port", "1"], ["-p", "1"], ["--port", "1", "2"]])
def test_what_is_no_flag_is_refused(words):
    with pytest.raises(SettingsError):
        flags.overrides(words)


# ---------------------------------------------------------------------------- check-config


def test_check_config_shows_every_setting_with_value_origin_and_meaning(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "ragmon.yaml").write_text("retention: {records: 3d}", encoding="utf-8")
    monkeypatch.setenv("RAGMON_EVALUATE_EVERY", "30s")
    assert run("check-config", "--port", "9000") == 0
    out = capsys.readouterr().out
    shown = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert set(keys()) - shown == set()
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert re.search(r"9000 +--port ", rows["port"])
    assert re.search(r"3d +ragmon.yaml ", rows["retention.records"])
    assert re.search(r"30s +RAGMON_EVALUATE_EVERY ", rows["evaluate_every"])
    assert re.search(r"127.0.0.1 +default ", rows["host"])
    assert re.search(r"32MiB +default ", rows["limits.body"])
    assert re.search(r"false +default ", rows["auth.protect_metrics"])
    assert "Port to listen on" in rows["port"]


@pytest.mark.parametrize("columns", ["", "80"], ids=["into a pipe", "in a small terminal"])
def test_check_config_breaks_no_name(monkeypatch, capsys, columns):
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
    assert run("check-config") == 0
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert set(keys()) - shown == set()


def test_check_config_hides_secrets(tmp_path, capsys):
    text = "auth: {tokens: [{name: app, token: do-not-print-me, scopes: [ingest]}]}"
    (tmp_path / "ragmon.yaml").write_text(text, encoding="utf-8")
    assert run("check-config") == 0
    out = capsys.readouterr().out
    assert "app" in out
    assert "do-not-print-me" not in out


def test_check_config_hides_what_a_judge_is_paid_and_asked_with(tmp_path, capsys):
    text = (
        "judge: {llm: {base_url: 'http://llm/v1', model: m, api_key: do-not-print-me,"
        " headers: {x-team: nor-me}, prices: {m: {prompt: 1, completion: 2}}}}"
    )
    (tmp_path / "ragmon.yaml").write_text(text, encoding="utf-8")
    assert run("check-config") == 0
    out = capsys.readouterr().out
    assert "http://llm/v1" in out
    assert "{m: {prompt=1, completion=2}}" in out
    assert "do-not-print-me" not in out
    assert "nor-me" not in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "{judge: {llm: {base_url: http://x}}, sampling: {dollars_per_day: 1}}",
            "judge.llm.prices",
            id="dollars without a price",
        ),
        pytest.param("host: 0.0.0.0", "allow_anonymous", id="open to the network"),
        pytest.param("store: {kind: sqlit}", "did you mean `sqlite`", id="an unknown store"),
        pytest.param("sources: [{kind: jsonl}]", "sources.0.path", id="a source without its path"),
        pytest.param(
            "probes: [{name: faq, cases: nowhere.jsonl, endpoint: 'http://rag/ask'}]",
            "nowhere.jsonl is not there",
            id="a probe without its golden set",
        ),
        pytest.param(
            "judge: {llm: {base_url: 'http://llm/v1', model: m, api_key_file: nowhere}}",
            "api_key_file: cannot read nowhere: No such file or directory",
            id="a missing key file",
        ),
        pytest.param(
            "auth: {tokens: [{name: a, token_file: nowhere}]}", "nowhere", id="a missing token file"
        ),
        pytest.param("port: [", "line 1", id="broken YAML"),
    ],
)
def test_check_config_refuses_what_serve_would(tmp_path, capsys, text, said):
    (tmp_path / "ragmon.yaml").write_text(text, encoding="utf-8")
    assert run("check-config") == 2
    assert said in capsys.readouterr().err


def test_serve_refuses_in_the_same_words(tmp_path, capsys):
    (tmp_path / "ragmon.yaml").write_text("host: 0.0.0.0", encoding="utf-8")
    assert run("check-config") == 2
    served = serve_once(tmp_path / "data")
    assert served.returncode == 2
    assert served.stderr == capsys.readouterr().err


def test_a_client_token_in_the_environment_is_no_setting():
    assert load(None, {}, {"RAGMON_API_TOKEN": "secret"}).origins == {}


# ----------------------------------------------------------------------- token and version


def test_a_flag_too_much_shows_what_its_command_takes(capsys):
    assert run("gate", "now.json", "--baseline", "live", "--quiet") == 2
    said = capsys.readouterr().err
    assert "usage: ragmon gate" in said
    assert "unrecognized arguments: --quiet" in said


def test_a_token_and_its_settings_fit_together(capsys):
    assert run("token", "grafana", "--scope", "read", "--scope", "ingest") == 0
    out = capsys.readouterr().out
    token = re.search(r"rgm_\S+", out)[0]
    given = yaml.safe_load(out[out.index("auth:") :])["auth"]["tokens"]
    [made] = load(None, {"auth.tokens": given}, {}).settings.auth.tokens
    assert made.sha256 == hashlib.sha256(token.encode()).hexdigest()
    assert (made.name, made.scopes) == ("grafana", ("read", "ingest"))
    run("token", "grafana")
    assert token not in capsys.readouterr().out


# ---------------------------------------------------------------------------------- report


def test_the_report_as_table_and_as_json(daemon, capsys):
    chunks = [{"id": "a"}, {"id": "b"}]
    daemon.post(
        "/v1/queries",
        [{"pipeline": "shop", "chunks": chunks, "citations": ["a"], "latency_ms": 200}] * 4
        + [{"pipeline": "shop", "chunks": [], "feedback": "positive"}],
    )
    assert run("report", "--url", daemon.url, "--window", "1h") == 0
    table = capsys.readouterr().out
    for shown in ("shop", "5", "attribution", "zero", "p95", "mean", "feedback"):
        assert shown in table
    assert run("report", "--url", daemon.url, "--window", "1h", "--json") == 0
    printed = json_among_logs(capsys.readouterr().out)
    assert printed["queries"] == 5
    assert printed["metrics"]["zero_result"]["estimate"] == 0.2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--window", "soon"], "soon", id="a window that makes no sense"),
        pytest.param(["--token-file", "nowhere"], "nowhere", id="a missing token file"),
        pytest.param(["--token-file", "/bin/sh"], "/bin/sh", id="a token file that holds no text"),
    ],
)
def test_a_report_that_is_refused_says_why(daemon, capsys, words, said):
    assert run("report", "--url", daemon.url, *words) == 2
    assert said in capsys.readouterr().err


def test_a_report_from_nobody_says_what_to_do(capsys):
    assert run("report", "--url", "http://127.0.0.1:1") == 3
    assert "ragmon serve" in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["as a table", "as JSON"])
def test_a_report_of_no_pipeline_says_so_and_fails(daemon, capsys, form):
    daemon.post("/v1/queries", {"pipeline": "billing"})
    assert run("report", "--url", daemon.url, "--pipeline", "biling", *form) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "no queries of a pipeline 'biling' in the last 24h. Did you mean billing?" in told.err
    assert run("report", "--url", daemon.url, "--pipeline", "qqq", *form) == 2
    assert "Of these there are: " in capsys.readouterr().err
    assert run("report", "--url", daemon.url, "--pipeline", "billing", *form) == 0


def test_a_report_needs_the_token(tmp_path, capsys, monkeypatch):
    tokens = [{"name": "ops", "token": "s3cret", "scopes": ["read"]}]
    with running(tmp_path / "data", auth__tokens=tokens) as site:
        assert run("report", "--url", site.url) == 4
        assert "401" in capsys.readouterr().err
        (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
        assert run("report", "--url", site.url, "--token-file", "token", "--json") == 0
        monkeypatch.setenv("RAGMON_API_TOKEN", "s3cret")
        assert run("report", "--url", site.url, "--json") == 0


# ---------------------------------------------------------------------------------- backup


def test_a_backup_of_a_running_daemon_can_be_restored(tmp_path, capsys):
    with running(tmp_path / "data") as site:
        site.post("/v1/queries", [{"pipeline": "kept", "query_id": f"q{at}"} for at in range(50)])
        assert run("backup", "copy.sqlite", "--data-dir", tmp_path / "data") == 0
        site.post("/v1/queries", {"pipeline": "kept", "query_id": "too late"})
        assert run("backup", "copy.sqlite", "--data-dir", tmp_path / "data") == 2
        assert "exists" in capsys.readouterr().err
    restored = tmp_path / "restored"
    restored.mkdir()
    (tmp_path / "copy.sqlite").rename(restored / "ragmon.sqlite")
    with running(restored) as site:
        assert site.total("ragmon_queries_total", pipeline="kept") == 50
        assert site.get("/v1/queries/q49").status == 200
        assert site.get("/v1/queries/too%20late").status == 404


def test_nothing_to_back_up(tmp_path, capsys):
    assert run("backup", "copy.sqlite", "--data-dir", tmp_path / "none") == 2
    assert "does not exist" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- replay


def test_replay_counts_a_file_once_however_often_it_is_sent(daemon, tmp_path, capsys):
    lines = [json.dumps({"pipeline": "replayed", "query": str(at)}) for at in range(1_000)]
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, "oops"]), encoding="utf-8")
    for accepted, duplicates in ((1_000, 0), (0, 1_000)):
        assert run("replay", "log.jsonl", "--to", daemon.url) == 1  # one line is bad
        told = capsys.readouterr()
        assert f"{accepted:,} accepted, {duplicates:,} duplicates, 1 rejected" in told.out
        assert "malformed" in told.err
    assert daemon.total("ragmon_queries_total", pipeline="replayed") == 1_000


def test_no_credentials_of_a_url_are_printed(tmp_path, capsys, clean_environment):
    golden = tmp_path / "golden.jsonl"
    golden.write_text('{"id": "a", "query": "b", "relevant": ["c"]}\n')
    path = tmp_path / "ragmon.yaml"
    path.write_text(
        "external_url: https://ann:word1@ragmon.example/x@y\n"
        "runbooks_url: https://word2@books.example/runbooks\n"
        f"probes: [{{name: faq, cases: {golden}, endpoint: 'http://bob:word3@host:1/ask?key=word4#word5'}}]\n"
    )
    assert cli.main(["check-config", "--config", str(path)]) == 0
    printed = "".join(capsys.readouterr().out.split())  # cells are folded
    for word in ("word1", "word2", "word3", "word4", "word5", "ann:", "bob:"):
        assert word not in printed
    assert "https://(hidden)@ragmon.example/x@y" in printed
    assert "(hidden)@host:1/ask?(hidden)" in printed
