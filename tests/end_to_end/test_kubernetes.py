"""The chart and the manifests, installed into a real Kubernetes API server (`make kubernetes`).

There is neither kubelet nor controller: objects are admitted, defaulted and stored, no pod runs,
and what waits for the garbage collector is let go by hand.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import helm_python
import pytest
import requests
import yaml

from tests.support.chart import CHART, ROOT, VARIANTS, objects
from tests.support.tools import OWN, program
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

CRDS = {
    "monitoring.coreos.com": ("ServiceMonitor", "PodMonitor", "PrometheusRule"),
    "gateway.networking.k8s.io": ("HTTPRoute",),
    "grafana.integreatly.org": ("GrafanaDashboard",),
}
VERSIONS = {"GrafanaDashboard": "v1beta1"}  # of those that are not v1
# What the variant `everything` names.
CLASSES = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1,
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
    },
)
KEPT = "statefulset,service,configmap,serviceaccount,ingress,networkpolicy,poddisruptionbudget"
TOKEN = "of-this-test"


def definition(group: str, kind: str) -> dict:
    """A custom resource that takes any content; its structure is checked elsewhere."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": VERSIONS.get(kind, "v1"), "served": True, "storage": True}
    approved = {"api-approved.kubernetes.io": "unapproved, a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }


class Cluster:
    """An API server that is asked with kubectl and helm."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def run(self, name: str, *arguments: object, given: str | None = None) -> str:
        """A command's output; it must succeed."""
        done = subprocess.run(
            [program(name), f"--kubeconfig={self.kubeconfig}", *map(str, arguments)],
            input=given, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def names(self, kinds: str, namespace: str) -> list[str]:
        found = self.run("kubectl", "get", kinds, "-n", namespace, "-o", "name").split()
        return sorted(each for each in found if not each.endswith(("kube-root-ca.crt", "/default")))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def started(folder: Path, name: str, *flags: str) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([program(name), *flags], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if not (OWN / "kube-apiserver").exists():
        pytest.skip("there is no API server; `make kubernetes` builds one in five minutes")
    folder = tmp_path_factory.mktemp("cluster")
    key, tokens, config = folder / "sa.key", folder / "tokens", folder / "kubeconfig"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], capture_output=True, check=True)
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n", encoding="utf-8")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    url = f"https://127.0.0.1:{(port := free_port())}"
    config.touch(mode=0o600)
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "a", "cluster": {"server": url, "insecure-skip-tls-verify": True}}
                ],
                "users": [{"name": "a", "user": {"token": TOKEN}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "current-context": "a",
            }
        ),
        encoding="utf-8",
    )
    etcd = (
        "--data-dir", str(folder / "etcd"), "--listen-client-urls", client,
        "--advertise-client-urls", client, "--listen-peer-urls", peer,
    )  # fmt: skip
    server = (
        "--etcd-servers", client, "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--cert-dir", str(folder / "certs"), "--token-auth-file", str(tokens),
        "--authorization-mode", "AlwaysAllow", "--disable-admission-plugins", "ServiceAccount",
        "--service-account-issuer", "https://test", "--service-account-key-file", str(key),
        "--service-account-signing-key-file", str(key),
        "--service-cluster-ip-range", "10.99.0.0/16,fd00:99::/112",
    )  # fmt: skip
    with started(folder, "etcd", *etcd), started(folder, "kube-apiserver", *server):
        eventually(lambda: ready(folder, url), "the API server is ready", 60)
        made = Cluster(config)
        crds = [definition(group, kind) for group, kinds in CRDS.items() for kind in kinds]
        made.run("kubectl", "create", "-f", "-", given=yaml.safe_dump_all([*crds, *CLASSES]))
        for name in ("ops", "watching", "grafana", "ragmon"):
            made.run("kubectl", "create", "namespace", name)
        made.run("kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        yield made


def ready(folder: Path, url: str) -> bool:
    certificate = folder / "certs/apiserver.crt"
    if not certificate.exists():
        return False
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        return requests.get(f"{url}/readyz", headers=headers, verify=certificate, timeout=5).ok
    except requests.RequestException:
        return False


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_3_installs_upgrades_and_removes_every_variant(cluster, variant):
    namespace = f"of-{variant}"
    given = ("-n", namespace, "--values", CHART / f"ci/{variant}-values.yaml")
    told = cluster.run("helm3", "install", "rag", CHART, "--create-namespace", *given)
    assert "STATUS: deployed" in told
    assert "takes queries at" in told
    cluster.run("helm3", "upgrade", "rag", CHART, *given, "--set", "config.max_series=77")
    cluster.run("helm3", "uninstall", "rag", "-n", namespace)
    where = "watching" if variant == "everything" else namespace
    assert cluster.names(KEPT, where) == []


def test_another_size_of_the_volume_is_refused_before_anything_changes(cluster):
    given = ("-n", "larger", "--create-namespace")
    cluster.run("helm3", "install", "rag", CHART, *given)
    larger = ("upgrade", "rag", CHART, "-n", "larger", "--set", "persistence.size=20Gi")
    with pytest.raises(AssertionError, match=r"persistence\.size from 10Gi to 20Gi"):
        cluster.run("helm3", *larger)
    orphan = ("delete", "statefulset", "rag-ragmon", "--cascade=orphan", "--wait=false")
    cluster.run("kubectl", "-n", "larger", *orphan)
    let_go = ("--type=json", "--patch", '[{"op": "remove", "path": "/metadata/finalizers"}]')
    cluster.run("kubectl", "-n", "larger", "patch", "statefulset", "rag-ragmon", *let_go)
    cluster.run("helm3", *larger)


def test_what_helm_template_renders_is_applied_twice_without_a_change(cluster):
    rendered = [
        cluster.run(
            "helm3", "template", "rag", CHART, "-n", "ops", "--no-hooks", "--kube-version=1.31"
        )
        for _ in range(2)
    ]
    assert rendered[0] == rendered[1]
    # kubectl sends again what the server has filled in (a claim's template): nothing is written.
    written = []
    for given in rendered:
        cluster.run("kubectl", "apply", "-n", "ops", "-f", "-", given=given)
        kept = cluster.run("kubectl", "get", KEPT, "-n", "ops", "-o", "yaml")
        written.append(
            {
                (each["kind"], each["metadata"]["name"]): each["metadata"]["resourceVersion"]
                for each in yaml.safe_load(kept)["items"]
            }
        )
    assert written[0] == written[1]
    assert ("StatefulSet", "rag-ragmon") in written[0]
    cluster.run("kubectl", "delete", "-n", "ops", "-f", "-", given=rendered[0])


@contextmanager
def helm_4(cluster: Cluster, namespace: str) -> Iterator[helm_python.Config]:
    """Helm 4, as it stores releases in a namespace."""
    kubeconfig = cluster.kubeconfig.read_text(encoding="utf-8")
    with helm_python.Config(kubeconfig_content=kubeconfig, namespace=namespace) as config:
        yield config


@pytest.mark.parametrize("variant", ["default", "monitoring", "networkpolicy", "settings"])
def test_helm_4_takes_over_what_helm_3_installed(cluster, variant):
    namespace = f"from-3-{variant}"
    given = CHART / f"ci/{variant}-values.yaml"
    cluster.run(
        "helm3", "install", "rag", CHART, "-n", namespace, "--create-namespace", "-f", given
    )
    kinds = cluster.names(KEPT, namespace)
    values = VARIANTS[variant] | {"config": {"max_series": 77}}
    with helm_4(cluster, namespace) as helm, helm_python.Chart.load(CHART) as chart:
        helm.upgrade(chart, "rag", values, namespace=namespace)
        settings = cluster.run(
            "kubectl", "get", "configmap", "rag-ragmon", "-n", namespace, "-o", "yaml"
        )
        assert "max_series: 77" in settings
        assert cluster.names(KEPT, namespace) == kinds
        helm.uninstall("rag")
    assert cluster.names(KEPT, namespace) == []


def test_the_server_knows_every_field(cluster):
    with helm_python.Chart.load(CHART) as chart:
        found = [each for values in VARIANTS.values() for each in objects(chart, values)]
    kinds = {each["kind"] for each in found}
    assert {"StatefulSet", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "Pod"} <= kinds
    strict = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    cluster.run("kubectl", *strict, given=yaml.safe_dump_all(found))


@pytest.mark.parametrize("overlay", ["base", "overlays/production"])
def test_kubectl_applies_the_manifests(cluster, overlay):
    folder = ROOT / "deploy/kubernetes" / overlay
    cluster.run("kubectl", "apply", "-k", folder, "--validate=strict")
    assert "statefulset.apps/ragmon" in cluster.names(KEPT, "ragmon")
    cluster.run("kubectl", "delete", "-k", folder)
    assert cluster.names(KEPT, "ragmon") == []
