"""Families as OTLP metrics: cumulative sums, gauges, and histograms, explicit or exponential."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    NumberDataPoint,
)

from ragmon import __version__
from ragmon.exposition.text import Exemplar, Family, HistogramSample, Labels, NativeBuckets

_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_UNITS = (("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1"))


class ExportTimes(NamedTuple):
    """Times of the points of some families."""

    start: float  # unix seconds since when they count
    now: float  # unix seconds


def to_request(
    groups: Iterable[tuple[Iterable[Family], ExportTimes]],
    instance: str,
    *,
    exponential: bool,
) -> ExportMetricsServiceRequest:
    """One export of all families.

    Args:
        groups: families that count since the same time.
        instance: name of this ragmon among others.
        exponential: send the finer buckets of a histogram where it has them.
    """
    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add()
    resource = {"service.name": "ragmon", "service.version": __version__}
    of_resource.resource.attributes.extend(
        _attributes(tuple({**resource, "service.instance.id": instance}.items()))
    )
    of_scope = of_resource.scope_metrics.add()
    of_scope.scope.name, of_scope.scope.version = "ragmon", __version__
    known: dict[Labels, list[KeyValue]] = {}
    for families, times in groups:
        for family in families:
            if family.samples or family.histograms:
                metric = of_scope.metrics.add(
                    name=family.name, description=family.help, unit=_unit(family.name)
                )
                _add_samples(metric, family, times, known)
                _add_histograms(metric, family.histograms, times, exponential=exponential)
    return request


def count_points(request: ExportMetricsServiceRequest) -> int:
    """Number of data points."""
    return sum(
        len(getattr(metric, str(metric.WhichOneof("data"))).data_points)
        for of_resource in request.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
    )


def _add_samples(
    metric: Any, family: Family, times: ExportTimes, known: dict[Labels, list[KeyValue]]
) -> None:
    """Add a sum for a counter, a gauge for all else: a summary here has no count and no sum."""
    if not family.samples:
        return
    start, now = _ns(times.start), _ns(times.now)
    target = metric.gauge
    if family.kind == "counter":
        target = metric.sum
        target.is_monotonic, target.aggregation_temporality = True, _CUMULATIVE
    else:
        start = 0  # a gauge has none
    points = []
    for (_, labels, _), value in family.samples:
        attributes = known.get(labels)
        if attributes is None:
            attributes = known[labels] = _attributes(labels)
        points.append(
            NumberDataPoint(
                attributes=attributes,
                start_time_unix_nano=start,
                time_unix_nano=now,
                as_double=value,
            )
        )
    target.data_points.extend(points)


def _add_histograms(
    metric: Any, histograms: Sequence[HistogramSample], times: ExportTimes, *, exponential: bool
) -> None:
    for sample in histograms:
        exponent = sample.native if exponential else None
        target = metric.histogram if exponent is None else metric.exponential_histogram
        target.aggregation_temporality = _CUMULATIVE
        point = target.data_points.add(
            attributes=_attributes(sample.labels),
            start_time_unix_nano=_ns(times.start),
            time_unix_nano=_ns(times.now),
            count=sample.observations,
        )
        if sample.total >= 0:
            point.sum = sample.total
        if exponent is None:
            _fill_explicit(point, sample)
        else:
            _fill_exponential(point, exponent)
        for exemplar in sample.exemplars.values():
            _fill_exemplar(point.exemplars.add(), exemplar)


def _fill_explicit(point: HistogramDataPoint, sample: HistogramSample) -> None:
    point.explicit_bounds.extend(sample.edges)
    point.bucket_counts.extend(sample.counts)


def _fill_exponential(point: ExponentialHistogramDataPoint, native: NativeBuckets) -> None:
    point.scale, point.zero_count = native.schema, native.zero_count
    point.zero_threshold = native.zero_threshold
    point.positive.offset = native.start - 1  # OTLP names a bucket by its lower bound
    point.positive.bucket_counts.extend(native.counts)


def _fill_exemplar(target: Any, exemplar: Exemplar) -> None:
    target.as_double = exemplar.value
    target.time_unix_nano = _ns(exemplar.timestamp)
    try:
        trace_id = bytes.fromhex(exemplar.trace_id)
    except ValueError:
        trace_id = b""
    if len(trace_id) == 16:
        target.trace_id = trace_id
    else:  # an id of the application's own
        target.filtered_attributes.extend(_attributes((("trace_id", exemplar.trace_id),)))


def _attributes(labels: Labels) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in labels if value]


def _unit(name: str) -> str:
    """Unit by the ending of a name, as UCUM writes it; empty for what is only counted."""
    base = name.removesuffix("_total")
    return next((unit for ending, unit in _UNITS if base.endswith(ending)), "")


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000) * 1_000
