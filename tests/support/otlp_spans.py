"""Spans of an application in the shapes that tests ask for, and the one query they come to."""

from ragmon.sources.otlp.traces.mapping import map_trace
from tests.support.otlp import NOW, span

KIND = "openinference.span.kind"
OP = "gen_ai.operation.name"


def record_of(*spans):
    """The one query of a trace."""
    queries = map_trace(spans, NOW).queries
    assert len(queries) == 1
    return queries[0].record


def root(**attributes):
    return span(1, 0, {KIND: "CHAIN", **attributes}, end_ns=int(NOW * 1e9) + 10**9)


def retriever(number=2, parent=1, **attributes):
    return span(number, parent, {KIND: "RETRIEVER", **attributes})
