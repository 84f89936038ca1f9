"""Metrics, and incidents as events, through a real OpenTelemetry Collector and straight.

The Collector is `otelcol` in .venv/tools (`make collector`).
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from ragmon.alerts import WorstQuery
from ragmon.clock import SystemClock
from ragmon.sinks import SinkContext, otlp
from tests.support.alerts import LINKS, notice, rich_alert
from tests.support.daemons import running
from tests.support.metrics import samples, total
from tests.support.otlp_metrics import checked
from tests.support.receiver import Reply, receiving
from tests.support.tools import OWN
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "{address}"}}}}}}}}
exporters: {{otlp_http: {{endpoint: "{backend}", compression: none}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [otlp_http]}}
    logs: {{receivers: [otlp], exporters: [otlp_http]}}
"""
ODD = 'a "b"\n\\é💥'
LATENCIES_MS = np.random.default_rng(7).lognormal(6.0, 1.2, 200).tolist()
COUNTED = len(LATENCIES_MS)
OF_PIPELINE = frozenset({("pipeline", ODD), ("version", "v1")})
TOTAL = frozenset({("pipeline", ODD), ("stage", "total")})


@contextmanager
def straight(folder: Path, backend: str) -> Iterator[str]:
    """Nothing in between."""
    yield backend


@contextmanager
def collector(folder: Path, backend: str) -> Iterator[str]:
    """A Collector that passes everything on; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config, output = folder / "collector.yaml", folder / "collector.log"
    config.write_text(CONFIG.format(address=address, backend=backend), encoding="utf-8")
    with output.open("wb") as log:
        process = subprocess.Popen([OWN / "otelcol", "--config", config], stdout=log, stderr=log)

    def answers() -> bool:
        assert process.poll() is None, output.read_text(encoding="utf-8")
        host, _, port = address.partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    try:
        eventually(answers, "the Collector listens", 30)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(10)


WAYS = [
    pytest.param(straight, id="straight"),
    pytest.param(
        collector,
        id="collector",
        marks=pytest.mark.skipif(
            not (OWN / "otelcol").exists(), reason="no Collector: run `make collector`"
        ),
    ),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("histograms", ["explicit", "exponential"])
def test_a_backend_gets_what_the_page_shows(tmp_path, way, histograms):
    with receiving() as backend, way(tmp_path, backend.url) as url:
        backend.answer = lambda _: Reply(200, {}, b"")  # an answer of OTLP without a message
        settings = {
            "metrics__otlp__endpoint": f"{url}/v1/metrics",
            "metrics__otlp__every": 0.5,
            "metrics__otlp__histograms": histograms,
        }
        with running(tmp_path / "data", **settings) as site:
            now = SystemClock().now()
            queries = [
                {"pipeline": ODD, "version": "v1", "timestamp": now, "latency_ms": latency,
                 "chunks": [{"id": "a", "score": 0.5}], "trace_id": f"{at:032x}"}
                for at, latency in enumerate(LATENCIES_MS)
            ]  # fmt: skip
            assert site.post("/v1/queries", queries).json["accepted"] == COUNTED

            def arrived() -> bool:
                newest = checked(backend.posts[-1]) if backend.posts else {}
                point = newest.get(("ragmon_queries_total", OF_PIPELINE))
                return point is not None and point.as_double == COUNTED

            eventually(arrived, "all queries were exported", 30)
            points = checked(backend.posts[-1])
            page = site.page()
    assert {post.path for post in backend.posts} == {"/v1/metrics"}
    assert total(page, "ragmon_metrics_exports_total", outcome="sent") >= 1
    assert total(page, "ragmon_metrics_exports_total", outcome="refused") == 0
    assert total(page, "ragmon_metrics_export_rejected_points_total") == 0
    shown = {
        (each.name, frozenset(each.labels.items())): each.value
        for each in samples(page)
        if each.labels.get("pipeline") == ODD and not each.name.endswith(("_bucket", "_sum"))
    }
    counts = {key for key in shown if key[0].endswith("_count")}
    assert len(shown) > 50
    for key in shown.keys() - counts:
        assert points[key].as_double == shown[key], key
    durations = points["ragmon_query_duration_seconds", TOTAL]
    assert durations.count == COUNTED
    assert durations.sum == pytest.approx(sum(LATENCIES_MS) / 1000)
    assert durations.exemplars
    is_exponential = hasattr(durations, "positive")
    assert is_exponential == (histograms == "exponential")


@pytest.mark.parametrize("way", WAYS)
def test_a_backend_gets_incidents_as_events_on_their_traces(tmp_path, way):
    trace_id, span_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    plain = rich_alert()
    worst = (WorstQuery("q-17", ODD, "no relevant chunk", trace_id, span_id),)
    news = notice("opened", replace(plain, evidence=replace(plain.evidence, worst=worst)))
    with receiving() as backend, way(tmp_path, backend.url) as url:
        backend.answer = lambda _: Reply(200, {}, b"")
        sink = otlp.build(otlp.Options(url=url), SinkContext(SystemClock(), LINKS))
        sink.deliver(news)
        eventually(lambda: backend.posts, "the event arrived", 30)
        [post] = backend.posts
    assert post.path == "/v1/logs"
    request = ExportLogsServiceRequest.FromString(post.body)
    [record] = request.resource_logs[0].scope_logs[0].log_records
    assert (record.trace_id.hex(), record.span_id.hex()) == (trace_id, span_id)
    assert record.event_name == "ragmon.incident"
    known = {pair.key: pair.value.string_value for pair in record.attributes}
    assert known["ragmon.incident.id"] == news.incident_id
