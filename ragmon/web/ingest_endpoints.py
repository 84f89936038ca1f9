"""Paths that take records, feedback and traces; ``ragmon.sources`` answers them."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from ragmon.api_schema import IngestAnswer, TraceExplanation
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.web.endpoint import JSON, NDJSON, PROTOBUF, Endpoint, Parameter

_BATCH = (
    "One JSON object, an array of objects, or NDJSON; gzip and zstd are accepted as"
    " Content-Encoding. 200 is sent after the batch is on disk. Good records of a batch are kept"
    " when others are rejected; 422 means that none was good. 503 means that nothing was kept:"
    " send the batch again after Retry-After seconds."
)


def _ingest(name: str, path: str, record: type[Struct], summary: str) -> Endpoint:
    return Endpoint(
        name=name,
        method="POST",
        path=path,
        scope="ingest",
        pipelines="own",
        tag="Ingest",
        summary=summary,
        help=_BATCH,
        body=record,
        body_media=(JSON, NDJSON),
        answer=IngestAnswer,
        problems=(400, 408, 413, 415, 422),
    )


HTTP = (
    _ingest("sendQueries", "/v1/queries", QueryRecord, "Send logged queries"),
    _ingest("sendFeedback", "/v1/feedback", Feedback, "Send user feedback on queries"),
    _ingest("sendLabels", "/v1/labels", Label, "Send ground truth for queries"),
)


def _otlp(name: str, path: str, summary: str) -> Endpoint:
    return Endpoint(
        name=name,
        method="POST",
        path=path,
        scope="ingest",
        pipelines="own",
        tag="OpenTelemetry",
        summary=summary,
        body=dict[str, Any],
        body_media=(PROTOBUF, JSON),
        answer=dict[str, Any],
        media=(PROTOBUF, JSON),
        problems=(400, 408, 413, 415),
    )


_SYNC = Parameter("sync", "Sent by Phoenix's SDKs; ragmon always answers once all is on disk.")


def _scores(name: str, path: str, summary: str, *parameters: Parameter) -> Endpoint:
    return Endpoint(
        name=name,
        method="POST",
        path=path,
        scope="ingest",
        pipelines="own",
        tag="OpenTelemetry",
        summary=summary,
        parameters=parameters,
        body=dict[str, Any] | list[dict[str, Any]],
        answer=dict[str, Any],
        problems=(400, 404, 408, 413),
    )


_LANGFUSE = "/api/public/otel"
_LANGWATCH = "/api/otel"
RECENT_TRACES = Endpoint(
    name="recentTraces",
    method="GET",
    path="/v1/traces",
    scope="read",
    tag="OpenTelemetry",
    summary="Newest complete traces and what was read from each, as `ragmon trace-doctor` shows",
    parameters=(Parameter("last", "Traces at most.", Annotated[int, Meta(ge=1, le=100)], 100),),
    answer=list[TraceExplanation],
)


def _recent(name: str, root: str) -> Endpoint:
    """The same under the path of a vendor's SDKs."""
    return Endpoint(
        name=name,
        method="GET",
        path=f"{root}/v1/traces",
        scope="read",
        tag="OpenTelemetry",
        summary="The same as GET /v1/traces",
        parameters=RECENT_TRACES.parameters,
        answer=RECENT_TRACES.answer,
    )


OTLP = (
    _otlp("sendTraces", "/v1/traces", "Send OTLP traces"),
    RECENT_TRACES,
    _otlp(
        "sendLogs",
        "/v1/logs",
        "Send OTLP logs; evaluations and the content of model calls are read",
    ),
    _otlp("sendMetrics", "/v1/metrics", "Accept OTLP metrics; none are kept"),
    _otlp(
        "sendTracesLangfuse", f"{_LANGFUSE}/v1/traces", "Send OTLP traces, path of Langfuse SDKs"
    ),
    _recent("recentTracesLangfuse", _LANGFUSE),
    _otlp("sendTracesLangWatch", f"{_LANGWATCH}/v1/traces", "Send OTLP traces, path of LangWatch"),
    _recent("recentTracesLangWatch", _LANGWATCH),
    _otlp("sendLogsLangfuse", f"{_LANGFUSE}/v1/logs", "Send OTLP logs, path of Langfuse SDKs"),
    _otlp(
        "sendMetricsLangfuse",
        f"{_LANGFUSE}/v1/metrics",
        "Accept OTLP metrics; none are kept",
    ),
    _scores("sendScores", "/api/public/scores", "Send feedback as Langfuse SDKs do"),
    _scores(
        "annotateSpans", "/v1/span_annotations", "Send feedback on spans as Phoenix does", _SYNC
    ),
    _scores(
        "annotateTraces", "/v1/trace_annotations", "Send feedback on traces as Phoenix does", _SYNC
    ),
)

EVERY = (*HTTP, *OTLP)
"""All of them, in the order of the document."""
