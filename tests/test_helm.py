"""The Helm chart: every variant renders as kept, is valid, and refuses what cannot work."""

import itertools
import json
import re
from pathlib import Path

import helm_python
import jsonschema
import pytest
import yaml

from ragmon.config import load
from tests.support.golden import same

ROOT = Path(__file__).parents[1]
CHART = ROOT / "helm/ragmon"
RULES = ROOT / "deploy/prometheus/rules"
SCHEMAS = ROOT.parent / "shared/schemas/kubernetes"
VARIANTS = {
    path.name.removesuffix("-values.yaml"): yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((CHART / "ci").glob("*-values.yaml"))
}


@pytest.fixture(scope="module")
def chart():
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


def rendered(chart, values: dict) -> dict[str, str]:
    """Templates that gave something, without the folder in their name."""
    out = chart.render(values=values, name="rag", namespace="ops")
    return {name.split("templates/")[1]: text for name, text in out.items() if text.strip()}


def objects(chart, values: dict) -> list[dict]:
    texts = rendered(chart, values)
    texts.pop("NOTES.txt")
    return [each for text in texts.values() for each in yaml.safe_load_all(text) if each]


def of_kind(chart, kind: str, **values) -> dict:
    (found,) = (each for each in objects(chart, values) if each["kind"] == kind)
    return found


def container(chart, **values) -> dict:
    return of_kind(chart, "StatefulSet", **values)["spec"]["template"]["spec"]["containers"][0]


def settings(chart, tmp_path, values: dict):
    """What ragmon makes of the rendered ragmon.yaml."""
    path = tmp_path / "ragmon.yaml"
    path.write_text(of_kind(chart, "ConfigMap", **values)["data"]["ragmon.yaml"], encoding="utf-8")
    return load(path, environment={}).settings


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_variant(chart, variant):
    texts = rendered(chart, VARIANTS[variant])
    if "prometheusrule.yaml" in texts:  # compared with the rules themselves below
        head, _ = texts["prometheusrule.yaml"].split("  groups:")
        texts["prometheusrule.yaml"] = head + "  groups: …\n"
    text = "".join(f"# {name}\n{text.strip()}\n---\n" for name, text in sorted(texts.items()))
    same(f"helm_{variant}.yaml", re.sub(r"(  token: )\"\S+\"", r"\1generated", text))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_manifest_is_valid(chart, variant):
    if not SCHEMAS.exists():
        pytest.skip("the schemas of Kubernetes are not there")
    checked = 0
    for each in objects(chart, VARIANTS[variant]):
        group, _, version = each["apiVersion"].rpartition("/")
        stem = "-".join(filter(None, [each["kind"].lower(), group.split(".")[0], version]))
        path = SCHEMAS / f"v1.36.0-standalone-strict/{stem}.json"
        if group == "monitoring.coreos.com":
            path = SCHEMAS / f"crds/{each['kind'].lower()}_{version}.json"
        validator = jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))
        assert [error.message for error in validator.iter_errors(each)] == []
        checked += 1
    assert checked >= 4


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "everything"])
def test_ragmon_takes_the_rendered_settings(chart, variant, tmp_path):
    values = VARIANTS[variant]
    maps = [each for each in objects(chart, values) if each["kind"] == "ConfigMap"]
    assert len(maps) == 1
    got = settings(chart, tmp_path, values)
    assert (got.host, got.port, str(got.data_dir)) == ("0.0.0.0", 8321, "/data")
    names = ["chart", *(each["name"] for each in values.get("auth", {}).get("extraTokens", []))]
    assert [token.name for token in got.auth.tokens] == names
    sources = of_kind(chart, "StatefulSet", **values)["spec"]["template"]["spec"]["volumes"]
    (tokens,) = (each["projected"]["sources"] for each in sources if each["name"] == "tokens")
    files = {f"/run/ragmon/tokens/{each['secret']['items'][0]['path']}" for each in tokens}
    assert {str(token.token_file) for token in got.auth.tokens} == files


def test_numbers_of_the_user_arrive_whole(chart, tmp_path):
    got = settings(chart, tmp_path, VARIANTS["settings"])
    assert got.limits.queue == 134_217_728
    assert got.privacy.text == "redact"
    assert got.slices == ("tenant", "locale")


def test_the_rules_are_those_that_are_tested(chart):
    copied = {path.name: path.read_text(encoding="utf-8") for path in (CHART / "rules").iterdir()}
    source = {path.name: path.read_text(encoding="utf-8") for path in RULES.glob("*.yaml")}
    assert copied == source, "cp deploy/prometheus/rules/*.yaml helm/ragmon/rules/"
    expected = [
        group for _, text in sorted(source.items()) for group in yaml.safe_load(text)["groups"]
    ]
    rule = of_kind(chart, "PrometheusRule", prometheusRule={"enabled": True})
    assert rule["spec"]["groups"] == expected


