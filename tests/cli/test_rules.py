"""`ragmon rules`: the shipped files as one, with the user's numbers, also from a wheel."""

import importlib
import re
import subprocess
import sys
import zipfile

import pytest
import yaml

from ragmon.cli import dashboards, main
from ragmon.cli.rules import BUDGETS, sources
from tests.support.paths import ROOT
from tests.support.tools import program

FILES = {path.stem: path for path in (ROOT / "deploy/prometheus/rules").glob("*.yaml")}
SLO = """[
    {kind: slo, metric: error, objective: 0.995},
    {kind: slo, metric: slow, objective: 0.9, pipelines: [a]},
]"""


def printed(capsys, *arguments: str) -> str:
    assert main(["rules", *arguments]) == 0
    return capsys.readouterr().out


def groups(text: str) -> dict[str, dict]:
    found = yaml.safe_load(text)["groups"]
    assert len({each["name"] for each in found}) == len(found)
    return {each["name"]: each for each in found}


def checked(tmp_path, text: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    command = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_settings_it_is_what_is_shipped(capsys, tmp_path):
    text = printed(capsys)
    shipped = [
        group
        for name in sorted(FILES)
        for group in yaml.safe_load(FILES[name].read_text(encoding="utf-8"))["groups"]
    ]
    for rule in (rule for group in shipped for rule in group["rules"] if "alert" in rule):
        rule["annotations"]["dashboard_url"] = "http://127.0.0.1:8321/"  # no Grafana is known
    assert list(groups(text).values()) == shipped
    checked(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "arguments", "gone", "come"),
    [
        pytest.param(
            "RagmonErrorBudgetBurn", ["--detectors.rules", SLO], r"0\.05\b|(?<![\d.])5 %",
            ["14.4 * 0.005", "1 * 0.005", "objective of 0.5 %"], id="an objective of the settings",
        ),
        pytest.param(
            "RagmonSlowBudgetBurn", ["--detectors.rules", SLO], r"\* 0\.1\b|\b10 %", ["* 0.05"],
            id="that of one pipeline is not that of all",
        ),
        pytest.param(
            "RagmonErrorBudgetBurn", ["--detectors.rules", SLO, "--objective", "error=0.9"],
            r"0\.05|0\.005", ["6 * 0.1"], id="a flag goes first",
        ),
        pytest.param(
            "RagmonQualityBudgetBurn", ["--objective", "quality=0.9"], r"0\.25|25 %",
            ["3.6 * 0.1", "objective of 10 %"], id="quality",
        ),
        pytest.param(
            "RagmonDown", ["--job", "rag"], '"ragmon"', ['up{job="rag"}'], id="another job",
        ),
        pytest.param(
            "RagmonDown", ["--runbooks_url", "https://wiki.example.org/"], "8321/runbooks",
            ["https://wiki.example.org/RagmonDown.md"], id="other runbooks",
        ),
        pytest.param(
            "RagmonAlertFiring", ["--external_url", "https://rag.example.org/"], "127|:3000",
            ["https://rag.example.org/runbooks/{{ $labels.alert }}",
             "dashboard_url: https://rag.example.org/"],
            id="ragmon elsewhere",
        ),
        pytest.param(
            "RagmonDown", ["--grafana-url", "https://grafana.example.org/"], ":3000",
            ["dashboard_url: https://grafana.example.org/d/ragmon-ragmon-itself"],
            id="dashboards in Grafana",
        ),
        pytest.param(
            "RagmonEvaluationStale", ["--evaluate_every", "5m"], "> 300", ["> 900"],
            id="seldom evaluated",
        ),
    ],
)  # fmt: skip
def test_the_users_numbers_take_the_place_of_the_shipped(
    capsys, tmp_path, name, arguments, gone, come
):
    text = printed(capsys, *arguments)
    checked(tmp_path, text)
    found = yaml.safe_dump(groups(text)[name], width=10_000)
    assert re.search(gone, found) is None
    assert all(each in found for each in come)


@pytest.mark.parametrize("name", BUDGETS)
def test_what_a_budget_tolerates_is_what_its_file_says(name):
    _, share = BUDGETS[name]
    text = FILES[name].read_text(encoding="utf-8")
    assert text.count(f" * {share:g}") == 8  # four pairs of windows
    assert text.count(f"objective of {100 * share:g} %") == 2


