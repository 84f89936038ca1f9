"""Metrics of traffic that nobody would send on purpose, and scrapers that misbehave."""

import socket
import subprocess
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from ragmon.clock import SystemClock
from ragmon.records import QueryRecord
from ragmon.sources import Submission
from ragmon.windows.series import SeriesKey
from tests.daemon.test_metric_budget import NOW, monitored, queries, scraped, withheld
from tests.exposition.test_formats import of_protobuf
from tests.support.daemons import running
from tests.support.metrics import samples
from tests.support.tools import program

__all__ = ["monitored"]  # a fixture

NAME = '"\n\\💥' * 36 + '"\n"\n'
TEXTS = {
    "0.0.4": "text/plain;version=0.0.4",
    "1.0.0, UTF-8": "text/plain;version=1.0.0;escaping=allow-utf-8",
    "1.0.0, underscores": "text/plain;version=1.0.0;escaping=underscores",
    "1.0.0, dots": "text/plain;version=1.0.0;escaping=dots",
    "1.0.0, values": "text/plain;version=1.0.0;escaping=values",
}
OPENMETRICS = {
    f"OpenMetrics {version}, {escaping}": f"application/openmetrics-text;version={version}"
    + (f";escaping={escaping}" if escaping else "")
    for version, escaping in (("1.0.0", "allow-utf-8"), ("1.0.0", "values"), ("1.0.0", ""))
}
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A daemon that has everything of one pipeline with a name of 256 odd bytes."""
    with running(tmp_path_factory.mktemp("odd") / "data", slices="tenant") as site:
        now = SystemClock().now()
        sent = [
            {"pipeline": NAME, "version": NAME, "tags": {"tenant": NAME}, "timestamp": now,
             "latency_ms": 12.5, "chunks": [{"id": "a", "score": 0.5}], "citations": ["a"],
             "error": NAME, "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "feedback": 1}
        ]  # fmt: skip
        assert site.post("/v1/queries", sent).json["accepted"] == 1
        yield site


def test_the_name_is_as_long_as_names_may_be():
    assert len(NAME.encode()) == 256


@pytest.mark.parametrize(
    "accept", [*TEXTS.values(), *OPENMETRICS.values()], ids=[*TEXTS, *OPENMETRICS]
)
def test_an_odd_name_is_read_back_from_every_text_format(odd, accept):
    answer = odd.get("/metrics", Accept=accept)
    assert answer.headers["content-type"].startswith(accept.split(";")[0])
    read = list(samples(answer.text))
    assert {each.labels["pipeline"] for each in read if "pipeline" in each.labels} == {NAME}
    by_slice = [each for each in read if each.labels.get("dimension") == "tenant"]
    assert {each.labels["value"] for each in by_slice} == {NAME}
    assert len(by_slice) > 10


def test_an_odd_name_is_read_back_from_protobuf(odd):
    answer = odd.get("/metrics", Accept=PROTOBUF)
    read = of_protobuf(answer.body)
    names = {value for _, labels in read for label, value in labels if label == "pipeline"}
    assert names == {NAME}
    labels = frozenset({("pipeline", NAME), ("version", NAME)})
    assert read["ragmon_queries_total", labels] == 1.0


@pytest.mark.parametrize("accept", TEXTS.values(), ids=TEXTS)
def test_promtool_finds_no_fault_in_an_odd_name(odd, accept):
    text = odd.get("/metrics", Accept=accept).body
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_tag_with_a_hundred_thousand_values_in_an_hour_is_bounded(monitored):
    monitor = monitored(queries(10, 1, 1))
    writer = monitor._engine.writer
    for first in range(0, 100_000, 10_000):
        records = [
            QueryRecord(
                query_id=f"v-{at}",
                timestamp=NOW - 3_600.0 * at / 100_000,
                pipeline="wide",
                tags={"tenant": f"tenant-{at}"},
            )
            for at in range(first, first + 10_000)
        ]
        group = [Submission("test", 1, lambda _: None, records=records)]
        writer.thread.ask(lambda group=group: writer.commits.commit(group, NOW))
    found = scraped(monitor)
    assert len(found) <= 10_000
    windows = monitor._engine.windows
    tenants = {
        key: float(windows.totals.queries[at])
        for key, at in windows.series.keys.items()
        if (key.pipeline, key.dimension) == ("wide", "tenant")
    }
    assert 400 < len(tenants) <= 501
    assert sum(tenants.values()) == 100_000
    assert tenants[SeriesKey("wide", "tenant", "other")] > 90_000
    assert windows.dropped > 90_000
    assert 'ragmon_queries_total{pipeline="wide"} 100000' in found
    assert withheld(found)["counters"] == 0


def test_a_budget_of_ten_million_shows_everything(monitored):
    found = scraped(monitored(queries(3_000, 10, 10), metrics__max_series=10_000_000))
    assert set(withheld(found).values()) == {0}
    assert len(found) > 8_000


def test_only_globs_that_match_nothing_are_named_at_the_start(tmp_path):
    globs = "[ragmon_loop_*, ragmon_notifications_total, ragmon_slice_hit_*, ragmon_hitratio]"
    with capture_logs() as logs, running(tmp_path / "data", metrics__exclude=globs):
        pass
    named = [entry["setting"] for entry in logs if entry["event"] == "no_metric_matches"]
    assert named == ["metrics.exclude: 'ragmon_hitratio'"]


def test_a_scraper_that_reads_a_byte_at_a_time_keeps_no_other_waiting(odd):
    address = urlsplit(odd.url)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        slow.settimeout(10)
        slow.connect((address.hostname, address.port))
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(5):
            assert slow.recv(1)
            assert "ragmon_queries_total" in odd.get("/metrics").text
