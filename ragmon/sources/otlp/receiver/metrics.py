"""``/v1/metrics``: data points are counted and refused, as ragmon keeps none of other programs.

The request succeeds as a whole: an SDK that exports all three signals neither tries again nor logs
an error, and what it is told names the remedy.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from ragmon.memory import MemoryReservation
from ragmon.sources.otlp.receiver.responses import Encoding
from ragmon.sources.otlp.wire import json
from ragmon.sources.otlp.wire.limits import UNLIMITED
from ragmon.sources.otlp.wire.outline import Outline, Range, malformed, walk_fields

NOT_KEPT = "ragmon keeps no metrics; set OTEL_METRICS_EXPORTER=none or send them elsewhere"
"""The reason that senders are told."""


_METRIC, _POINT = 0x12, 0x0A  # tags
_KINDS = frozenset({0x2A, 0x3A, 0x4A, 0x52, 0x5A})  # gauge, sum, histograms, summary


class _Points(Struct, frozen=True, rename="camel"):
    data_points: list[Raw] | None = None


class _WireMetric(Struct, frozen=True, rename="camel"):
    gauge: _Points | None = None
    sum: _Points | None = None
    histogram: _Points | None = None
    exponential_histogram: _Points | None = None
    summary: _Points | None = None


class _ScopeMetrics(Struct, frozen=True, rename="camel"):
    metrics: list[_WireMetric] | None = None


class _ResourceMetrics(Struct, frozen=True, rename="camel"):
    scope_metrics: list[_ScopeMetrics] | None = None


class _MetricRequest(Struct, frozen=True, rename="camel"):
    resource_metrics: list[_ResourceMetrics] | None = None


_decoder = msgspec.json.Decoder(_MetricRequest)


def count_points(
    body: bytes,
    encoding: Encoding,
    most: int = UNLIMITED,
    memory: MemoryReservation | None = None,
) -> int:
    """Data points of an export request.

    Args:
        body: of the request.
        encoding: of the body.
        most: metrics that it may have; of their data points, no more are counted.
        memory: reserved of; none: nothing is.

    Raises:
        RecordError: it is no such request, or has more metrics.
        MemoryLimitError: it would take too much memory.
    """
    if encoding == "protobuf":
        return _count(body, most)
    for _ in json.check(body, most, memory):
        pass
    return sum(1 for _ in _points(json.parse(body, _decoder)))


def _count(body: bytes, most: int) -> int:
    points = 0
    outline = Outline(body, {}, most)
    try:
        for resource in outline.resources:
            for stretch in (stretch for scope in resource.scopes for stretch in scope.stretches):
                for place in _kinds(body, stretch):
                    points += sum(tag == _POINT for tag, _, _ in walk_fields(body, *place))
                    if points > most:
                        return points
    except IndexError:
        raise malformed("it ends too early") from None
    return points


def _kinds(body: bytes, stretch: Range) -> Iterator[Range]:
    """The places of the gauges, sums and so on of some metrics."""
    for tag, start, end in walk_fields(body, *stretch):
        if tag == _METRIC:
            for kind, inner, inner_end in walk_fields(body, start, end):
                if kind in _KINDS:
                    yield inner, inner_end


def _points(request: _MetricRequest) -> Iterator[Raw]:
    for resource in request.resource_metrics or ():
        for scope in resource.scope_metrics or ():
            for metric in scope.metrics or ():
                kinds = (metric.gauge, metric.sum, metric.histogram,
                         metric.exponential_histogram, metric.summary)  # fmt: skip
                for kind in kinds:
                    yield from (kind.data_points or ()) if kind else ()
