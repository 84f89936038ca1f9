"""Explanation of a mapped trace, field by field, and advice on the missing fields."""

from collections.abc import Sequence

import msgspec

from ragmon.api_schema import (
    FieldExplanation,
    QueryExplanation,
    SpanLoss,
    SpanOutline,
    TraceEvaluation,
    TraceExplanation,
)
from ragmon.records import QueryRecord
from ragmon.sources.otlp.advice.missing import missing_fields
from ragmon.sources.otlp.advice.no_query import NOTHING, why_no_query
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.spans import ERROR, Span, unpack
from ragmon.sources.otlp.traces.feedback import targeted_evaluations
from ragmon.sources.otlp.traces.mapping import MappedQuery, map_trace
from ragmon.sources.otlp.traces.tree import Node, everything

_FIELDS = ("query", "retrieval_query", "answer", "chunks", "model", "tokens", "cost_usd",
           "session_id", "user_id", "version", "environment", "error")  # fmt: skip


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
    count = len(trace.queries)
    if count:
        verdict, remedy = "one query" if count == 1 else f"{count} queries", NOTHING
    else:
        verdict, remedy = why_no_query(nodes)
    return TraceExplanation(
        trace_id=spans[0].trace_id.hex(),
        spans=[_outline(node) for node in nodes],
        queries=[_explain_query(query) for query in trace.queries],
        feedback=[
            _explain_evaluation(targeted.evaluation)
            for targeted in targeted_evaluations(trace.tops)
        ],
        verdict=verdict,
        remedy=remedy.text or None,
        line=remedy.line or None,
        losses=[_loss(span, *span.lost) for span in spans if span.lost is not None],
    )


def _loss(span: Span, attributes: int, events: int) -> SpanLoss:
    limits = [
        setting
        for setting, lost in (
            ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000", attributes),
            ("OTEL_SPAN_EVENT_COUNT_LIMIT=10000", events),
        )
        if lost
    ]
    return SpanLoss(
        span=span.name,
        attributes=attributes,
        events=events,
        advice=f"Set {' and '.join(limits)} where the application runs: SDKs keep 128",
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


def _explain_query(query: MappedQuery) -> QueryExplanation:
    latency = query.record.latency_ms
    return QueryExplanation(
        query_id=query.record.query_id,
        fields={
            field: _explain_field(query, field) for field in _FIELDS if _is_set(query.record, field)
        },
        latency_ms=None if latency is None else msgspec.to_builtins(latency),
        missing=missing_fields(query),
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
