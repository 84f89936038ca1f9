"""``/v1/logs``: results of evaluations, and events that hold the content of spans.

Other log records are left alone and counted: an application sends all that it logs.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import Struct
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as WireResource

from ragmon.errors import RecordError
from ragmon.memory import MemoryReservation
from ragmon.sources.otlp.conventions.genai import EVALUATION, evaluation_of
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.reading.log_events import (
    LogEvent,
    content_of,
    is_conversation,
    may_hold_content,
    name_of,
    span_of,
)
from ragmon.sources.otlp.reading.values import resource_of
from ragmon.sources.otlp.receiver.responses import Encoding
from ragmon.sources.otlp.spans import MAX_VALUE, DecodedSpans, Event, Resource
from ragmon.sources.otlp.wire import json, protobuf
from ragmon.sources.otlp.wire.json_values import moment, unhex
from ragmon.sources.otlp.wire.limits import UNLIMITED, reserve_records
from ragmon.sources.otlp.wire.outline import LOG_RECORD, Outline, ScopeOutline

NO_IDS = "no_ids"
"""The reason for dropping content that names no trace and span."""

_AT_ONCE = 64


class LoggedEvaluation(NamedTuple):
    """An evaluation and its target, as far as the log record names it."""

    evaluation: SpanEvaluation
    trace_id: bytes
    span_id: bytes
    response_id: str


class DecodedLogs(Struct):
    """Content and evaluations of some log records, and how many records were left out."""

    content: DecodedSpans  # events as they join their spans
    evaluations: list[LoggedEvaluation] = []
    ignored: int = 0  # about no answer
    lost: int = 0  # content of nothing that is named


_EVENT_NAME = 12  # number of the field event_name of a LogRecord


class _LogRecord(Struct, frozen=True, rename="camel"):
    event_name: str = ""
    trace_id: str = ""
    span_id: str = ""
    time_unix_nano: int | str | float | None = 0
    observed_time_unix_nano: int | str | float | None = 0
    attributes: msgspec.Raw = msgspec.Raw(b"null")
    body: msgspec.Raw = msgspec.Raw(b"null")  # few are read


class _LogResource(Struct, frozen=True, rename="camel"):
    attributes: msgspec.Raw = msgspec.Raw(b"null")


class _ScopeLogs(Struct, frozen=True, rename="camel"):
    log_records: list[_LogRecord] | None = None


class _ResourceLogs(Struct, frozen=True, rename="camel"):
    resource: _LogResource | None = None
    scope_logs: list[_ScopeLogs] | None = None


class _LogRequest(Struct, frozen=True, rename="camel"):
    resource_logs: list[_ResourceLogs] | None = None


_decoder = msgspec.json.Decoder(_LogRequest)
_decode_any = msgspec.json.Decoder(Any)
_Read = tuple[LogEvent, Resource]


def decode(
    body: bytes,
    encoding: Encoding,
    most: int = UNLIMITED,
    memory: MemoryReservation | None = None,
) -> Iterator[DecodedLogs]:
    """Content and evaluations in an export request, of some dozen records at a time.

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
            yield DecodedLogs(DecodedSpans([]))
        events = _from_json(body)
    else:
        events = _from_protobuf(body, most, memory)
    while some := list(islice(events, _AT_ONCE)):
        decoded = DecodedLogs(DecodedSpans([]), [])
        for event, resource in some:
            _add(event, resource, decoded)
        yield decoded


def _add(event: LogEvent, resource: Resource, decoded: DecodedLogs) -> None:
    if event.name == EVALUATION:
        response_id = str(event.attributes.get("gen_ai.response.id", ""))
        evaluation = evaluation_of(Event(EVALUATION, event.time_ns, event.attributes))
        decoded.evaluations.append(
            LoggedEvaluation(evaluation, event.trace_id, event.span_id, response_id)
        )
    elif (content := content_of(event)) is None:
        decoded.ignored += 1
    elif len(event.trace_id) != 16 or len(event.span_id) != 8:
        decoded.lost += 1
    else:
        decoded.content.spans.append(span_of(event, content, resource))


def _from_protobuf(body: bytes, most: int, memory: MemoryReservation | None) -> Iterator[_Read]:
    outline = Outline(body, LOG_RECORD, most)
    reserve_records(memory, outline.records, len(body))
    for outlined in outline.resources:
        about = protobuf.parse(outlined.resource, WireResource)
        resource = resource_of(protobuf.attributes(about.attributes, DecodedSpans([])))
        for scope in outlined.scopes:
            for record in _records(outline, scope):
                yield _from_wire(record), resource


def _from_wire(record: Any) -> LogEvent:
    attributes = protobuf.attributes(record.attributes, DecodedSpans([]))
    name = name_of(_event_name(record), attributes)
    content = None
    if may_hold_content(name, attributes) or _is_conversation(record.body):
        content = _cut(protobuf.value_of(record.body))
    return LogEvent(
        name,
        record.trace_id,
        record.span_id,
        record.time_unix_nano or record.observed_time_unix_nano,
        attributes,
        content,
    )


def _event_name(record: Any) -> str:
    """Name of the event; the classes of opentelemetry-proto before 1.34 do not know the field."""
    if "event_name" in record.DESCRIPTOR.fields_by_name:
        return str(record.event_name)
    unknown: Any = UnknownFieldSet(record)  # its stubs do not say that it is a sequence
    names = [field.data for field in unknown if field.field_number == _EVENT_NAME]
    return names[-1].decode("utf-8", "replace") if names and isinstance(names[-1], bytes) else ""


def _is_conversation(body: Any) -> bool:
    return body.HasField("kvlist_value") and is_conversation(protobuf.value_of(body))


def _records(outline: Outline, scope: ScopeOutline) -> Iterator[Any]:
    for stretch in scope.stretches:
        yield from protobuf.parse(outline.cut(stretch), ScopeLogs).log_records


def _from_json(body: bytes) -> Iterator[_Read]:
    request: _LogRequest = json.parse(body, _decoder)
    for resource_logs in request.resource_logs or ():
        about = resource_logs.resource
        pairs = json.open_pairs(about.attributes, "resource") if about else None
        resource = resource_of(json.attributes(pairs, DecodedSpans([])))
        for scope in resource_logs.scope_logs or ():
            for record in scope.log_records or ():
                yield _from_record(record), resource


def _from_record(record: _LogRecord) -> LogEvent:
    attributes = json.attributes(json.open_pairs(record.attributes, "log record"), DecodedSpans([]))
    name = name_of(record.event_name, attributes)
    content = None
    if may_hold_content(name, attributes) or b'"messages"' in bytes(record.body):
        content = _open(record.body)
        if not may_hold_content(name, attributes) and not is_conversation(content):
            content = None
    return LogEvent(
        name,
        unhex(record.trace_id, 16) or b"",
        unhex(record.span_id, 8) or b"",
        moment(record.time_unix_nano or record.observed_time_unix_nano),
        attributes,
        content,
    )


def _open(encoded: msgspec.Raw) -> Any:
    """The body of a log record.

    Raises:
        RecordError: it has too many values.
    """
    if json.is_too_wide(encoded):
        message = f"a log record has more than {json.MOST_VALUES:,} texts, lists and objects"
        raise RecordError("too_many_fields", "", message, hint="Log less at a time")
    return _cut(json.value_of(json.parse(encoded, _decode_any)))


def _cut(value: Any) -> Any:
    return value[:MAX_VALUE] if isinstance(value, str) else value
