"""Metrics on their way to an OTLP endpoint that takes them, is busy, or is gone."""

import gzip

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from ragmon.clock import ManualClock
from ragmon.config.metrics import OtlpMetricsSettings
from ragmon.daemon.metrics_push import MetricsPush, build
from ragmon.daemon.monitor import FamilyGroups
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.exposition.text import Family, series
from tests.support.daemons import running
from tests.support.metrics import total, values
from tests.support.receiver import Reply, receiving
from tests.support.wait import eventually

NOW = 1_750_000_000.0


def families() -> FamilyGroups:
    def one(name: str) -> list[Family]:
        return [Family(name, "counter", "H.", [(series(name, ()), 7.0)])]

    return FamilyGroups(one("ragmon_queries_total"), one("ragmon_duplicates_total"))


def pushing(tmp_path, url: str, clock=None, **settings) -> MetricsPush:
    given = OtlpMetricsSettings(endpoint=f"{url}/v1/metrics", **settings)
    return MetricsPush(
        given, families, clock or ManualClock(NOW), data_dir=tmp_path, instance="host:8321"
    )


def decoded(post) -> dict[str, tuple[float, int]]:
    """Value and start of every sum of an export."""
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(post.body))
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    return {
        metric.name: (point.as_double, point.start_time_unix_nano)
        for metric in metrics
        for point in metric.sum.data_points
    }


def test_an_export_says_everything_with_its_headers(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    with receiving() as receiver:
        push = pushing(tmp_path, receiver.url, token_file=token, headers={"api-key": "k"})
        assert push.step() == 60.0
    (post,) = receiver.posts
    assert post.path == "/v1/metrics"
    assert post.headers["content-type"] == "application/x-protobuf"
    assert post.headers["content-encoding"] == "gzip"
    assert post.headers["authorization"] == "Bearer secret"
    assert post.headers["api-key"] == "k"
    assert decoded(post).keys() == {"ragmon_queries_total", "ragmon_duplicates_total"}
    assert (push.sent, push.retried, push.refused) == (1, 0, 0)


def test_counters_that_outlive_a_restart_keep_their_start(tmp_path):
    with receiving() as receiver:
        pushing(tmp_path, receiver.url, ManualClock(NOW)).step()
        pushing(tmp_path, receiver.url, ManualClock(NOW + 100)).step()
    first, second = (decoded(post) for post in receiver.posts)
    assert first["ragmon_queries_total"] == second["ragmon_queries_total"]
    own = "ragmon_duplicates_total"
    assert second[own][1] - first[own][1] == 100_000_000_000


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_endpoint_is_asked_again_when_it_says(tmp_path, status):
    with receiving() as receiver:
        receiver.answer = lambda _: Reply(status, {"Retry-After": "17"})
        push = pushing(tmp_path, receiver.url)
        assert push.step() == 17.0
    assert (push.sent, push.retried, push.refused) == (0, 1, 0)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 413, 500])
def test_a_refusal_waits_for_the_next_interval(tmp_path, status):
    with receiving() as receiver:
        receiver.answer = lambda _: Reply(status, {"location": f"{receiver.url}/elsewhere"})
        push = pushing(tmp_path, receiver.url, every=90.0)
        assert push.step() == 90.0
    assert len(receiver.posts) == 1
    assert (push.sent, push.retried, push.refused) == (0, 0, 1)


def test_an_endpoint_that_is_gone_is_asked_ever_more_seldom_and_again_when_it_is_back(tmp_path):
    with receiving() as receiver:
        push = pushing(tmp_path, receiver.url)
        url = receiver.url
    pauses = [push.step() for _ in range(6)]
    assert 2.5 <= pauses[0] <= 5.0
    assert pauses[-1] >= 30.0
    assert max(pauses) <= 60.0
    assert push.retried == 6
    with receiving() as receiver:
        back = pushing(tmp_path, receiver.url)
        back._failures = push._failures
        assert back.step() == 60.0
        assert back._failures == 0
    assert url != receiver.url or receiver.posts


def test_points_that_were_not_taken_are_counted(tmp_path):
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 3
    answer.partial_success.error_message = "too many attributes"
    with receiving() as receiver:
        receiver.answer = lambda _: Reply(200, {}, answer.SerializeToString())
        push = pushing(tmp_path, receiver.url)
        push.step()
        receiver.answer = lambda _: Reply(200, {}, b"<html>ok</html>")
        push.step()
    assert (push.sent, push.rejected_points) == (2, 3)


def test_a_missing_secret_stops_the_start(tmp_path):
    with pytest.raises(SettingsError, match="token_file"):
        pushing(tmp_path, "http://127.0.0.1:9", token_file=tmp_path / "none")


def test_without_an_endpoint_nothing_is_sent(tmp_path):
    settings = OtlpMetricsSettings()
    clock, own = ManualClock(NOW), OwnMetrics()
    assert build(settings, families, own, clock, data_dir=tmp_path, port=1) is None


def test_a_daemon_exports_what_its_page_shows(tmp_path):
    with receiving() as receiver:
        settings = {
            "metrics__otlp__endpoint": f"{receiver.url}/v1/metrics",
            "metrics__otlp__every": 0.2,
        }
        with running(tmp_path / "data", **settings) as site:
            site.post("/v1/queries", [{"pipeline": "docs"}, {"pipeline": "docs"}])

            def shown() -> bool:
                posts = [decoded(post) for post in list(receiver.posts)]
                return any(post.get("ragmon_queries_total", (0,))[0] == 2.0 for post in posts)

            eventually(shown, "both queries were exported")
            page = site.page()
            assert total(page, "ragmon_metrics_exports_total", outcome="sent") >= 1
            assert values(page, "ragmon_loop_failures_total", loop="metrics-push") == [0.0]
            exported = decoded(receiver.posts[-1])
    assert {"ragmon_queries_total", "ragmon_ingest_records_total"} <= exported.keys()
