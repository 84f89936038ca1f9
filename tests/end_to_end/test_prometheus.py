"""A real Prometheus scrapes a real daemon and answers PromQL."""

from contextlib import contextmanager

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import Process
from tests.support.prometheus import Prometheus, run_prometheus
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

TOKENS = "[{name: prometheus, token: scrape-me, scopes: [read]}, {name: app, token: send}]"

SCRAPE = """
global:
  scrape_interval: {every_ms}ms
  scrape_timeout: {every_ms}ms
  evaluation_interval: {every_ms}ms
rule_files: [{rules}]
scrape_configs:
  - job_name: ragmon
    authorization: {{credentials: scrape-me}}
    static_configs: [{{targets: ["{target}"]}}]
"""


@contextmanager
def scraping(folder, target: str, every_ms: int = 500, rules: str = ""):
    """A Prometheus on a free port; it evaluates the rules of the files that are named."""
    config = folder / "prometheus.yml"
    text = SCRAPE.format(target=target, every_ms=every_ms, rules=rules)
    config.write_text(text, encoding="utf-8")
    flags = ("--enable-feature=exemplar-storage", "--query.lookback-delta=5m")
    with run_prometheus(folder, config, *flags) as site:
        yield site


def logged(first: int, count: int) -> list[dict]:
    now = SystemClock().now()
    return [
        {
            "query_id": f"p-{at}",
            "timestamp": now - 5,
            "pipeline": "shop",
            "version": "v1",
            "chunks": [] if at % 4 == 0 else [{"id": "a", "score": 0.8}, {"id": "b", "score": 0.4}],
            "citations": [] if at % 4 == 0 else ["a"],
            "latency_ms": 120.0 if at % 10 else 7_000.0,
            "trace_id": f"{at:032x}",
        }
        for at in range(first, first + count)
    ]


TOTAL = 'ragmon_queries_total{pipeline="shop"}'


def check_counters(prometheus: Prometheus) -> None:
    """As dashboards use them."""
    assert prometheus.value(f"sum(increase({TOTAL}[1m])) > 0")
    by_version = prometheus.values("sum by (version) (ragmon_zero_result_queries_total)")
    assert by_version == {'{"version": "v1"}': 50}
    slow = prometheus.value(
        "histogram_quantile(0.95, sum by (le) "
        '(ragmon_query_duration_seconds_bucket{stage="total"}))'
    )
    assert 5 < slow <= 10


def check_gauges(prometheus: Prometheus) -> None:
    """A ratio with its companions, joined on equal labels; quantiles; slices."""
    ratio = 'ragmon_zero_result_ratio{pipeline="shop",window="5m"}'
    assert prometheus.value(ratio) == 0.25
    within = f"{ratio} >= ragmon_zero_result_ratio_lower <= ragmon_zero_result_ratio_upper"
    assert prometheus.value(within) == 0.25
    assert prometheus.value(f"ragmon_zero_result_ratio_samples and {ratio}") == 200
    median = 'ragmon_latency_seconds{stage="total",quantile="0.5",window="5m"}'
    assert prometheus.value(median) == pytest.approx(0.12, rel=0.01)
    assert prometheus.value('ragmon_slice_window_queries{value="v1",window="1h"}') == 200
    assert prometheus.value("ragmon_build_info") == 1


def check_metadata(prometheus: Prometheus) -> None:
    """Types and help as Prometheus understood them."""
    metadata = prometheus.ask("metadata")
    for name, kind in (
        ("ragmon_queries", "counter"),
        ("ragmon_query_duration_seconds", "histogram"),
        ("ragmon_zero_result_ratio", "gauge"),
        ("ragmon_latency_seconds", "summary"),
    ):
        assert metadata[name][0]["type"] == kind
        assert metadata[name][0]["help"]


def slow_query(prometheus: Prometheus) -> str:
    """The query that the exemplar of a slow bucket leads to."""
    now = SystemClock().now()
    asked = {"start": now - 600, "end": now + 60}
    bucket = 'ragmon_query_duration_seconds_bucket{stage="total",le="10.0"}'
    exemplars = eventually(
        lambda: prometheus.ask("query_exemplars", query=bucket, **asked), "exemplars are kept"
    )
    found = exemplars[0]["exemplars"][0]
    assert float(found["value"]) == 7
    return f"p-{int(found['labels']['trace_id'], 16)}"


def test_a_real_prometheus_scrapes_and_answers(tmp_path):
    flags = ("--auth.tokens", TOKENS, "--auth.protect_metrics", "true")
    with Process(tmp_path / "data", *flags, ready=False) as site:
        app, reader = site.with_token("send"), site.with_token("scrape-me")
        eventually(lambda: reader.get("/readyz").status == 200, "ready")
        app.post("/v1/queries", logged(0, 100))
        with scraping(tmp_path, site.url.removeprefix("http://")) as prometheus:
            eventually(lambda: prometheus.value(TOTAL) == 100, "the first queries are scraped")
            app.post("/v1/queries", logged(100, 100))
            eventually(lambda: prometheus.value(TOTAL) == 200, "the next are scraped")
            check_counters(prometheus)
            check_gauges(prometheus)
            check_metadata(prometheus)
            assert reader.get(f"/v1/queries/{slow_query(prometheus)}").status == 200

            # Counters go on over a restart on the same port, which is what a target is.
            site.kill()
            eventually(lambda: prometheus.value("up") == 0, "it is seen to be down")
            port = site.url.rsplit(":", 1)[1]
            with Process(tmp_path / "data", *flags, "--port", port, ready=False) as restarted:
                app.post("/v1/queries", logged(200, 25))
                eventually(lambda: prometheus.value(TOTAL) == 225, "the next are scraped")
                assert prometheus.value(f"resets({TOTAL}[5m])") == 0
                assert restarted.terminate() == 0
