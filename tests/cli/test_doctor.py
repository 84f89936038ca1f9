"""``ragmon doctor``: each thing that can be wrong is found, with its remedy."""

import json
import os
import tarfile
from collections import namedtuple
from email.utils import formatdate

import pytest

from ragmon.cli import doctor, local_checks, main
from ragmon.cli.connection import Connection
from ragmon.cli.daemon_checks import DaemonChecks
from ragmon.cli.health_checks import Area, findings_of
from ragmon.cli.prometheus_checks import prometheus
from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.errors import RemoteError, SettingsError
from tests.support.answering import Answered, answering
from tests.support.daemons import json_among_logs, running

pytestmark = pytest.mark.usefixtures("clean_environment")

NOW = 1_750_000_000.0
HEALTHY = {
    'ragmon_build_info{version="0.1.0"}': 1.0,
    'ragmon_ingest_records_total{source="http"}': 1_000.0,
    "ragmon_watermark_timestamp_seconds": NOW - 60.0,
}
QUIET = {"waiting": 0, "oldest_at": None, "given_up": 0, "dead_letters": []}
LOST = {
    "sink": "pager",
    "reason": "pager answered 410: gone",
    "attempts": 9,
    "given_up_at": NOW - 60.0,
    "incident": "f00d",
    "headline": "docs is worse",
    "labels": {},
    "id": "send-1",
    "at": NOW - 900.0,
    "change": "opened",
}
UNPAUSED = {"waiting": 3, "paused_s": 0.0, "budget_left": None}


def checks_over(server, *, metrics=None, queue=QUIET, judge=UNPAUSED, status=200):
    """The checks over a server that answers as such a daemon does."""
    lines = (f"{name} {value}" for name, value in (HEALTHY | (metrics or {})).items())
    answers = {
        "/metrics": ("\n".join(lines) + "\n").encode(),
        "/v1/notifications": json.dumps(queue).encode(),
        "/v1/judge": json.dumps(judge).encode(),
    }

    def answer(asked):
        if asked.path in answers:
            found = judge is not None or asked.path != "/v1/judge"
            return Answered(200 if found else 404, body=answers[asked.path])
        return Answered(status, body=b"ok" if status == 200 else b'{"detail": "it starts"}')

    server.answer = answer
    server.date = formatdate(NOW, usegmt=True)
    return DaemonChecks(Connection({}), server.url, ManualClock(NOW))


@pytest.fixture
def server():
    with answering() as served:
        yield served


def verdicts(findings):
    return {finding.verdict for finding in findings}


