"""Explanation of a mapped trace, field by field, and advice on the missing fields."""

from collections.abc import Sequence

import msgspec

from ragmon.api_schema import (
    FieldExplanation,
    MissingField,
    QueryExplanation,
    SpanOutline,
    TraceEvaluation,
    TraceExplanation,
)
from ragmon.records import QueryRecord
from ragmon.sources.otlp.reading.facts import MODEL, RETRIEVER, SpanEvaluation
from ragmon.sources.otlp.spans import ERROR, Span, unpack
from ragmon.sources.otlp.traces.feedback import targeted_evaluations
from ragmon.sources.otlp.traces.mapping import MappedQuery, map_trace, reason_for_none
from ragmon.sources.otlp.traces.tree import Node, everything, outermost

_FIELDS = ("query", "retrieval_query", "answer", "chunks", "model", "tokens", "cost_usd",
           "session_id", "user_id", "version", "environment", "error")  # fmt: skip
_CONTENT = {
    "openinference": "unset OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS",
    "traceloop": "unset TRACELOOP_TRACE_CONTENT=false",
    "gen_ai": "content is opt-in: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT to "
    "span_only, or to event_only and export logs to ragmon too",
    "haystack": "set HAYSTACK_CONTENT_TRACING_ENABLED=true",
    "ai": "set recordInputs and recordOutputs in experimental_telemetry",
    "": "record the input and output of the root span",
}
_NO_QUERY = {
    "evaluation": "no query: an evaluation or feedback",
    "embeddings": "no query: embeddings without retrieval, as an indexing run makes them",
    "only_logs": "no query: log events with content came, their spans did not. Export traces as "
    "well (OTEL_TRACES_EXPORTER=otlp), and keep the traces whose logs you keep",
    "no_step": "no query: no span retrieves or generates. A span does that is called retrieval or "
    "chat by gen_ai.operation.name, or RETRIEVER or LLM by openinference.span.kind, or a root of "
    "kind CHAIN with input and output",
}
_SETTINGS = {
    "session_id": "set the span attribute session.id (OpenInference: using_session; "
    "Langfuse: session_id; Traceloop: set_association_properties; MLflow: a tag session_id)",
    "user_id": "set the span attribute user.id",
    "version": "set OTEL_RESOURCE_ATTRIBUTES=service.version=…",
    "environment": "set OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=…",
    "model": "instrument the model client (for example openinference-instrumentation-openai)",
    "tokens": "ask the model for usage (OpenAI streams: stream_options={'include_usage': true})",
}


def explain_packed(bodies: Sequence[bytes], now: float) -> TraceExplanation:
    """``explain`` for spans as the store holds them."""
    return explain(unpack(bodies), now)


def explain(spans: Sequence[Span], now: float) -> TraceExplanation:
    """Spans, queries and feedback of one trace.

    Args:
        spans: of one trace, each once.
        now: unix seconds, for spans that have no time.
    """
    trace = map_trace(spans, now)
    nodes = list(everything(trace.tops))
    return TraceExplanation(
        trace_id=spans[0].trace_id.hex(),
        spans=[_outline(node) for node in nodes],
        queries=[_explain_query(query) for query in trace.queries],
        feedback=[
            _explain_evaluation(targeted.evaluation)
            for targeted in targeted_evaluations(trace.tops)
        ],
        verdict=_verdict(trace.queries, nodes),
    )


def _explain_evaluation(evaluation: SpanEvaluation) -> TraceEvaluation:
    fields = msgspec.structs.asdict(evaluation)
    timestamp = fields.pop("timestamp")
    return TraceEvaluation(
        time_ns=round(timestamp * 1e6) * 1_000 if timestamp > 0.0 else 0, **fields
    )


def _outline(node: Node) -> SpanOutline:
    return SpanOutline(
        name=node.span.name,
        depth=sum(1 for _ in node.ancestors()),
        role=node.role,
        ms=round(node.span.duration_ms, 3),
        instrumentation=node.span.scope,
        failed=node.span.status == ERROR,
    )


def _verdict(queries: Sequence[MappedQuery], nodes: Sequence[Node]) -> str:
    if queries:
        return "one query" if len(queries) == 1 else f"{len(queries)} queries"
    reason = reason_for_none(nodes)
    if reason != "no_step":
        return _NO_QUERY[reason]
    instruments = sorted({node.span.scope for node in nodes if node.span.scope})
    from_ = f" (spans of {', '.join(instruments[:5])})" if instruments else ""
    return _NO_QUERY[reason] + from_


def _explain_query(query: MappedQuery) -> QueryExplanation:
    latency = query.record.latency_ms
    return QueryExplanation(
        query_id=query.record.query_id,
        fields={
            field: _explain_field(query, field) for field in _FIELDS if _is_set(query.record, field)
        },
        latency_ms=None if latency is None else msgspec.to_builtins(latency),
        missing=_missing(query),
    )


def _explain_field(query: MappedQuery, field: str) -> FieldExplanation:
    origin = query.sources.get(field)
    return FieldExplanation(
        value=getattr(query.record, field),
        span=None if origin is None else origin.span,
        key=None if origin is None else origin.key,
        doubt=origin.doubt or None if origin is not None else None,
    )


def _is_set(record: QueryRecord, field: str) -> bool:
    return getattr(record, field) not in (None, "")


def _missing(query: MappedQuery) -> list[MissingField]:
    record = query.record
    nodes = list(everything(query.unit.tops))
    content = _CONTENT[_dialect(nodes)]
    missing = []
    if record.query is None:
        missing.append(MissingField(field="query", advice=content))
    if record.answer is None and record.error is None:
        missing.append(MissingField(field="answer", advice=content))
    if record.chunks is None:
        retrievers = outermost(query.unit.tops, RETRIEVER)
        say = "instrument the retriever, or the vector database client"
        missing.append(MissingField(field="chunks", advice=content if retrievers else say))
    elif any(chunk.score is None for chunk in record.chunks):
        missing.append(
            MissingField(
                field="chunks.score",
                advice="put the score into the documents' metadata as `score`",
            )
        )
    has_model = any(node.role == MODEL for node in nodes)
    for field, advice in _SETTINGS.items():
        is_due = has_model or field not in ("model", "tokens") or record.answer
        if is_due and not _is_set(record, field):
            missing.append(MissingField(field=field, advice=advice))
    return missing


def _dialect(nodes: Sequence[Node]) -> str:
    keys = {key.partition(".")[0] for node in nodes for key in node.span.attributes}
    return next((each for each in _CONTENT if each in keys), "")
