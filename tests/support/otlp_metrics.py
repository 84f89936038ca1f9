"""A strict reader of OTLP metrics: what a backend may refuse fails here."""

import gzip
import math
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from tests.support.receiver import Post

Point = tuple[str, frozenset[tuple[str, str]]]
"""Name of a metric, and its attributes."""

CUMULATIVE = 2


def checked(post: Post) -> dict[Point, Any]:
    """The points of an export by metric and attributes; AssertionError where one is wrong."""
    body = gzip.decompress(post.body) if post.headers.get("content-encoding") else post.body
    points: dict[Point, Any] = {}
    for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        names = {pair.key for pair in of_resource.resource.attributes}
        assert {"service.name", "service.instance.id"} <= names
        for of_scope in of_resource.scope_metrics:
            metrics = [metric.name for metric in of_scope.metrics]
            assert len(set(metrics)) == len(metrics)
            for metric in of_scope.metrics:
                of_metric = _points(metric)
                assert of_metric
                assert points.keys().isdisjoint(of_metric)
                points |= of_metric
    return points


def _points(metric: Any) -> dict[Point, Any]:
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    assert metric.description
    if kind != "gauge":
        assert data.aggregation_temporality == CUMULATIVE
    if kind == "sum":
        assert data.is_monotonic
    points: dict[Point, Any] = {}
    for point in data.data_points:
        labels = [(pair.key, pair.value.string_value) for pair in point.attributes]
        assert len(dict(labels)) == len(labels)
        assert all(key and value for key, value in labels)
        assert point.time_unix_nano >= point.start_time_unix_nano
        assert (point.start_time_unix_nano == 0) == (kind == "gauge")
        _CHECKS[kind](point)
        points[metric.name, frozenset(labels)] = point
    assert len(points) == len(data.data_points)
    return points


def _number(point: Any) -> None:
    assert math.isfinite(point.as_double)


def _histogram(point: Any) -> None:
    bounds = list(point.explicit_bounds)
    assert bounds == sorted(set(bounds))
    assert len(point.bucket_counts) == len(bounds) + 1
    assert sum(point.bucket_counts) == point.count


def _exponential(point: Any) -> None:
    assert sum(point.positive.bucket_counts) + point.zero_count == point.count
    assert point.zero_threshold > 0.0


_CHECKS = {
    "sum": _number,
    "gauge": _number,
    "histogram": _histogram,
    "exponential_histogram": _exponential,
}