def test_limits_and_runbooks_of_the_user_reach_the_rules(chart):
    values = {
        "enabled": True,
        "diskBytes": 53_687_091_200,
        "queueBytes": 5_000_000,
        "runbookUrl": "https://wiki.example.org/runbooks",
    }
    text = json.dumps(of_kind(chart, "PrometheusRule", prometheusRule=values))
    assert text.count("53687091200") == 2
    assert text.count("0.8 * 5000000") == 1
    assert "https://wiki.example.org/runbooks/RagmonDown.md" in text
    assert not re.search(r"10737418240|67108864|github\.com", text)


def test_the_pod_has_few_rights(chart):
    pod = of_kind(chart, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    rights = container(chart)["securityContext"]
    assert rights == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_probes_ask_what_they_mean(chart):
    asked = container(chart)
    paths = {name: asked[name]["httpGet"]["path"] for name in asked if name.endswith("Probe")}
    assert paths == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }


def test_a_change_of_settings_restarts_the_pod(chart):
    def checksum(**values):
        template = of_kind(chart, "StatefulSet", **values)["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum(service={"port": 80})
    assert checksum() != checksum(config={"max_series": 7})


def test_what_cannot_be_upgraded_keeps_still(chart):
    def fixed(**values):
        spec = of_kind(chart, "StatefulSet", **values)["spec"]
        return spec["selector"], spec["serviceName"], spec["volumeClaimTemplates"]

    changed = {"image": {"tag": "9.9.9"}, "commonLabels": {"a": "b"}, "podLabels": {"c": "d"}}
    assert fixed() == fixed(**changed)


def test_the_scraped_job_is_the_one_that_the_rules_select(chart):
    (endpoint,) = of_kind(chart, "ServiceMonitor", serviceMonitor={"enabled": True})["spec"][
        "endpoints"
    ]
    assert {"targetLabel": "job", "replacement": "ragmon"} in endpoint["relabelings"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"replicas": 2}, "replicas", id="two writers of one store"),
        pytest.param({"replica": 1}, "replica", id="a typo"),
        pytest.param({"image": {"tga": "1"}}, "tga", id="a typo inside"),
        pytest.param({"config": {"port": 1}}, "config.port is set by the chart", id="its own port"),
        pytest.param(
            {"config": {"auth": {"tokens": [{"name": "a", "token": "b"}]}}},
            "existingSecret",
            id="a token in a ConfigMap",
        ),
        pytest.param(
            {"config": {"auth": {"protect_metrics": True}}}, "probes", id="probes without a token"
        ),
        pytest.param(
            {"persistence": {"enabled": False, "existingClaim": "a"}},
            "existingClaim",
            id="a claim, unused",
        ),
        pytest.param(
            {"config": {"limits": {"queue": 5_000_000}}, "prometheusRule": {"enabled": True}},
            "queueBytes",
            id="an alert with another limit",
        ),
        pytest.param(
            {
                "auth": {
                    "extraTokens": [
                        {"name": "chart", "scopes": ["read"], "existingSecret": "a", "key": "b"}
                    ]
                }
            },
            "chart",
            id="two tokens of one name",
        ),
    ],
)
def test_what_cannot_work_is_refused(chart, values, message):
    with pytest.raises(helm_python.HelmError, match=re.escape(message)):
        rendered(chart, values)


def test_notes_warn_and_say_what_is_next(chart):
    assert "port-forward svc/rag-ragmon 8321:8321" in rendered(chart, {})["NOTES.txt"]
    assert "WARNING" not in rendered(chart, {})["NOTES.txt"]
    assert "WARNING: persistence is off" in rendered(chart, VARIANTS["ephemeral"])["NOTES.txt"]
    open_ = {"config": {"auth": {"allow_anonymous": True}}}
    assert "WARNING: config.auth.allow_anonymous" in rendered(chart, open_)["NOTES.txt"]


def test_every_value_is_explained():
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    # A leaf says what it is; groups are explained by their leaves.
    bare = [
        line
        for before, line in itertools.pairwise(lines)
        if re.match(r" *\w+: \S", line) and not before.lstrip().startswith("# -- ")
    ]
    start = lines.index("podSecurityContext:")
    end = lines.index("terminationGracePeriodSeconds: 30")
    assert [line for line in bare if line not in lines[start:end]] == []


def test_helm_finds_no_fault():
    found = helm_python.lint(CHART, strict=True)
    assert found["errors"] == []
    assert {each["error"] for each in found["messages"]} <= {"icon is recommended"}
