"""Real Prometheus servers read every format that they ask for.

Debian's 2.42 always; a current one as `prometheus3` in .venv/tools (`make prometheus3`).
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import requests

from ragmon.clock import SystemClock
from tests.support.daemons import Running, running
from tests.support.prometheus import Prometheus, run_prometheus
from tests.support.tools import OWN, program
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

CONFIG = """
global: {{scrape_interval: 2s, scrape_timeout: 2s}}
scrape_configs:
  - job_name: ragmon
    static_configs: [{{targets: ["{target}"]}}]
"""
NATIVE = "--enable-feature=native-histograms,exemplar-storage"
LATENCIES_MS = np.random.default_rng(7).lognormal(6.0, 1.2, 1_000)
QUERIES = len(LATENCIES_MS)
WIDTH = 2 ** (1 / 32)  # of a bucket of schema 5
TOTAL = 'ragmon_query_duration_seconds{stage="total"}'

STORED = (  # a native histogram has no value
    '{__name__=~"ragmon_.*", __name__!="ragmon_query_duration_seconds", pipeline!=""}'
)

SERVERS = [
    "prometheus",
    pytest.param(
        "prometheus3",
        marks=pytest.mark.skipif(
            not (OWN / "prometheus3").exists(), reason="no prometheus3: run `make prometheus3`"
        ),
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("formats") / "data") as site:
        now = SystemClock().now()
        queries = [
            {"pipeline": 'a "b"\n\\é', "timestamp": now, "latency_ms": value, "trace_id": f"{at:x}",
             "chunks": [{"id": "c", "score": -4.5 if at % 2 else 0.5}]}
            for at, value in enumerate(LATENCIES_MS.tolist())
        ]  # fmt: skip
        assert site.post("/v1/queries", queries).json["accepted"] == QUERIES
        yield site


def scraped(prometheus: Prometheus) -> None:
    """Wait for a scrape without an error."""

    def is_up() -> bool:
        targets = prometheus.ask("targets")["activeTargets"]
        return [(each["health"], each["lastError"]) for each in targets] == [("up", "")]

    eventually(is_up, "the daemon was scraped without an error", 30)
    eventually(lambda: prometheus.value("ragmon_queries_total"), "its samples are stored", 10)


def config(folder: Path, site: Running) -> Path:
    path = folder / "prometheus.yml"
    path.write_text(CONFIG.format(target=site.url.removeprefix("http://")), encoding="utf-8")
    return path


@pytest.mark.parametrize("server", SERVERS)
def test_native_histograms_give_quantiles_within_a_bucket(site, tmp_path, server):
    with run_prometheus(tmp_path, config(tmp_path, site), NATIVE, name=server) as prometheus:
        scraped(prometheus)
        assert prometheus.value(f"histogram_count({TOTAL})") == QUERIES
        total = prometheus.value(f"histogram_sum({TOTAL})")
        assert total == pytest.approx(LATENCIES_MS.sum() / 1000)
        for quantile in (0.1, 0.5, 0.9, 0.99):
            value = prometheus.value(f"histogram_quantile({quantile}, {TOTAL})")
            exact = np.quantile(LATENCIES_MS, quantile, method="inverted_cdf") / 1000
            assert exact / WIDTH <= value <= exact * WIDTH
        assert prometheus.value("ragmon_queries_total") == QUERIES
        assert prometheus.value('ragmon_commit_duration_seconds_bucket{le="+Inf"}') >= 1


@pytest.mark.parametrize("server", SERVERS)
def test_both_ways_of_scraping_store_the_same(site, tmp_path, server):
    stored = []
    for name, flags in (("text", ()), ("protobuf", (NATIVE,))):
        folder = tmp_path / name
        folder.mkdir()
        with run_prometheus(folder, config(folder, site), *flags, name=server) as prometheus:
            scraped(prometheus)
            stored.append(prometheus.values(STORED))
    text, protobuf = stored
    classic = ("ragmon_query_duration_seconds_", "ragmon_retrieval_top_score_")
    assert len(text) > 40
    for labels, value in text.items():
        if not any(name in labels for name in classic):
            assert protobuf[labels] == value
    buckets = [labels for labels in text if classic[1] + "bucket" in labels]
    assert len(buckets) > 10
    assert {labels: protobuf[labels] for labels in buckets} == {
        labels: text[labels] for labels in buckets
    }


@pytest.mark.parametrize("version", ["0.0.4", "1.0.0"])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_promtool_finds_no_fault(site, version, coding):
    headers = {"accept": f"text/plain;version={version}", "accept-encoding": coding}
    answer = requests.get(f"{site.url}/metrics", headers=headers, timeout=10)
    assert f"version={version}" in answer.headers["content-type"]
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    assert answer.headers.get("content-encoding", "identity") == coding
    check = [program("promtool"), "check", "metrics"]
    good = subprocess.run(check, input=answer.text, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
