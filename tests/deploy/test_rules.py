"""Prometheus rules: they load, fire when they should, and every alert says what to do."""

import functools
import json
import re
import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml

from ragmon.alerts.remedies import NO_FEEDBACK, REMEDIES, runbook_of
from ragmon.backups.textfile import METRICS as BACKUP_METRICS
from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline
from ragmon.detectors import AlertKey, StreamKey
from ragmon.detectors.losses import LOSSES
from ragmon.plugins import kinds
from ragmon.queries.criteria import failures
from tests.support.paths import ROOT
from tests.support.reference_pages import documented_metrics
from tests.support.tools import program

RULES = ROOT / "deploy/prometheus/rules"
CASES = ROOT / "deploy/prometheus/tests"
RUNBOOKS = ROOT / "deploy/runbooks"
METRICS = ROOT / "tests/golden/metrics.txt"

# Where compose serves them; the chart and `ragmon rules` put others in their place.
OWN, GRAFANA = "http://127.0.0.1:8321", "http://127.0.0.1:3000"
FOREIGN = {"up"}  # written by Prometheus itself
PASSED_ON = "RagmonAlertFiring"
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
RECORDING = sorted(RULES.glob("recording-*.yaml"))
ALERT_FILES = sorted(path for path in RULES.glob("*.yaml") if path not in RECORDING)


def boards() -> set[str]:
    """The ids of the dashboards."""
    files = (ROOT / "grafana/dashboards").glob("*.json")
    return {json.loads(path.read_text(encoding="utf-8"))["uid"] for path in files}


def rules(path: Path) -> list[dict]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@functools.cache
def exported() -> frozenset[str]:
    """Names of series on ``/metrics``, and of those that PromQL makes of a histogram or summary."""
    names = set()
    for line in METRICS.read_text(encoding="utf-8").splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            names.add(name)
            if kind == "histogram":
                names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
    # The golden page's day has no language model and no probes; the generated reference has them.
    return frozenset(names) | documented_metrics() | BACKUP_METRICS


def recorded() -> set[str]:
    return {rule["record"] for path in RECORDING for rule in rules(path)}


def named(expression: str) -> set[str]:
    """Metrics that a PromQL expression reads."""
    found: set[str] = set()
    waiting = [promql_parser.parse(expression)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, promql_parser.VectorSelector):
            found.add(node.name)
        parts = [getattr(node, part, None) for part in ("lhs", "rhs", "expr", "vector_selector")]
        waiting += [part for part in parts if part is not None]
        waiting += getattr(node, "args", None) or []
    return found


def identity(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", ALERT_FILES, ids=identity)
def test_a_file_holds_one_alert_that_says_what_to_do(path):
    for rule in rules(path):
        assert rule["alert"] == path.stem
        annotations = {"summary", "description", "runbook_url", "dashboard_url"}
        assert annotations == set(rule["annotations"])
        assert rule["annotations"]["dashboard_url"].removeprefix(f"{GRAFANA}/d/") in boards()
        assert rule["for"]
        if path.stem == PASSED_ON:  # severity and runbook are those of the alert that it names
            assert "labels" not in rule
            assert rule["annotations"]["runbook_url"] == f"{OWN}/runbooks/{{{{ $labels.alert }}}}"
        else:
            assert rule["labels"]["severity"] in {"critical", "warning", "info"}
            assert rule["annotations"]["runbook_url"] == f"{OWN}/runbooks/{path.stem}"


@pytest.mark.parametrize("path", sorted(RULES.glob("*.yaml")), ids=identity)
def test_every_metric_named_is_there(path):
    for rule in rules(path):
        names = named(rule["expr"])
        assert names
        assert names <= exported() | recorded() | FOREIGN


def test_every_recording_rule_is_read_and_named_by_level_metric_operation():
    read = set().union(*(named(rule["expr"]) for path in ALERT_FILES for rule in rules(path)))
    assert recorded() == {name for name in read if ":" in name}
    for name in recorded():
        assert re.fullmatch(r"[a-z_]+:ragmon_[a-z_]+:[a-z_]+\d+[mhd]", name)


def raised() -> set[str]:
    """Every name that ragmon's own alerts can have."""
    return {remedy.name for remedy in (*REMEDIES.values(), NO_FEEDBACK)}


@pytest.mark.parametrize("name", sorted({path.stem for path in ALERT_FILES} | raised()))
def test_every_alert_has_a_runbook_that_names_what_exists(name):
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    mentioned = set(re.findall(r"(?<!:)\bragmon_\w+", text))
    assert mentioned <= exported()
    assert set(re.findall(r"\w+:ragmon_\w+:\w+", text)) <= recorded()
    asked = set(re.findall(r"failing=(\w+)", text))
    assert asked <= set(failures(build_pipeline(Settings())))


def test_no_runbook_is_left_over():
    named = {path.stem for path in ALERT_FILES} | raised()
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == named
    assert "RagmonHitRate" in named


@pytest.mark.parametrize("metric", [loss.metric for loss in LOSSES])
@pytest.mark.parametrize("kind", kinds("ragmon.detectors"))
def test_the_path_that_an_alert_carries_leads_to_its_runbook(kind, metric):
    path = runbook_of(AlertKey(kind, StreamKey("docs", metric)))
    assert (RUNBOOKS.parent / path).is_file()


@pytest.mark.parametrize("path", ALERT_FILES, ids=identity)
def test_every_alert_is_seen_to_fire_and_to_keep_still(path):
    text = (CASES / f"{path.stem}.yaml").read_text(encoding="utf-8")
    expected = {
        sample["value"]
        for case in yaml.safe_load(text)["tests"]
        for check in case["promql_expr_test"]
        for sample in check["exp_samples"]
    }
    assert expected == {0, 1}


def test_promtool_takes_the_rules():
    command = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal"]
    done = subprocess.run(
        [*command, *sorted(RULES.glob("*.yaml"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=identity)
def test_alerts_fire_when_they_should(path):
    command = [program("promtool"), "test", "rules", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
