"""The source ``phoenix`` against a real server, where one is installed."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import requests

from tests.support.daemons import running
from tests.support.otlp import captured, truth
from tests.support.wait import eventually

OWN = Path(__file__).parents[2] / ".venv/tools/phoenix/bin"
MISSING = (
    "phoenix is not installed, also not by `make tools`, as it takes 855 MB: "
    "python -m venv .venv/tools/phoenix && .venv/tools/phoenix/bin/pip install arize-phoenix"
)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def server(tmp_path):
    program = shutil.which("phoenix", path=OWN) or shutil.which("phoenix")
    if program is None:
        pytest.skip(MISSING)
    port = free_port()
    environment = os.environ | {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "phoenix.log").open("wb") as log:
        process = subprocess.Popen([program, "serve"], stdout=log, stderr=log, env=environment)
        try:
            eventually(lambda: answers(url), "phoenix answers", 90)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def answers(url):
    try:
        return requests.get(f"{url}/healthz", timeout=5).ok
    except requests.ConnectionError:
        return False


def test_history_and_annotations_of_a_real_server(server, tmp_path):
    traces = truth("oi-llamaindex")["traces"]
    for request in captured("oi-llamaindex"):
        headers = {"Content-Type": request.content_type}
        assert requests.post(f"{server}/v1/traces", request.plain, headers=headers, timeout=30).ok
    rated = traces[0]["trace_id"]
    annotation = {"trace_id": rated, "name": "user feedback", "annotator_kind": "HUMAN"}
    annotation |= {"result": {"label": "thumbs_up", "score": 1}}

    def annotate():
        body = {"data": [annotation]}
        path = f"{server}/v1/trace_annotations?sync=true"
        return requests.post(path, json=body, timeout=30).ok

    eventually(annotate, "the trace can be annotated", 30)
    entry = {"kind": "phoenix", "name": "p", "url": server, "since": "2026-08-01T00:00:00Z"}
    entry |= {"every_s": 0.2, "settle_s": 0.5}
    settings = {"retention__records": "4000d", "retention__windows": "4000d"}
    settings |= {"otlp__linger": "0.2s", "otlp__idle_timeout": "1s"}
    with running(tmp_path / "data", sources=[entry], **settings) as site:

        def is_rated():
            answer = site.get(f"/v1/queries/{rated}")
            return answer.status == 200 and (answer.json["feedback"] or {}).get("rating") == 1.0

        eventually(is_rated, "the annotation is feedback", 60)
        for trace in traces:
            record = site.get(f"/v1/queries/{trace['trace_id']}").json["record"]
            assert record["query"] == trace["query"]
            if trace["n_docs_in_payload"]:
                ids = [chunk["id"] for chunk in record.get("chunks") or ()]
                assert ids == trace["doc_ids"]