def test_alerts_can_be_left_out(capsys):
    text = printed(capsys, "--without", "RagmonAlertFiring", "--without", "RagmonDown")
    assert FILES.keys() >= {"RagmonAlertFiring", "RagmonDown"}
    assert "RagmonAlertFiring" not in text
    assert "RagmonAbsent" in text


@pytest.mark.parametrize(
    ("arguments", "gone", "setting"),
    [
        pytest.param(
            ["--metrics.exclude", "ragmon_loop_*"],
            {"RagmonLoopFailing", "RagmonLoopStalled"},
            "metrics.exclude leaves out ragmon_loop_",
            id="a metric that it reads",
        ),
        pytest.param(
            ["--metrics.exclude", "ragmon_failure_mode_total"],
            {"recording-failed-answers", "RagmonQualityBudgetBurn"},
            "metrics.exclude leaves out ragmon_failure_mode_total",
            id="a metric that a recorded one is made of",
        ),
        pytest.param(
            ["--metrics.include", "ragmon_*"], set(), "", id="nothing where all is included"
        ),
        pytest.param(
            ["--metrics.windows=24h", "--metrics.slice_windows=[]", "--metrics.intervals=none"],
            set(),
            "",
            id="nothing for want of a gauge of windows",
        ),
        pytest.param(
            ["--metrics.include", "ragmon_nothing"],
            FILES.keys() - {"RagmonAbsent", "RagmonDown", "RagmonScrapeFailing"},
            "metrics.include leaves out ragmon_",
            id="all but what Prometheus itself knows",
        ),
    ],
)
def test_a_rule_without_its_metric_is_left_out_and_named(
    capsys, tmp_path, arguments, gone, setting
):
    assert main(["rules", *arguments]) == 0
    text, warned = capsys.readouterr()
    checked(tmp_path, text)
    assert names(FILES) - names(groups(text)) == names(gone)
    for name in gone:
        line = f"{name} is left out: {setting}"
        assert f"  # {line}" in text
        assert line in warned
    assert warned.count("\n") == len(gone)


def names(all_names) -> set[str]:
    """Names of groups; those of recordings are of their own."""
    return {name.replace("recording-", "ragmon-") for name in all_names}


@pytest.mark.parametrize(("kind", "passed_on"), [("alertmanager", False), ("stdout", True)])
def test_what_a_sink_tells_alertmanager_is_not_passed_on_again(capsys, kind, passed_on):
    url = ", url: 'http://alertmanager:9093'" if kind == "alertmanager" else ""
    text = printed(capsys, f"--sinks=[{{kind: {kind}{url}}}]")
    assert ("RagmonAlertFiring" in groups(text)) is passed_on
    assert "RagmonDown" in groups(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objective", "error=99.5"], "SHARE between 0 and 1"),
        (["--objective", "speed=0.9"], "METRIC one of"),
        (["--grafana-url", "grafana:3000"], "write for example https://grafana.example.org"),
        (["--grafana-url", "http://[::1"], "is not a URL"),
        (["--without", "RagmonGone"], "there is no alert RagmonGone"),
        (["--detectors.rules", "[{kind: slo, metric: error}]"], "objective: Field required"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, arguments, message):
    try:
        status = main(["rules", *arguments])
    except SystemExit as error:
        status = error.code
    assert status != 0
    assert message in capsys.readouterr().err


def test_a_wheel_brings_its_rules(tmp_path):
    hatchling = importlib.import_module("hatchling.builders.wheel")
    (wheel,) = hatchling.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path), versions=["standard"]
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    there = {path.stem for path in (tmp_path / "site/ragmon/prometheus").glob("*.yaml")}
    assert there == FILES.keys() == sources().keys()
    boards = {path.stem for path in (tmp_path / "site/ragmon/dashboards").glob("*.json")}
    assert boards == dashboards.sources().keys()
    assert len(boards) == 5
    code = "import sys; sys.path.insert(0, 'site'); import ragmon.cli as c; c.main(['rules'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert groups(done.stdout).keys() >= {"RagmonDown"}
    assert "site/ragmon" in subprocess.run(
        [sys.executable, "-c", code + "; print(c.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
