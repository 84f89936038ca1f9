"""OpenTelemetry: every notification as an event on the traces of its worst queries.

Each is a log record, which a tracing tool shows beside the spans of that trace; where no query has
a trace, one record says it alone.
"""

from typing import Any
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from ragmon import __version__
from ragmon.alerts import WorstQuery
from ragmon.alerts.message import Message, message
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SinkError
from ragmon.http_client import Access, Poster, Url
from ragmon.sinks import SinkContext

_EVENT = "ragmon.incident"
_LOGS = "/v1/logs"
_SEVERITIES = {
    "info": SeverityNumber.SEVERITY_NUMBER_INFO,
    "warning": SeverityNumber.SEVERITY_NUMBER_WARN,
    "critical": SeverityNumber.SEVERITY_NUMBER_ERROR,
}
_HAS_EVENT_NAME = "event_name" in LogRecord.DESCRIPTOR.fields_by_name
_TRACE_BYTES, _SPAN_BYTES = 16, 8

Value = str | tuple[str, ...]


class Options(Access):
    """``sinks: [{kind: otlp, url: http://collector:4318/v1/logs}]``."""

    url: Url
    """URL that takes logs as OTLP over HTTP; without a path /v1/logs is added."""
    headers: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    """Headers of every request, for example {x-scope-orgid: rag}; a secret goes into token_file."""


def build(options: Options, context: SinkContext) -> "OtlpEvents":
    """A sink that exports to one endpoint."""
    return OtlpEvents(options, context)


class OtlpEvents:
    """One endpoint for logs."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        path = urlsplit(options.url).path.rstrip("/")
        self._url = options.url if path else options.url.rstrip("/") + _LOGS
        self._options = options
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, notice: IncidentNotice) -> None:
        """Export the events of one notification."""
        request = to_request(notice, self._context)
        headers = {**self._options.headers, "Content-Type": "application/x-protobuf"}
        answer = self._poster.post(self._url, request.SerializeToString(), headers)
        try:
            partial = ExportLogsServiceResponse.FromString(answer).partial_success
        except DecodeError:  # the status counts
            return
        if partial.rejected_log_records > 0:
            raise SinkError(
                f"{urlsplit(self._url).netloc} refused {partial.rejected_log_records} events: "
                + partial.error_message[:200],
                retryable=False,
            )


def to_request(notice: IncidentNotice, context: SinkContext) -> ExportLogsServiceRequest:
    """The export: an event for each of the worst queries that has a trace, or one without."""
    words = message(notice, context.links, context.labels)
    request = ExportLogsServiceRequest()
    of_resource = request.resource_logs.add()
    of_resource.resource.attributes.extend(
        [_pair("service.name", "ragmon"), _pair("service.version", __version__)]
    )
    of_scope = of_resource.scope_logs.add()
    of_scope.scope.name, of_scope.scope.version = "ragmon", __version__
    evidence = notice.alert.evidence
    worst = evidence.worst if evidence else ()
    traced: list[WorstQuery | None] = [query for query in worst if _trace_id(query)]
    for query in traced or [None]:
        _fill(of_scope.log_records.add(), notice, words, context, query)
    return request


def _fill(
    record: LogRecord,
    notice: IncidentNotice,
    words: Message,
    context: SinkContext,
    query: WorstQuery | None,
) -> None:
    record.time_unix_nano = record.observed_time_unix_nano = int(notice.at * 1e9)
    record.severity_number = (
        SeverityNumber.SEVERITY_NUMBER_INFO
        if notice.status == "resolved"
        else _SEVERITIES[notice.severity]
    )
    record.severity_text = notice.severity
    record.body.string_value = "\n".join(filter(None, (words.title, words.detail)))
    if _HAS_EVENT_NAME:  # of the protocol's newer versions
        record.event_name = _EVENT
    attributes: dict[str, Value] = {
        "event.name": _EVENT,
        "ragmon.notice.id": notice.id,
        "ragmon.incident.id": notice.incident_id,
        "ragmon.incident.change": notice.change,
        "ragmon.incident.status": notice.status,
        "ragmon.incident.severity": notice.severity,
        "ragmon.incident.cause": notice.cause.text,
        "ragmon.incident.headline": notice.headline,
        "ragmon.incident.alert": notice.alert.name,
        "ragmon.incident.pipelines": notice.pipelines,
        "ragmon.incident.url": context.links.incident(notice.incident_id),
    }
    if query is not None:
        record.trace_id = _trace_id(query)
        record.span_id = _hexadecimal(query.span_id, _SPAN_BYTES)
        attributes |= {
            "ragmon.query.id": query.query_id,
            "ragmon.query.why": query.why,
            "ragmon.query.url": context.links.query_page(query.query_id),
        }
    attributes |= {f"ragmon.label.{name}": value for name, value in context.labels.items()}
    record.attributes.extend(_pair(key, value) for key, value in attributes.items() if value)


def _trace_id(query: WorstQuery) -> bytes:
    """Of OpenTelemetry; empty for a query without one, or with one of the application's own."""
    return _hexadecimal(query.trace_id, _TRACE_BYTES)


def _hexadecimal(text: str, length: int) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return b""
    return value if len(value) == length and any(value) else b""


def _pair(key: str, value: Value) -> KeyValue:
    return KeyValue(key=key, value=_any(value))


def _any(value: Any) -> AnyValue:
    if isinstance(value, tuple):
        return AnyValue(array_value=ArrayValue(values=[_any(entry) for entry in value]))
    return AnyValue(string_value=value)