def test_a_healthy_daemon_has_nothing_to_mend(server):
    checks = checks_over(server)
    findings = [
        *checks.daemon(), *checks.clock(), *checks.sources(), *checks.sinks(1), *checks.judge()
    ]  # fmt: skip
    assert verdicts(findings) == {"ok"}
    assert {finding.area for finding in findings} == {
        "daemon", "clock", "sources", "sinks", "judge",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("area", "daemon", "verdict", "what"),
    [
        ("daemon", {"status": 503}, "problem", "/readyz answers 503: it starts"),
        (
            "daemon",
            {"metrics": {'ragmon_build_info{version="0.1.0"}': 1.0,
                         'ragmon_loop_failures_total{loop="otlp"}': 3.0}},
            "warning",
            "the loop otlp failed 3 times",
        ),
        (
            "daemon",
            {"metrics": {"ragmon_store_lost_commits": 2.0}},
            "problem",
            "did not find 2 acknowledged commits",
        ),
        (
            "daemon",
            {"metrics": {'ragmon_store_undecodable_total{what="block"}': 1.0}},
            "problem",
            "1 rows of the store are damaged",
        ),
        (
            "clock",
            {"metrics": {'ragmon_rejected_total{reason="future",source="http"}': 5.0}},
            "problem",
            "5 records refused, in the future by this clock",
        ),
        (
            "clock",
            {"metrics": {"ragmon_watermark_timestamp_seconds": NOW + 3_600.0}},
            "problem",
            "ahead of this clock",
        ),
        (
            "sources",
            {"metrics": {'ragmon_ingest_records_total{source="http"}': 0.0}},
            "problem",
            "no record was stored",
        ),
        (
            "sources",
            {"metrics": {"ragmon_watermark_timestamp_seconds": NOW - 86_400.0}},
            "warning",
            "the newest query is 24h old",
        ),
        (
            "sources",
            {"metrics": {'ragmon_rejected_total{reason="invalid",source="http"}': 50.0}},
            "warning",
            "50 records and requests refused: http: invalid (50)",
        ),
        (
            "sources",
            {"metrics": {'ragmon_tracing_tool_lag_seconds{name="support"}': 7_200.0}},
            "warning",
            "the source support is 2h behind its tracing tool",
        ),
        (
            "sources",
            {"metrics": {'ragmon_quarantine_entries{stage="map"}': 2.0}},
            "warning",
            "2 entries are in quarantine",
        ),
        (
            "sinks",
            {"queue": QUIET | {"given_up": 1, "dead_letters": [LOST]}},
            "problem",
            "the newest by pager: pager answered 410: gone",
        ),
        (
            "sinks",
            {"queue": QUIET | {"waiting": 4, "oldest_at": NOW - 7_200.0}},
            "problem",
            "4 notifications wait, the oldest for 2h",
        ),
        (
            "judge",
            {"judge": UNPAUSED | {"paused_s": 30.0}},
            "problem",
            "judging is paused for 30 s",
        ),
        (
            "judge",
            {"judge": UNPAUSED | {"budget_left": 0}},
            "warning",
            "the budget of the language model is used up, 3 answers wait",
        ),
        (
            "judge",
            {"metrics": {"ragmon_judge_restarts_total": 4.0}},
            "warning",
            "the embedded judge was started again 4 times",
        ),
        ("judge", {"judge": None}, "ok", "no language model is configured"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_wrong_is_found(server, area, daemon, verdict, what):
    checks = checks_over(server, **daemon)
    findings = list(checks.sinks(1) if area == "sinks" else getattr(checks, area)())
    [finding] = [finding for finding in findings if what in finding.what]
    assert (finding.area, finding.verdict) == (area, verdict)
    assert bool(finding.remedy) is (verdict != "ok")


@pytest.mark.parametrize(
    ("theirs", "verdict", "what"),
    [
        (NOW + 1.0, "ok", "agree"),
        (NOW - 4.0, "ok", "agree"),
        (NOW - 90.0, "problem", "this machine is 89 s ahead of the daemon's"),
        (NOW + 60.0, "problem", "this machine is 60 s behind the daemon's"),
    ],
)
def test_the_clocks_of_both_machines_are_compared(server, theirs, verdict, what):
    checks = checks_over(server)
    server.date = formatdate(theirs, usegmt=True)
    finding = next(checks.clock())
    assert finding.verdict == verdict
    assert what in finding.what


def test_a_daemon_that_does_not_tell_its_time_is_no_problem(server):
    checks = checks_over(server)
    server.date = "soon"
    assert verdicts(checks.clock()) == {"skipped", "ok"}


def test_alerts_that_nobody_gets_are_named(server):
    [finding, *_] = checks_over(server).sinks(0)
    assert (finding.verdict, "nobody is notified" in finding.what) == ("warning", True)


def test_a_check_that_fails_stops_no_other():
    def refused():
        yield Area("store").ok("fine so far")
        raise SettingsError("is damaged", hint="Restore a backup")

    def forbidden():
        raise RemoteError("answered 403", status=403, hint="Use another token")

    findings = list(findings_of([("store", refused), ("sinks", forbidden)]))
    assert [(finding.area, finding.verdict) for finding in findings] == [
        ("store", "ok"),
        ("store", "problem"),
        ("sinks", "skipped"),
    ]
    assert (findings[1].what, findings[1].remedy) == ("is damaged", "Restore a backup")


def prometheus_over(server, *, targets=(), series=True, rules=()):
    answers = {
        "/api/v1/targets": {"activeTargets": list(targets)},
        "/api/v1/query": {
            "resultType": "vector",
            "result": [{"metric": {}, "value": [NOW, "1"]}] if series else [],
        },
        "/api/v1/rules": {"groups": [{"name": "ragmon", "rules": list(rules)}]},
    }

    def answer(asked):
        data = answers[asked.path.partition("?")[0]]
        return Answered(200, body=json.dumps({"status": "success", "data": data}).encode())

    server.answer = answer
    server.date = formatdate(NOW, usegmt=True)
    return list(prometheus(Connection({}), server.url, "http://10.0.0.5:8321"))


UP = {"scrapeUrl": "http://10.0.0.5:8321/metrics", "health": "up", "labels": {"job": "rag"}}
RULE = {"name": "RagmonDown", "health": "ok", "type": "alerting"}


def test_a_prometheus_that_sees_all_is_well(server):
    findings = prometheus_over(server, targets=[UP], rules=[RULE])
    assert verdicts(findings) == {"ok"}


@pytest.mark.parametrize(
    ("view", "verdict", "what"),
    [
        ({"rules": [RULE]}, "problem", "no target that is ragmon"),
        (
            {"targets": [UP | {"health": "down", "lastError": "401"}], "rules": [RULE]},
            "problem",
            "cannot scrape http://10.0.0.5:8321/metrics: 401",
        ),
        ({"targets": [UP], "series": False, "rules": [RULE]}, "problem", "no series of ragmon"),
        ({"targets": [UP]}, "warning", "no alert of ragmon"),
        (
            {"targets": [UP], "rules": [RULE | {"health": "err", "lastError": "many-to-many"}]},
            "problem",
            "the rule RagmonDown fails: many-to-many",
        ),
    ],
)
def test_what_prometheus_lacks_is_found(server, view, verdict, what):
    findings = prometheus_over(server, **view)
    [finding] = [finding for finding in findings if what in finding.what]
    assert finding.verdict == verdict
    assert finding.remedy


DiskUsage = namedtuple("DiskUsage", "total used free")


@pytest.mark.parametrize(
    ("free", "most", "verdict"),
    [
        pytest.param(500 << 20, None, "problem", id="almost full"),
        pytest.param(10 << 30, "20GB", "warning", id="less than the store may take"),
        pytest.param(50 << 30, "20GB", "ok", id="enough"),
    ],
)
def test_a_disk_that_is_too_small_is_found(tmp_path, monkeypatch, free, most, verdict):
    monkeypatch.setattr(local_checks.shutil, "disk_usage", lambda _: DiskUsage(100 << 30, 0, free))
    flags = {"data_dir": str(tmp_path / "data")} | ({"retention.max_disk": most} if most else {})
    [finding] = local_checks.disk(load(None, flags, {}).settings)
    assert finding.verdict == verdict


# ---------------------------------------------------------------------------------- the command


def test_the_doctor_of_a_running_daemon(tmp_path, capsys):
    with running(tmp_path / "data") as site:
        site.post("/v1/queries", {"pipeline": "docs"})
        words = ["--url", site.url, "--data_dir", str(tmp_path / "data")]
        assert main(["doctor", *words, "--json"]) == 0
        capsys.readouterr()
        assert main(["doctor", *words, "--json"]) == 0  # what the first asked for is no refusal
        report = json_among_logs(capsys.readouterr().out)
    by_area = {finding["area"]: finding for finding in report["findings"]}
    assert set(by_area) == {
        "configuration", "store", "disk", "daemon", "clock", "sources", "sinks", "judge",
        "prometheus",
    }  # fmt: skip
    assert f"in use by process {os.getpid()}, at {site.url}" in by_area["store"]["what"]
    assert by_area["sources"]["what"] == "1 record stored since the start"
    assert by_area["prometheus"]["verdict"] == "skipped"
    assert report["problems"] == 0


def test_a_prometheus_that_does_not_answer_is_no_ragmon_to_start(capsys):
    words = ["--url", "http://127.0.0.1:9", "--prometheus", "http://127.0.0.1:9"]
    assert main(["doctor", *words, "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    (prometheus,) = [each for each in findings if each["area"] == "prometheus"]
    assert prometheus["what"] == "no answer from http://127.0.0.1:9 (connection refused)"
    assert prometheus["remedy"] == "Start Prometheus, or name another address with --prometheus"


def test_what_is_wrong_ends_with_status_1_and_is_counted(capsys):
    assert main(["doctor", "--url", "http://127.0.0.1:9", "--sinks", "[{kind: slak}]"]) == 1
    out = capsys.readouterr().out
    assert "PROBLEM  configuration  sinks.0: unknown kind 'slak'" in out
    assert "PROBLEM  daemon" in out
    assert out.count("no answer from http://127.0.0.1:9") == 1
    assert out.splitlines()[-1].startswith("2 problems, ")


def test_settings_that_cannot_be_read_are_a_problem_and_the_daemon_is_asked_all_the_same(capsys):
    assert main(["doctor", "--prot", "1", "--url", "http://127.0.0.1:9"]) == 1
    out = capsys.readouterr().out
    assert "did you mean `port`" in out
    assert "PROBLEM  daemon" in out


def test_a_bundle_has_the_name_of_what_it_is(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", "--bundle", "for-the-ticket.zip"])
    assert "name it for-the-ticket.zip.tar.gz" in capsys.readouterr().err


def test_the_bundle_holds_what_helps_and_no_secret(tmp_path, capsys):
    tokens = [{"name": "ops", "token": "s3cret-of-ops", "scopes": ["admin", "ingest", "read"]}]
    (tmp_path / "token").write_text("s3cret-of-ops")
    with running(tmp_path / "data", auth__tokens=tokens, slices=["tenant"]) as site:
        record = {"pipeline": "docs", "query": "very private", "tags": {"tenant": "acme-corp"}}
        assert site.post("/v1/queries", record, authorization="Bearer s3cret-of-ops").status == 200
        words = ["--url", site.url, "--token-file", "token", "--bundle", "b.tgz"]
        settings = ["--data-dir", str(tmp_path / "data"), "--auth.tokens", json.dumps(tokens)]
        assert main(["doctor", *words, *settings]) == 0
        assert main(["doctor", *words, *settings]) == 2  # nothing is written over
    assert "cannot write b.tgz: File exists" in capsys.readouterr().err
    assert (tmp_path / "b.tgz").stat().st_mode & 0o777 == 0o600
    with tarfile.open(tmp_path / "b.tgz") as archive:
        names = archive.getnames()
        texts = {name: archive.extractfile(name).read().decode() for name in names}
    assert {name.rpartition("/")[2] for name in names} == {
        "README.txt", "report.json", "settings.json", "metrics.txt", "versions.json",
    }  # fmt: skip
    assert "ragmon_build_info" in texts["ragmon-support/metrics.txt"]
    assert "ragmon_window_queries" in texts["ragmon-support/metrics.txt"]
    assert '"auth.tokens"' in texts["ragmon-support/settings.json"]
    assert "pydantic" in texts["ragmon-support/versions.json"]
    for secret in ("s3cret", "very private", "acme-corp"):
        assert [name for name, text in texts.items() if secret in text] == []


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ({}, "http://127.0.0.1:8321"),
        ({"port": "9000", "host": "0.0.0.0"}, "http://127.0.0.1:9000"),
        ({"host": "::"}, "http://[::1]:8321"),
        ({"host": "fd00::5"}, "http://[fd00::5]:8321"),
    ],
)
def test_the_daemon_is_where_its_settings_say(flags, url):
    assert doctor._own_url(load(None, flags, {})) == url
