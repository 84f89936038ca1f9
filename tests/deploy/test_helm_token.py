"""The chart's own token: the first installation makes one, and no later one changes it."""

import base64
import contextlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import helm_python
import pytest
import yaml

from tests.support.paths import ROOT

CHART = ROOT / "helm/ragmon"
SECRETS = "/api/v1/namespaces/ops/secrets"
KINDS = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "services": "Service",
    "serviceaccounts": "ServiceAccount",
    "pods": "Pod",
}


def resources(group: str, kinds: dict[str, str]) -> dict:
    names = [
        {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
        for name, kind in kinds.items()
    ]
    return {"kind": "APIResourceList", "groupVersion": group, "resources": names}


def answers(secret: dict | None) -> dict[str, dict]:
    """What an API server says that holds nothing, or this one Secret."""
    apps = {"groupVersion": "apps/v1", "version": "v1"}
    group = {"name": "apps", "versions": [apps], "preferredVersion": apps}
    found = {
        "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": [group]},
        "/api/v1": resources("v1", KINDS),
        "/apis/apps/v1": resources("apps/v1", {"statefulsets": "StatefulSet"}),
    }
    if secret is not None:
        found[f"{SECRETS}/{secret['metadata']['name']}"] = secret
    return found


@contextlib.contextmanager
def api_server(secret: dict | None):
    """Just enough of Kubernetes on loopback for Helm's `lookup`; yields a kubeconfig."""
    known = answers(secret)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            code, media = 200, "application/json"
            if path == "/openapi/v2":  # no schemas: Helm then leaves validation out
                body, media = b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            elif path in known:
                body = json.dumps(known[path]).encode()
            else:
                code, body = 404, b'{"kind": "Status", "reason": "NotFound", "code": 404}'
            self.send_response(code)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        named = {"cluster": "a", "user": "a", "namespace": "ops"}
        yield yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
                ],
                "users": [{"name": "a", "user": {}}],
                "contexts": [{"name": "a", "context": named}],
                "current-context": "a",
            }
        )
        server.shutdown()
        thread.join()


def tokens(secret: dict | None, values: dict | None = None) -> dict[str, str]:
    """The tokens that Helm would install into a cluster with this Secret, by key."""
    with (
        api_server(secret) as kubeconfig,
        helm_python.Config(
            kubeconfig_content=kubeconfig, namespace="ops", storage_driver="memory"
        ) as cluster,
        helm_python.Chart.load(CHART) as chart,
    ):
        release = cluster.install(chart, "rag", values, namespace="ops", dry_run="server")
    manifests = yaml.safe_load_all(release["manifest"])
    (made,) = (each for each in manifests if each and each["kind"] == "Secret")
    return {key: base64.b64decode(text).decode() for key, text in made["data"].items()}


def kept(**data: str) -> dict:
    owner = {"meta.helm.sh/release-name": "rag", "meta.helm.sh/release-namespace": "ops"}
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "rag-ragmon-token",
            "namespace": "ops",
            "labels": labels,
            "annotations": owner,
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def test_the_first_installation_makes_tokens_nobody_knows():
    first, second = tokens(None), tokens(None)
    assert first.keys() == second.keys() == {"token", "ingest-token"}
    made = [*first.values(), *second.values()]
    assert [len(each) for each in made] == [40] * 4
    assert len(set(made)) == 4


@pytest.mark.parametrize(
    ("secret", "values"),
    [
        pytest.param(kept(token="of-old"), {}, id="as it was"),
        pytest.param(kept(token="of-old"), {"image": {"tag": "9.9.9"}}, id="a new release"),
        pytest.param(kept(mine="of-old"), {"auth": {"key": "mine"}}, id="under another key"),
    ],
)
def test_an_upgrade_from_a_chart_with_one_token_keeps_it_and_makes_the_senders(secret, values):
    found = tokens(secret, values)
    assert found.pop((values.get("auth") or {}).get("key", "token")) == "of-old"
    (ingest,) = found.values()
    assert len(ingest) == 40


def test_an_upgrade_keeps_both_tokens():
    secret = kept(**{"token": "of-old", "ingest-token": "of-old-as-well"})
    assert tokens(secret) == {"token": "of-old", "ingest-token": "of-old-as-well"}


def test_the_senders_key_may_be_named():
    assert tokens(None, {"auth": {"ingestKey": "app"}}).keys() == {"token", "app"}
