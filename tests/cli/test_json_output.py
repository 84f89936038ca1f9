"""``--json``: every command that prints something prints it for programs too, in its shape."""

import hashlib
import json

import msgspec
import pytest
import yaml

from ragmon.cli import main, results
from ragmon.cli.commands import COMMANDS
from ragmon.cli.completion import completed_parser
from ragmon.daemon.generated_tokens import GeneratedTokens
from tests.support.daemons import json_among_logs, running
from tests.support.llm_server import serving
from tests.support.receiver import receiving

pytestmark = pytest.mark.usefixtures("clean_environment")

WITHOUT = {
    "completion": "prints a script",
    "demo": "is for people",
    "serve": "prints its log, as JSON where log.format says so",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A store of ten queries."""
    folder = tmp_path_factory.mktemp("json") / "data"
    with running(folder) as site:
        site.post("/v1/queries", [{"pipeline": "docs", "query_id": f"q{at}"} for at in range(10)])
    return folder


def printed(capsys, shape, *words, status=0):
    """The result of a command, which is all that it prints."""
    assert main([str(word) for word in words]) == status
    out = capsys.readouterr().out
    return msgspec.convert(json_among_logs(out), shape, strict=True)


def test_every_command_that_prints_something_has_the_option():
    (commands,) = completed_parser()._subparsers._group_actions
    without = {
        name
        for name, parser in commands.choices.items()
        if not any("--json" in action.option_strings for action in parser._actions)
    }
    assert without == WITHOUT.keys() | {"backtest"}  # which has --format jsonl
    assert commands.choices.keys() == COMMANDS.keys()


def test_a_copy_and_a_backup_of_the_store(data, tmp_path, capsys):
    where = ("--data-dir", data, "--json")
    copied = printed(capsys, results.CopiedStore, "backup", tmp_path / "copy", *where)
    assert copied.size_bytes == (tmp_path / "copy").stat().st_size
    place = tmp_path / "place"
    made = printed(capsys, results.MadeBackup, "backup", "--to", place, *where)
    assert (made.queries, made.deleted) == (10, [])
    listed = printed(capsys, results.BackupListing, "restore", place, "--list", "--json")
    assert listed.backups == [made.backup]
    new = tmp_path / "new"
    options = ("--data-dir", new, "--json")
    restored = printed(capsys, results.RestoredStore, "restore", place, *options)
    assert (restored.queries, restored.former_store) == (10, None)
    again = printed(capsys, results.RestoredStore, "restore", place, "--force", *options)
    assert again.former_store.startswith(f"{new}/ragmon.sqlite.before-restore-")


def test_records_that_are_sent(daemon, tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    lines = [{"query_id": f"json-{at}", "qurey": "x"} for at in range(5)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + "oops\n")
    for command in ("replay", "import"):
        options = ("--to" if command == "replay" else "--url", daemon.url, "--json")
        sent = printed(capsys, results.SentRecords, command, log, *options, status=1)
        assert (sent.accepted + sent.duplicates, sent.rejected) == (5, 1)
        assert len(sent.first_rejected) == 1
        assert sent.ignored_fields == {"qurey": "query"}


def test_an_export(data, tmp_path, capsys):
    options = ("--data-dir", data, "--json")
    written = printed(capsys, results.WrittenExport, "export", tmp_path / "q.jsonl", *options)
    assert written.queries == 10
    assert written.size_bytes == (tmp_path / "q.jsonl").stat().st_size


def test_the_forecast_and_the_end_of_a_judge_run(tmp_path, capsys):
    with serving() as llm:
        settings = {"judge__llm__base_url": llm.url, "judge__llm__model": "tiny"}
        with running(tmp_path / "data", **settings) as site:
            options = ("--url", site.url, "--json")
            run = printed(capsys, results.JudgeRun, "judge", "--dry-run", *options)
            assert run.forecast.answers == 0
            assert run.progress is None


def test_a_test_of_a_sink(capsys):
    with receiving() as receiver:
        sinks = f"[{{kind: slack, name: oncall, webhook_url: '{receiver.url}/x'}}]"
        sent = printed(
            capsys, results.NotifyTest, "notify-test", "oncall", "--json", "--sinks", sinks
        )
    assert sent.sink == "oncall"
    assert [(notice.change, notice.alert) for notice in sent.accepted] == [
        ("opened", "RagmonTest"),
        ("resolved", "RagmonTest"),
    ]


def test_a_new_token_with_the_entry_that_accepts_it(capsys):
    words = ("token", "app", "--pipeline", "docs-*", "--expires", "2027-06-30", "--json")
    made = printed(capsys, results.NewToken, *words)
    assert made.entry == {
        "name": "app",
        "scopes": ["ingest"],
        "pipelines": ["docs-*"],
        "expires": "2027-06-30",
        "sha256": hashlib.sha256(made.token.encode()).hexdigest(),
    }


def test_tokens_that_ragmon_made(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RAGMON_DATA_DIR", str(tmp_path))
    GeneratedTokens(tmp_path).make(["app"])
    first = GeneratedTokens(tmp_path).secrets("app")[0]
    assert printed(capsys, dict, "token", "show", "--json") == {"app": first}
    assert printed(capsys, dict, "token", "show", "app", "--json") == {"app": first}
    new = printed(capsys, results.RotatedToken, "token", "rotate", "app", "--json")
    assert new.token != first
    assert printed(capsys, dict, "token", "show", "--json") == {"app": new.token}
    ended = printed(capsys, results.RetiredTokens, "token", "retire", "app", "--json")
    assert (ended.name, ended.ended) == ("app", 1)


def test_the_dashboards_and_what_the_settings_took_out_of_them(tmp_path, capsys):
    words = ("dashboards", "--to", tmp_path, "--json")
    written = printed(capsys, results.WrittenDashboards, *words)
    assert {dashboard.file for dashboard in written.dashboards} == {
        str(path) for path in tmp_path.iterdir()
    }


def test_the_rules_are_the_same_as_json(capsys):
    assert main(["rules"]) == 0
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    assert printed(capsys, dict, "rules", "--json") == as_yaml
    assert len(as_yaml["groups"]) > 30
