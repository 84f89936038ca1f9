"""Just enough of Kubernetes on loopback for Helm: it keeps what is applied and answers with it."""

import contextlib
import copy
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import yaml

_CORE = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "services": "Service",
    "serviceaccounts": "ServiceAccount",
    "pods": "Pod",
}


def _resources(group: str, kinds: dict[str, str]) -> dict[str, Any]:
    verbs = ["get", "create", "patch", "update"]
    resources = [
        {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
        for name, kind in kinds.items()
    ]
    return {"kind": "APIResourceList", "groupVersion": group, "resources": resources}


class KubernetesApi:
    """Objects by path; ``kubeconfig`` leads Helm to them."""

    def __init__(self) -> None:
        apps = {"groupVersion": "apps/v1", "version": "v1"}
        group = {"name": "apps", "versions": [apps], "preferredVersion": apps}
        self._answers = {
            "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "groups": [group]},
            "/api/v1": _resources("v1", _CORE),
            "/apis/apps/v1": _resources("apps/v1", {"statefulsets": "StatefulSet"}),
        }
        self.objects: dict[str, dict[str, Any]] = {}
        self.kubeconfig = ""

    def put(self, manifest: dict[str, Any]) -> None:
        """Have an object, as if somebody had applied it."""
        metadata = manifest["metadata"]
        root = "api/v1" if manifest["apiVersion"] == "v1" else f"apis/{manifest['apiVersion']}"
        kind = manifest["kind"].lower()
        path = f"/{root}/namespaces/{metadata['namespace']}/{kind}s/{metadata['name']}"
        self.objects[path] = manifest

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """All objects as they are now."""
        return copy.deepcopy(self.objects)

    def answer(self, path: str) -> dict[str, Any] | None:
        """What is at a path."""
        return self._answers.get(path) or self.objects.get(path)


@contextlib.contextmanager
def api_server() -> Iterator[KubernetesApi]:
    """A server that is empty at first."""
    api = KubernetesApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            if path == "/openapi/v2":  # no schemas: Helm then leaves validation out
                media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
                self._reply(200, b"", media)
            elif (found := api.answer(path)) is not None:
                self._reply(200, json.dumps(found).encode())
            else:
                self._reply(404, b'{"kind": "Status", "reason": "NotFound", "code": 404}')

        def do_PATCH(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            manifest = yaml.safe_load(body)
            api.put(manifest)
            self._reply(200, json.dumps(manifest).encode())

        def _reply(self, code, body, media="application/json"):
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
        address = {"server": f"http://127.0.0.1:{server.server_port}"}
        api.kubeconfig = yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "a", "cluster": address}],
                "users": [{"name": "a", "user": {}}],
                "contexts": [
                    {"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "ops"}}
                ],
                "current-context": "a",
            }
        )
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
