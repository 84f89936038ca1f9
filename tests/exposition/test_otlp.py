"""Families as OTLP metrics, decoded field by field."""

import pytest

from ragmon import __version__
from ragmon.exposition.otlp import ExportTimes, count_points, to_request
from ragmon.exposition.text import (
    Exemplar,
    Family,
    HistogramSample,
    NativeBuckets,
    series,
)

NOW, STARTED = 1_750_000_060.5, 1_750_000_000.0
TIMES = ExportTimes(STARTED, NOW)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
DURATIONS = Family(
    "ragmon_query_duration_seconds",
    "histogram",
    "Latency.",
    (),
    [
        HistogramSample(
            (("pipeline", "docs"),),
            [0.5, 1.0],
            [3, 4, 1],
            9.5,
            {0: Exemplar(TRACE, 0.25, STARTED), 1: Exemplar("my-id", 0.75, STARTED)},
            NativeBuckets(5, 2.0**-14, 1, -3, [2, 0, 0, 1, 4]),
        )
    ],
)


def exported(*families: Family, exponential: bool = False):
    request = to_request([(families, TIMES)], "host:8321", exponential=exponential)
    (of_resource,) = request.resource_metrics
    (of_scope,) = of_resource.scope_metrics
    return of_resource.resource, of_scope


def attributes(point) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in point.attributes}


def test_a_counter_is_a_cumulative_sum_since_its_start():
    name = "ragmon_queries_total"
    labels = (("pipeline", "é\n"), ("version", ""))
    resource, scope = exported(Family(name, "counter", "Queries.", [(series(name, labels), 7.0)]))
    assert attributes(resource) == {
        "service.name": "ragmon",
        "service.version": __version__,
        "service.instance.id": "host:8321",
    }
    assert (scope.scope.name, scope.scope.version) == ("ragmon", __version__)
    (metric,) = scope.metrics
    assert (metric.name, metric.description, metric.unit) == (name, "Queries.", "")
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == 2  # cumulative
    (point,) = metric.sum.data_points
    assert attributes(point) == {"pipeline": "é\n"}
    assert point.as_double == 7.0
    assert point.start_time_unix_nano == 1_750_000_000_000_000_000
    assert point.time_unix_nano == 1_750_000_060_500_000_000


@pytest.mark.parametrize("kind", ["gauge", "summary"])
def test_what_may_fall_is_a_gauge(kind):
    name = "ragmon_latency_seconds"
    labels = (("quantile", "0.5"),)
    _, scope = exported(Family(name, kind, "H.", [(series(name, labels), 0.25)]))
    (metric,) = scope.metrics
    assert metric.unit == "s"
    (point,) = metric.gauge.data_points
    assert (point.as_double, point.start_time_unix_nano) == (0.25, 0)
    assert attributes(point) == {"quantile": "0.5"}


def test_a_histogram_has_its_own_bounds():
    _, scope = exported(DURATIONS)
    (metric,) = scope.metrics
    assert metric.histogram.aggregation_temporality == 2
    (point,) = metric.histogram.data_points
    assert attributes(point) == {"pipeline": "docs"}
    assert list(point.explicit_bounds) == [0.5, 1.0]
    assert list(point.bucket_counts) == [3, 4, 1]
    assert (point.count, point.sum) == (8, 9.5)
    traced, named = point.exemplars
    assert (traced.trace_id.hex(), traced.as_double) == (TRACE, 0.25)
    assert traced.time_unix_nano == 1_750_000_000_000_000_000
    assert named.trace_id == b""
    assert named.filtered_attributes[0].value.string_value == "my-id"


def test_exponential_buckets_are_those_of_the_native_histogram():
    _, scope = exported(DURATIONS, exponential=True)
    (metric,) = scope.metrics
    (point,) = metric.exponential_histogram.data_points
    assert (point.scale, point.zero_count, point.zero_threshold) == (5, 1, 2.0**-14)
    # OTLP's bucket of index i begins where Prometheus' bucket of index i ends.
    assert (point.positive.offset, list(point.positive.bucket_counts)) == (-4, [2, 0, 0, 1, 4])
    assert point.count == point.zero_count + sum(point.positive.bucket_counts)
    assert len(point.exemplars) == 2


def test_a_sum_that_can_fall_is_left_out():
    family = Family("h", "histogram", "H.", (), [HistogramSample((), [0.0], [3, 0], -7.5)])
    _, scope = exported(family, exponential=True)
    (point,) = scope.metrics[0].histogram.data_points
    assert not point.HasField("sum")


def test_families_without_samples_are_left_out():
    request = to_request([([Family("g", "gauge", "H.", [])], TIMES)], "i", exponential=False)
    assert count_points(request) == 0
    assert not request.resource_metrics[0].scope_metrics[0].metrics
