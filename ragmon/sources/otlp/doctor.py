"""Explanation of a mapped trace, field by field, and advice on the missing fields."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ragmon.sources.otlp.reading.facts import EMBEDDING, EVALUATOR, MODEL, RETRIEVER
from ragmon.sources.otlp.spans import ERROR, Span, unpack
from ragmon.sources.otlp.traces.feedback import targeted_evaluations
from ragmon.sources.otlp.traces.mapping import MappedQuery, map_trace
from ragmon.sources.otlp.traces.tree import Node, everything, outermost


class Advice(NamedTuple):
    """A missing field, and the change that would provide it."""

    field: str
    advice: str


_FIELDS = ("query", "retrieval_query", "answer", "chunks", "model", "tokens", "cost_usd",
           "session_id", "user_id", "version", "environment", "error")  # fmt: skip
_CONTENT = {
    "openinference": "unset OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS",
    "traceloop": "unset TRACELOOP_TRACE_CONTENT=false",
    "gen_ai": "content is opt-in: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only",
    "haystack": "set HAYSTACK_CONTENT_TRACING_ENABLED=true",
    "ai": "set recordInputs and recordOutputs in experimental_telemetry",
    "": "record the input and output of the root span",
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


def explain_packed(bodies: Sequence[bytes], now: float) -> dict[str, Any]:
    """``explain`` for spans as the store holds them."""
    return explain(unpack(bodies), now)


def explain(spans: Sequence[Span], now: float) -> dict[str, Any]:
    """One trace, as JSON-like data.

    Args:
        spans: of one trace, each once.
        now: unix seconds, for spans that have no time.
    """
    trace = map_trace(spans, now)
    nodes = list(everything(trace.tops))
    return {
        "trace_id": spans[0].trace_id.hex(),
        "spans": [_outline(node) for node in nodes],
        "queries": [_explain_query(query) for query in trace.queries],
        "feedback": [
            msgspec.to_builtins(targeted.evaluation)
            for targeted in targeted_evaluations(trace.tops)
        ],
        "verdict": _verdict(trace.queries, nodes),
    }


def _outline(node: Node) -> dict[str, Any]:
    depth = sum(1 for _ in node.ancestors())
    return {
        "name": node.span.name,
        "depth": depth,
        "role": node.role,
        "ms": round(node.span.duration_ms, 3),
        "instrumentation": node.span.scope,
        "failed": node.span.status == ERROR,
    }


def _verdict(queries: Sequence[MappedQuery], nodes: Sequence[Node]) -> str:
    if queries:
        return "one query" if len(queries) == 1 else f"{len(queries)} queries"
    roles = {node.role for node in nodes}
    if EVALUATOR in roles:
        return "no query: an evaluation or feedback"
    if EMBEDDING in roles:
        return "no query: embeddings without retrieval, as an indexing run makes them"
    return "no query: no span retrieves or generates"


def _explain_query(query: MappedQuery) -> dict[str, Any]:
    record = msgspec.to_builtins(query.record)
    fields = {
        field: {
            "value": record.get(field),
            "span": query.sources[field].span if field in query.sources else None,
            "key": query.sources[field].key if field in query.sources else None,
        }
        for field in _FIELDS
        if record.get(field) is not None
    }
    return {
        "query_id": query.record.query_id,
        "fields": fields,
        "latency_ms": record.get("latency_ms"),
        "missing": [each._asdict() for each in _missing(query)],
    }


def _missing(query: MappedQuery) -> list[Advice]:
    record = query.record
    nodes = list(everything(query.unit.tops))
    content = _CONTENT[_dialect(nodes)]
    missing = []
    if record.query is None:
        missing.append(Advice("query", content))
    if record.answer is None and record.error is None:
        missing.append(Advice("answer", content))
    if record.chunks is None:
        retrievers = outermost(query.unit.tops, RETRIEVER)
        say = "instrument the retriever, or the vector database client"
        missing.append(Advice("chunks", content if retrievers else say))
    elif any(chunk.score is None for chunk in record.chunks):
        missing.append(
            Advice("chunks.score", "put the score into the documents' metadata as `score`")
        )
    has_model = any(node.role == MODEL for node in nodes)
    for field, advice in _SETTINGS.items():
        is_set = getattr(record, field) not in (None, "")
        if not is_set and (has_model or field not in ("model", "tokens") or record.answer):
            missing.append(Advice(field, advice))
    return missing


def _dialect(nodes: Sequence[Node]) -> str:
    keys = {key.partition(".")[0] for node in nodes for key in node.span.attributes}
    return next((each for each in _CONTENT if each in keys), "")
