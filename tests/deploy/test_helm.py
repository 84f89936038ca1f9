"""The Helm chart: every variant renders as kept by both Helms, is valid, and its copies agree."""

import json
import re
import subprocess

import helm_python
import pytest
import yaml

from ragmon import __version__
from tests.support.chart import (
    CHART,
    ROOT,
    UNCHECKED,
    VARIANTS,
    faults,
    helm3_objects,
    objects,
    of_kind,
    texts,
)
from tests.support.golden import same
from tests.support.tools import program

RULES = ROOT / "deploy/prometheus/rules"
BOARDS = ROOT / "grafana/dashboards"


@pytest.fixture(scope="module")
def chart():
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


def ordered(manifests: list[dict]) -> list[dict]:
    return sorted(manifests, key=lambda each: (each["kind"], each["metadata"]["name"]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_variant(chart, variant):
    found = texts(chart, VARIANTS[variant])
    if "prometheusrule.yaml" in found:  # compared with the rules themselves below
        head, _ = found["prometheusrule.yaml"].split("  groups:")
        found["prometheusrule.yaml"] = head + "  groups: …\n"
    found.pop("dashboards.yaml", None)  # the same
    text = "".join(f"# {name}\n{text.strip()}\n---\n" for name, text in sorted(found.items()))
    same(f"helm_{variant}.yaml", text)


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_3_and_helm_4_agree(chart, variant):
    assert ordered(helm3_objects(variant)) == ordered(objects(chart, VARIANTS[variant]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_manifest_is_valid(chart, variant):
    manifests = objects(chart, VARIANTS[variant])
    assert list(faults(manifests)) == []
    assert len([each for each in manifests if each["kind"] not in UNCHECKED]) >= 4


def test_a_fault_in_a_manifest_is_found(chart):
    broken = of_kind(chart, "StatefulSet")
    broken["spec"]["replica"] = 1
    broken["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = "http"
    assert len(list(faults([broken]))) == 2


def test_a_variant_for_everything_that_can_be_switched_on(chart):
    kinds = {each["kind"] for values in VARIANTS.values() for each in objects(chart, values)}
    assert kinds == {
        "ConfigMap", "Deployment", "GrafanaDashboard", "HTTPRoute", "HorizontalPodAutoscaler",
        "Ingress",
        "NetworkPolicy", "Pod", "PodDisruptionBudget", "PodMonitor", "PrometheusRule",
        "Service", "ServiceAccount", "ServiceMonitor", "StatefulSet",
    }  # fmt: skip
    assert len(VARIANTS) >= 12


def test_chart_and_image_have_the_version_of_ragmon():
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["appVersion"] == __version__
    assert f"image: ghcr.io/ragmon/ragmon:{__version__}\n" in text


def test_the_rules_are_those_that_are_tested(chart):
    copied = {path.name: path.read_text(encoding="utf-8") for path in (CHART / "rules").iterdir()}
    source = {path.name: path.read_text(encoding="utf-8") for path in RULES.glob("*.yaml")}
    assert copied == source, "run `make golden`"
    expected = [
        group
        for _, text in sorted(source.items())
        for group in yaml.safe_load(with_links(text))["groups"]
    ]
    rule = of_kind(chart, "PrometheusRule", prometheusRule={"enabled": True})
    assert rule["spec"]["groups"] == expected


def with_links(text: str, own: str = "http://rag-ragmon.ops.svc:8321") -> str:
    """A file of rules whose links lead to this ragmon alone."""
    text = text.replace("http://127.0.0.1:8321", own)
    return re.sub(r"http://127\.0\.0\.1:3000/.*", f"{own}/", text)


@pytest.mark.parametrize(
    ("values", "own"),
    [
        pytest.param(
            {"config": {"external_url": "https://rag.example.org/"}},
            "https://rag.example.org",
            id="as the settings say",
        ),
        pytest.param(
            {"ingress": {"enabled": True, "hosts": ["r.example"], "tls": [{"hosts": ["r"]}]}},
            "https://r.example",
            id="by the Ingress",
        ),
        pytest.param({"service": {"port": 80}}, "http://rag-ragmon.ops.svc:80", id="inside"),
    ],
)
def test_the_links_of_rules_lead_to_ragmon(chart, values, own):
    rule = of_kind(chart, "PrometheusRule", prometheusRule={"enabled": True}, **values)
    (group,) = (each for each in rule["spec"]["groups"] if each["name"] == "RagmonDown")
    annotations = group["rules"][0]["annotations"]
    assert annotations["runbook_url"] == f"{own}/runbooks/RagmonDown"
    assert annotations["dashboard_url"] == f"{own}/"
    wiki = {"config": {"runbooks_url": "https://wiki.example.org"}}
    rule = of_kind(chart, "PrometheusRule", prometheusRule={"enabled": True}, **wiki)
    assert "https://wiki.example.org/RagmonDown.md" in str(rule)


@pytest.mark.parametrize(("kind", "passed_on"), [("alertmanager", False), ("slack", True)])
def test_what_a_sink_tells_alertmanager_is_not_passed_on_again(chart, kind, passed_on):
    address = {"slack": "webhook_url_file", "alertmanager": "url"}[kind]
    config = {"sinks": [{"kind": kind, address: "http://alertmanager:9093"}]}
    rule = of_kind(chart, "PrometheusRule", prometheusRule={"enabled": True}, config=config)
    names = {group["name"] for group in rule["spec"]["groups"]}
    assert ("RagmonAlertFiring" in names) is passed_on
    assert "RagmonDown" in names


def test_what_the_user_says_of_rules_reaches_them(chart):
    rule = of_kind(chart, "PrometheusRule", **VARIANTS["monitoring"])
    alerts = {
        each["alert"]: each
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if "alert" in each
    }
    assert "RagmonDown" in alerts
    assert "RagmonJudgeBacklog" not in alerts
    assert rule["spec"]["groups"][-1]["name"] == "own"
    for name, alert in alerts.items():
        assert alert["labels"]["team"] == "search"
        link = f"https://wiki.example.org/runbooks/{name}.md"
        if name == "RagmonAlertFiring":  # passes on what ragmon itself raised
            link = link.replace(name, "{{ $labels.alert }}")
        assert alert["annotations"]["runbook_url"] == link
        board = alert["annotations"]["dashboard_url"].removeprefix("https://grafana.example.org/d/")
        assert board.startswith("ragmon-")
    recorded = [
        each
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if ":ragmon_" in each.get("record", "")
    ]
    assert recorded
    assert all("labels" not in each for each in recorded)


def test_the_dashboards_are_those_of_grafana(chart):
    copied = {path.name: path.read_text(encoding="utf-8") for path in CHART.glob("dashboards/*")}
    source = {path.name: path.read_text(encoding="utf-8") for path in BOARDS.glob("*.json")}
    assert copied == source, "run `make golden`"
    maps = [
        each
        for each in objects(chart, VARIANTS["dashboards"])
        if each["metadata"]["labels"].get("dashboards") == "yes"
    ]
    assert {each["metadata"]["namespace"] for each in maps} == {"grafana"}
    found = {name: text for each in maps for name, text in each["data"].items()}
    assert len(found) == len(maps) == len(source)
    for name, text in source.items():
        assert json.loads(found[f"ragmon-{name}"]) == json.loads(text)


def test_helm_finds_no_fault():
    found = helm_python.lint(CHART, strict=True)
    assert found["errors"] == []
    assert {each["error"] for each in found["messages"]} <= {"icon is recommended"}


def test_helm_3_finds_no_fault_and_packs_it(tmp_path):
    helm = program("helm3")
    for command in (["lint", "--strict", CHART], ["package", CHART, "--destination", tmp_path]):
        done = subprocess.run([helm, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"ragmon-{__version__}.tgz"]
