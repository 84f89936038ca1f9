"""The Helm chart, rendered by the engines of Helm 4 (in this process) and Helm 3 (the command)."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import pytest
import yaml

from tests.support.tools import program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm/ragmon"
SCHEMAS = ROOT.parent / "shared/schemas/kubernetes"
VARIANTS = {
    path.name.removesuffix("-values.yaml"): yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((CHART / "ci").glob("*-values.yaml"))
}
# Kinds without a schema there; their own tests look at them.
UNCHECKED = {"GrafanaDashboard", "HTTPRoute"}
HEADLESS = "ragmon.dev/headless"
WORKER = "-worker"  # how names end of what belongs to workers


def texts(chart: helm_python.Chart, values: dict[str, Any]) -> dict[str, str]:
    """Templates that gave something, without the folder in their name."""
    out = chart.render(values=values, name="rag", namespace="ops")
    return {name.split("templates/")[1]: text for name, text in out.items() if text.strip()}


def objects(chart: helm_python.Chart, values: dict[str, Any]) -> list[dict[str, Any]]:
    """What would be installed, by Helm 4."""
    found = texts(chart, values)
    found.pop("NOTES.txt")
    return [each for text in found.values() for each in yaml.safe_load_all(text) if each]


def helm3_objects(variant: str) -> list[dict[str, Any]]:
    """What would be installed, by Helm 3."""
    given = CHART / f"ci/{variant}-values.yaml"
    command = [program("helm3"), "template", "rag", CHART, "--namespace", "ops", "--values", given]
    command += ["--kube-version", "1.33.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(chart: helm_python.Chart, kind: str, **values: Any) -> dict[str, Any]:
    """The one object of a kind that is no worker's; of the Services, the one not headless."""
    (found,) = (
        each
        for each in objects(chart, values)
        if each["kind"] == kind
        and HEADLESS not in each["metadata"]["labels"]
        and not each["metadata"]["name"].endswith(WORKER)
    )
    return found


def of_workers(chart: helm_python.Chart, kind: str, **values: Any) -> dict[str, Any]:
    """The one object of a kind that is the workers'."""
    (found,) = (
        each
        for each in objects(chart, values)
        if each["kind"] == kind and each["metadata"]["name"].endswith(WORKER)
    )
    return found


def pod(chart: helm_python.Chart, **values: Any) -> dict[str, Any]:
    """The pod's specification."""
    (workload,) = (
        each
        for each in objects(chart, values)
        if each["kind"] in ("StatefulSet", "Deployment")
        and not each["metadata"]["name"].endswith(WORKER)
    )
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def container(chart: helm_python.Chart, **values: Any) -> dict[str, Any]:
    """ragmon's container."""
    found: dict[str, Any] = pod(chart, **values)["containers"][0]
    return found


def faults(manifests: list[dict[str, Any]]) -> Iterator[str]:
    """What Kubernetes would not take, of every object.

    Skips the test where the schemas are not there.
    """
    if not SCHEMAS.exists():
        pytest.skip("the schemas of Kubernetes are not there")
    for each in manifests:
        if each["kind"] in UNCHECKED:
            continue
        group, _, version = each["apiVersion"].rpartition("/")
        stem = "-".join(filter(None, [each["kind"].lower(), group.split(".")[0], version]))
        path = SCHEMAS / f"v1.36.0-standalone-strict/{stem}.json"
        if group == "monitoring.coreos.com":
            path = SCHEMAS / f"crds/{each['kind'].lower()}_{version}.json"
        validator = jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))
        for error in validator.iter_errors(each):
            yield f"{each['kind']} {'.'.join(map(str, error.path))}: {error.message}"
