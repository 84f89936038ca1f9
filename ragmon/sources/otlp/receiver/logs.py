"""``/v1/logs``: evaluation results are read, other log records are ignored."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs

from ragmon.memory import MemoryReservation
from ragmon.sources.otlp.conventions.genai import EVALUATION, evaluation_of
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.receiver.responses import Encoding
from ragmon.sources.otlp.spans import Attributes, DecodedSpans, Event
from ragmon.sources.otlp.wire import json, protobuf
from ragmon.sources.otlp.wire.limits import UNLIMITED, reserve_records
from ragmon.sources.otlp.wire.outline import LOG_RECORD, Outline, ScopeOutline


class Logged(NamedTuple):
    """An evaluation and its target, as far as the log record names it."""

    evaluation: SpanEvaluation
    trace_id: bytes
    span_id: bytes
    response_id: str


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    event_name: str = ""
    trace_id: str = ""
    span_id: str = ""
    time_unix_nano: int | str | float | None = 0
    observed_time_unix_nano: int | str | float | None = 0
    attributes: msgspec.Raw = msgspec.Raw(b"null")  # few log records are evaluations


class _ScopeLogs(msgspec.Struct, frozen=True, rename="camel"):
    log_records: list[_Record] | None = None


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    scope_logs: list[_ScopeLogs] | None = None


class _LogRequest(msgspec.Struct, frozen=True, rename="camel"):
    resource_logs: list[_Resource] | None = None


_decoder = msgspec.json.Decoder(_LogRequest)


def evaluations(
    body: bytes,
    encoding: Encoding,
    most: int = UNLIMITED,
    memory: MemoryReservation | None = None,
) -> Iterator[list[Logged]]:
    """The evaluation results in an export request, of some hundred log records at a time.

    Args:
        body: of the request.
        encoding: of the body.
        most: log records that it may have.
        memory: reserved of; none: nothing is.

    Raises:
        RecordError: it is no such request, or has more log records.
        MemoryLimitError: it would take too much memory.
    """
    if encoding == "json":
        for _ in json.check(body, most, memory):
            yield []
        read = _from_json(body)
    else:
        read = _from_protobuf(body, most, memory)
    while some := list(islice(read, _AT_ONCE)):
        yield [
            Logged(
                evaluation_of(Event(EVALUATION, time_ns, attributes)),
                trace_id,
                span_id,
                str(attributes.get("gen_ai.response.id", "")),
            )
            for name, trace_id, span_id, time_ns, attributes in some
            if EVALUATION in (name, attributes.get("event.name"))
        ]


_AT_ONCE = 64
_Read = tuple[str, bytes, bytes, int, Attributes]


def _from_protobuf(body: bytes, most: int, memory: MemoryReservation | None) -> Iterator[_Read]:
    outline = Outline(body, LOG_RECORD, most)
    reserve_records(memory, outline.records, len(body))
    for resource in outline.resources:
        for scope in resource.scopes:
            for record in _records(outline, scope):
                read = protobuf.attributes(record.attributes, DecodedSpans([]))
                time_ns = record.time_unix_nano or record.observed_time_unix_nano
                yield record.event_name, record.trace_id, record.span_id, time_ns, read


def _records(outline: Outline, scope: ScopeOutline) -> Iterator[Any]:
    for stretch in scope.stretches:
        yield from protobuf.parse(outline.cut(stretch), ScopeLogs).log_records


def _from_json(body: bytes) -> Iterator[_Read]:
    request: _LogRequest = json.parse(body, _decoder)
    for resource in request.resource_logs or ():
        for scope in resource.scope_logs or ():
            for record in scope.log_records or ():
                yield (
                    record.event_name,
                    json.unhex(record.trace_id, 16) or b"",
                    json.unhex(record.span_id, 8) or b"",
                    json.moment(record.time_unix_nano or record.observed_time_unix_nano),
                    json.attributes(
                        json.open_pairs(record.attributes, "log record"), DecodedSpans([])
                    ),
                )
