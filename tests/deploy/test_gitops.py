"""The chart under GitOps: applied again it changes nothing, and what cannot work fails early."""

import contextlib

import helm_python
import pytest
import yaml

from ragmon.config import load
from tests.support.api_server import KubernetesApi, api_server
from tests.support.chart import CHART, VARIANTS, helm3_objects, objects, texts
from tests.support.daemons import running

SET = "/apis/apps/v1/namespaces/ops/statefulsets/rag-ragmon"


@pytest.fixture(scope="module")
def chart():
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture
def cluster():
    with api_server() as api:
        yield api


@contextlib.contextmanager
def helm(cluster: KubernetesApi):
    """Helm 4 at this cluster, which holds its releases itself."""
    with helm_python.Config(
        kubeconfig_content=cluster.kubeconfig, namespace="ops", storage_driver="memory"
    ) as config:
        yield config


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_renders_the_same_twice(chart, variant):
    first = texts(chart, VARIANTS[variant])
    with helm_python.Chart.load(CHART) as again:
        assert texts(again, VARIANTS[variant]) == first
    assert helm3_objects(variant) == helm3_objects(variant)
    assert [each for each in objects(chart, VARIANTS[variant]) if each["kind"] == "Secret"] == []


def test_rendered_and_applied_twice_a_sender_keeps_its_200(chart, cluster, tmp_path):
    def daemon_of_the_cluster():
        config = cluster.objects["/api/v1/namespaces/ops/configmaps/rag-ragmon"]
        path = tmp_path / "ragmon.yaml"
        path.write_text(config["data"]["ragmon.yaml"], encoding="utf-8")
        tokens = yaml.safe_load(path.read_text(encoding="utf-8"))["auth"]["tokens"]
        assert load(path, {}, {}).settings.auth.tokens[1].name == "chart-ingest"
        return running(tmp_path / "volume", auth__tokens=tokens)

    with helm(cluster) as client:
        client.install(chart, "rag", {}, namespace="ops")
        applied = cluster.snapshot()
        with daemon_of_the_cluster() as site:
            token = (tmp_path / "volume/tokens/chart-ingest").read_text(encoding="utf-8").strip()
            assert site.with_token(token).post("/v1/queries", {"query_id": "a"}).status == 200
        client.upgrade(chart, "rag", {}, namespace="ops")
        assert cluster.snapshot() == applied  # no pod restarts, and if one does:
        with daemon_of_the_cluster() as site:
            assert site.with_token(token).post("/v1/queries", {"query_id": "b"}).status == 200
            assert site.post("/v1/queries", {"query_id": "c"}).status == 401


def test_a_replaced_secret_needs_no_new_pod(chart):
    values = VARIANTS["existing"]
    (statefulset,) = (each for each in objects(chart, values) if each["kind"] == "StatefulSet")
    (tokens,) = (
        each
        for each in statefulset["spec"]["template"]["spec"]["volumes"]
        if each["name"] == "tokens"
    )
    mounts = statefulset["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert "projected" in tokens
    assert [each for each in mounts if "subPath" in each] == []  # the kubelet renews no subPath


def earlier_secret(**data: str) -> dict:
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    metadata = {"name": "rag-ragmon-token", "namespace": "ops", "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def upgrade(cluster: KubernetesApi, chart, values: dict, before=lambda: None) -> None:
    with helm(cluster) as client:
        client.install(chart, "rag", {}, namespace="ops")
        before()
        client.upgrade(chart, "rag", values, namespace="ops")


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param({"token": "YQ=="}, "existingSecret=rag-ragmon-token,", id="one token"),
        pytest.param(
            {"token": "YQ==", "ingest-token": "Yg=="},
            "existingSecret=rag-ragmon-token,auth.ingestKey=ingest-token",
            id="two tokens",
        ),
    ],
)
def test_an_upgrade_that_would_lock_senders_out_is_refused(cluster, chart, data, keys):
    secret = earlier_secret(**data)
    with pytest.raises(helm_python.HelmError, match=keys):
        upgrade(cluster, chart, {}, lambda: cluster.put(secret))
    cluster.objects.clear()
    kept = {"auth": {"existingSecret": "rag-ragmon-token", "ingestKey": "ingest-token"}}
    upgrade(cluster, chart, kept, lambda: cluster.put(secret))
    cluster.objects.clear()
    secret["metadata"]["labels"].clear()  # somebody else's
    upgrade(cluster, chart, {}, lambda: cluster.put(secret))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(
            {"persistence": {"size": "20Gi"}},
            r'"storage":"20Gi".* delete statefulset rag-ragmon --cascade=orphan',
            id="a larger volume",
        ),
        pytest.param({"persistence": {"size": "9Gi"}}, "from 10Gi to 9Gi", id="a smaller one"),
        pytest.param({"persistence": {"enabled": False}}, "own", id="no volume any more"),
        pytest.param({"persistence": {"existingClaim": "a"}}, "own", id="another volume"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_before(cluster, chart, values, message):
    with pytest.raises(helm_python.HelmError, match=message):
        upgrade(cluster, chart, values)
    # What the message says to do lets the same upgrade pass.
    cluster.objects.clear()
    upgrade(cluster, chart, values, lambda: cluster.objects.pop(SET))
    claims = cluster.objects[SET]["spec"].get("volumeClaimTemplates", [])
    size = values["persistence"].get("size")
    assert [each["spec"]["resources"]["requests"]["storage"] for each in claims] == (
        [size] if size else []
    )


@pytest.mark.parametrize("size", ["10Gi", "10240Mi", "10737418240"])
def test_the_same_size_in_other_units_is_no_change(cluster, chart, size):
    upgrade(cluster, chart, {"persistence": {"size": size}})


def test_the_service_of_an_earlier_chart_is_refused_with_the_remedy(cluster, chart):
    def earlier():
        cluster.objects[SET]["spec"]["serviceName"] = "rag-ragmon"

    with pytest.raises(helm_python.HelmError, match=r"rag-ragmon-headless.*--cascade=orphan"):
        upgrade(cluster, chart, {}, earlier)
