"""The chart's pod, done by hand: its settings, its probes, and the script of `helm test`."""

import os
import subprocess
import sys

import helm_python
import pytest

from tests.support.chart import CHART, VARIANTS, container, of_kind
from tests.support.daemons import Process

pytestmark = pytest.mark.end_to_end

TOKENS = {"chart": "of-the-chart", "checkout": "of-checkout"}


@pytest.fixture(scope="module")
def chart():
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture
def served(chart, tmp_path):
    """ragmon with the rendered settings of a variant; files stand elsewhere."""

    def serve(variant: str) -> Process:
        text = of_kind(chart, "ConfigMap", **VARIANTS[variant])["data"]["ragmon.yaml"]
        config = tmp_path / "ragmon.yaml"
        config.write_text(text.replace("/run/ragmon/tokens", str(tmp_path)), encoding="utf-8")
        for name, token in TOKENS.items():
            (tmp_path / name).write_text(f"{token}\n", encoding="utf-8")
        flags = ("--config", str(config), "--host", "127.0.0.1")
        return Process(tmp_path / "data", *flags)

    return serve


def helm_test(chart, variant: str, url: str, token: str = "") -> int:
    """Exit status of the script of `helm test`, sent to this address; the pod may have no token."""
    asked = of_kind(chart, "Pod", **VARIANTS[variant])["spec"]["containers"][0]
    (script,) = asked["args"]
    assert asked["command"] == ["python", "-c"]
    assert "http://rag-ragmon:8321" in script
    return subprocess.run(
        [sys.executable, "-c", script.replace("http://rag-ragmon:8321", url)],
        env=os.environ | ({"TOKEN": token} if token else {}), capture_output=True, check=False,
    ).returncode  # fmt: skip


def check_pod(chart, variant: str, site: Process, sender: str) -> None:
    """The probes are open, the rest is not, and senders only send."""
    asked = container(chart, **VARIANTS[variant])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert site.get(asked[probe]["httpGet"]["path"]).status == 200
    assert site.get("/v1/report").status == 401
    sent = site.with_token(sender)
    assert sent.post("/v1/queries", {"query_id": "a"}).status == 200
    assert sent.get("/v1/report").status == 403


def test_a_pod_with_tokens_of_a_secret_answers_its_probes_and_helm_test(chart, served):
    with served("existing") as site:
        assert helm_test(chart, "existing", site.url, TOKENS["chart"]) == 0
        assert helm_test(chart, "existing", site.url, "a guess") != 0
        check_pod(chart, "existing", site, TOKENS["checkout"])


def test_a_pod_that_makes_its_tokens_answers_its_probes_and_helm_test(chart, served, tmp_path):
    with served("settings") as site:
        assert helm_test(chart, "settings", site.url) == 0
        check_pod(
            chart, "settings", site, (tmp_path / "data/tokens/chart-ingest").read_text().strip()
        )
