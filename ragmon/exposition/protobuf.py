"""``io.prometheus.client.MetricFamily``: Prometheus' protobuf, which alone has native histograms.

The messages are described here field by field and encoded by the protobuf library. What a series
repeats at each scrape is encoded once and kept: a message is the sum of its encoded parts.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from ragmon.exposition.names import UTF8, label_name, metric_name
from ragmon.exposition.text import Exemplar, Family, HistogramSample, Labels, NativeBuckets

_PACKAGE = "io.prometheus.client"
_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _Field.TYPE_STRING,
    "double": _Field.TYPE_DOUBLE,
    "uint64": _Field.TYPE_UINT64,
    "uint32": _Field.TYPE_UINT32,
    "sint32": _Field.TYPE_SINT32,
    "sint64": _Field.TYPE_SINT64,
    "int64": _Field.TYPE_INT64,
    "enum": _Field.TYPE_INT32,  # as it is on the wire
}

_MESSAGES = {
    "LabelPair": "1 name string, 2 value string",
    "Gauge": "1 value double",
    "Counter": "1 value double",
    "Exemplar": "1 label LabelPair*, 2 value double, 3 timestamp Timestamp",
    "Bucket": "1 cumulative_count uint64, 2 upper_bound double, 3 exemplar Exemplar",
    "BucketSpan": "1 offset sint32, 2 length uint32",
    "Histogram": (
        "1 sample_count uint64, 2 sample_sum double, 3 bucket Bucket*, 5 schema sint32, "
        "6 zero_threshold double, 7 zero_count uint64, 12 positive_span BucketSpan*, "
        "13 positive_delta sint64*"
    ),
    "Metric": ("1 label LabelPair*, 2 gauge Gauge, 3 counter Counter, 7 histogram Histogram"),
    "MetricFamily": "1 name string, 2 help string, 3 type enum, 4 metric Metric*",
}
"""Number, name and type of each field, from the published metrics.proto; ``*`` is repeated."""

_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4
_METRIC_TAG = b"\x22"  # field 4 of MetricFamily
_VALUES = {_GAUGE: b"\x12\x09\x09", _COUNTER: b"\x1a\x09\x09"}  # field, length, tag of the double
_VALUE_BYTES = 11
_DOUBLE = struct.Struct("<d")


def _classes() -> dict[str, Any]:
    """The message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="ragmon/metrics.proto",
        package=_PACKAGE,
        syntax="proto2",
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            number, field, kind = text.split()
            many, kind = kind.endswith("*"), kind.removesuffix("*")
            added = message.field.add(name=field, number=int(number))
            added.label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
            added.type = _TYPES.get(kind, _Field.TYPE_MESSAGE)
            if added.type == _Field.TYPE_MESSAGE:
                package = "google.protobuf" if kind == "Timestamp" else _PACKAGE
                added.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()  # of our own: others may describe it, too
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


class ProtobufRenderer:
    """Encodes families; the labels of a series are encoded once and kept while it is shown."""

    def __init__(self) -> None:
        self._messages = _classes()
        self._labels: dict[tuple[str, Labels], bytes] = {}
        self._shown: dict[tuple[str, Labels], bytes] = {}

    def render(self, families: Iterable[Family], escaping: str) -> bytes:
        """The families, each after its length; those without samples are left out."""
        self._shown = {}
        parts: list[bytes] = []
        for family in families:
            body = b"".join(self._family(family, escaping))
            if body:
                parts += (_varint(len(body)), body)
        self._labels = self._shown
        return b"".join(parts)

    def _family(self, family: Family, escaping: str) -> Iterator[bytes]:
        if not family.samples and not family.histograms:
            return
        # A summary would come with a count and a sum, which these do not have.
        kinds = {"counter": _COUNTER, "histogram": _HISTOGRAM}
        kind = kinds.get(family.kind, _GAUGE)
        yield self._messages["MetricFamily"](
            name=_plain(metric_name(family.name, escaping), family.name, escaping),
            help=family.help,
            type=kind,
        ).SerializeToString()
        before = _VALUES.get(kind, b"")
        for (_, plain_labels, _), value in family.samples:
            labels = self._encoded(plain_labels, escaping)
            length = _varint(len(labels) + _VALUE_BYTES)
            yield b"".join((_METRIC_TAG, length, labels, before, _DOUBLE.pack(value)))
        for histogram in family.histograms:
            labels = self._encoded(histogram.labels, escaping)
            message = self._messages["Metric"](histogram=self._histogram(histogram))
            encoded = message.SerializeToString()
            yield b"".join((_METRIC_TAG, _varint(len(labels) + len(encoded)), labels, encoded))

    def _encoded(self, labels: Labels, escaping: str) -> bytes:
        key = (escaping, labels)
        encoded = self._labels.get(key)
        if encoded is None:
            encoded = self._metric(labels, escaping)
        self._shown[key] = encoded
        return encoded

    def _metric(self, labels: Labels, escaping: str) -> bytes:
        pairs = [
            {"name": _plain(label_name(name, escaping), name, escaping), "value": value}
            for name, value in labels
            if value
        ]
        encoded: bytes = self._messages["Metric"](label=pairs).SerializeToString()
        return encoded

    def _histogram(self, sample: HistogramSample) -> Any:
        total = sample.total if sample.total >= 0 else math.nan  # one that can fall is no sum
        message = self._messages["Histogram"](sample_count=sample.observations, sample_sum=total)
        below = 0
        for at, edge in enumerate((*sample.edges, math.inf)):
            below += sample.counts[at]
            bucket = message.bucket.add(cumulative_count=below, upper_bound=edge)
            if at in sample.exemplars:
                _add_exemplar(bucket.exemplar, sample.exemplars[at])
        if sample.native is not None:
            _add_native(message, sample.native)
        return message


def _add_exemplar(message: Any, exemplar: Exemplar) -> None:
    message.label.add(name="trace_id", value=exemplar.trace_id)
    message.value = exemplar.value
    message.timestamp.FromNanoseconds(round(exemplar.timestamp * 1e3) * 1_000_000)


def _add_native(message: Any, native: NativeBuckets) -> None:
    """Runs of buckets that hold something, and the difference of each count to the one before."""
    message.schema = native.schema
    message.zero_threshold = native.zero_threshold
    message.zero_count = native.zero_count
    end = before = 0  # index after the last bucket written; its count
    for at, count in enumerate(native.counts):
        if not count:
            continue
        index = native.start + at
        if not message.positive_span or index != end:
            message.positive_span.add(offset=index - end, length=0)
        message.positive_span[-1].length += 1
        message.positive_delta.append(count - before)
        end, before = index + 1, count


def _plain(shown: str, name: str, escaping: str) -> str:
    """A name outside the text formats, where none is in quotes."""
    return name if escaping == UTF8 else shown


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)
