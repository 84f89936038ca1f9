"""A real Prometheus, set as the chart sets it, that scrapes two replicas while one takes over."""

import helm_python
import pytest
import yaml

from ragmon.clock import SystemClock
from tests.end_to_end.test_failover import Replicas
from tests.support.chart import CHART, VARIANTS, of_kind
from tests.support.postgres import PostgresServer, needed
from tests.support.prometheus import run_prometheus
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

TOTAL = 'ragmon_queries_total{pipeline="p"}'
SENT = 200


@pytest.fixture
def server():
    server = PostgresServer(needed())
    server.start()
    yield server
    server.remove()


def relabelings():
    """Those of the chart's monitor, in the words of Prometheus' own configuration."""
    words = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    with helm_python.Chart.load(CHART) as chart:
        monitor = of_kind(chart, "ServiceMonitor", **VARIANTS["postgresql"])
    (endpoint,) = monitor["spec"]["endpoints"]
    return [
        {words.get(name, name): value for name, value in rule.items()}
        for rule in endpoint["metricRelabelings"]
    ]


def configuration(targets):
    """Of a scrape of pods, twice a second."""
    pods = [
        {"targets": [target], "labels": {"pod": f"pod-{number}"}}
        for number, target in enumerate(targets)
    ]
    job = {
        "job_name": "ragmon",
        "scrape_interval": "500ms",
        "static_configs": pods,
        "metric_relabel_configs": relabelings(),
    }
    return yaml.safe_dump({"scrape_configs": [job]})


def send(replica, first, count):
    records = [{"query_id": f"q{at}", "pipeline": "p"} for at in range(first, first + count)]
    assert replica.post("/v1/queries", records).json["accepted"] == count


def test_series_of_the_store_go_on_as_one_and_rates_see_no_spike(tmp_path, server):
    config = tmp_path / "prometheus.yml"
    with Replicas(tmp_path, server) as replicas:
        first, second = replicas.both()
        targets = [each.url.removeprefix("http://") for each in replicas.both()]
        config.write_text(configuration(targets), encoding="utf-8")
        with run_prometheus(tmp_path, config) as prometheus:
            began = SystemClock().now()
            send(first, 0, SENT)
            eventually(lambda: prometheus.value(TOTAL) == SENT, "the first are scraped", 30)
            both = "a standby shows its own beside"
            eventually(lambda: prometheus.value("count(ragmon_leader)") == 2, both, 30)
            assert prometheus.value("sum(ragmon_leader)") == 1
            assert prometheus.value(f"count({TOTAL})") == 1
            replicas.fail_over()
            send(second, SENT, SENT)
            eventually(lambda: prometheus.value(TOTAL) == 2 * SENT, "so are the next", 30)
            range_s = round(SystemClock().now() - began + 5)
            # One series, whichever pod counted; it only rose, and by what was sent.
            everything = f"{TOTAL}[{range_s}s]"
            assert prometheus.value(f"count(count_over_time({everything}))") == 1
            assert prometheus.value(f'count_over_time({TOTAL[:-1]},pod="rag-ragmon"}}[10s])') > 1
            assert prometheus.value(f"resets({everything})") == 0
            assert prometheus.value(f"max_over_time({everything})") == 2 * SENT
            assert prometheus.value('up{pod="pod-0"}') == 0
