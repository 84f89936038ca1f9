"""deploy/kubernetes, for those without Helm: rendered from the chart, and as kustomize sees it."""

import os
import subprocess

import helm_python
import pytest
import yaml

from ragmon.config import load
from tests.support.chart import CHART, ROOT, faults
from tests.support.tools import program

FOLDER = ROOT / "deploy/kubernetes"
VALUES = {
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "networkPolicy": {"enabled": True},
}
# Of Helm itself; kustomize hashes the settings, and the namespace is the user's.
HELM = {"helm.sh/chart", "app.kubernetes.io/managed-by", "checksum/config", "namespace"}
PARTS = {
    "base/ragmon.yaml": {"ServiceAccount", "Service", "StatefulSet"},
    "monitoring/monitoring.yaml": {"ServiceMonitor", "PrometheusRule"},
    "network-policy/network-policy.yaml": {"NetworkPolicy"},
}


def without_helm(part: object) -> object:
    """The same without what only Helm needs."""
    if isinstance(part, list):
        return [without_helm(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {key: without_helm(value) for key, value in part.items() if key not in HELM}
    return {key: value for key, value in kept.items() if value != {} or part[key] == {}}


def made() -> dict[str, str]:
    """Every rendered file, by its path."""
    with helm_python.Chart.load(CHART) as chart:
        out = chart.render(values=VALUES, name="ragmon", namespace="ragmon")
    texts = [
        text for name, text in sorted(out.items()) if not name.endswith(("NOTES.txt", "ready.yaml"))
    ]
    found = [each for text in texts for each in yaml.safe_load_all(text) if each]
    (settings,) = (
        each for each in found if each["metadata"]["name"] == "ragmon" and "data" in each
    )
    found.remove(settings)
    files = {"base/settings.yaml": settings["data"]["ragmon.yaml"] + "\n"}
    for path, kinds in PARTS.items():
        some = [without_helm(each) for each in found if each["kind"] in kinds]
        found = [each for each in found if each["kind"] not in kinds]
        text = yaml.safe_dump_all(some, sort_keys=False, width=100, allow_unicode=True)
        files[path] = f"# Rendered from helm/ragmon by `make golden`.\n{text}"
    assert found == []
    return files


def built(overlay: str) -> list[dict]:
    """What `kubectl apply -k` would send."""
    command = [program("kubectl"), "kustomize", FOLDER / overlay]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_golden_files_are_the_charts():
    for path, text in made().items():
        if os.environ.get("GOLDEN"):
            (FOLDER / path).write_text(text, encoding="utf-8")
        assert (FOLDER / path).read_text(encoding="utf-8") == text, "run `make golden`"


@pytest.mark.parametrize(
    ("overlay", "kinds"),
    [
        ("base", {"ConfigMap", *PARTS["base/ragmon.yaml"]}),
        ("overlays/production", {"ConfigMap"}.union(*PARTS.values())),
    ],
)
def test_kustomize_makes_valid_manifests(overlay, kinds, tmp_path):
    manifests = built(overlay)
    assert list(faults(manifests)) == []
    assert {each["kind"] for each in manifests} == kinds
    assert {each["metadata"]["namespace"] for each in manifests} == {"ragmon"}
    (settings,) = (each for each in manifests if "ragmon.yaml" in each.get("data", {}))
    path = tmp_path / "ragmon.yaml"
    path.write_text(settings["data"]["ragmon.yaml"], encoding="utf-8")
    got = load(path, environment={}).settings
    assert (got.host, str(got.data_dir), got.auth.tokens[0].name) == ("0.0.0.0", "/data", "chart")
    (pod,) = (
        each["spec"]["template"]["spec"] for each in manifests if each["kind"] == "StatefulSet"
    )
    named = {each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each}
    assert named == {settings["metadata"]["name"]}
    assert settings["metadata"]["name"] != "ragmon"  # a hash, so that a change restarts the pod


def test_the_example_changes_what_it_says():
    (found,) = (each for each in built("overlays/production") if each["kind"] == "StatefulSet")
    (claim,) = found["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "50Gi"
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
