"""Spans of tokens that may write some pipelines only.

The pipeline of a trace is known once it is complete, and its spans may come from several senders.
So spans of other services are refused when they come, the others keep the limits of their sender,
and a span never becomes part of a query that its sender may not write.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from ragmon.access import Pipelines
from ragmon.sources.otlp.spans import FORBIDDEN, DecodedSpans
from ragmon.sources.otlp.traces.mapping import DEFAULT_PIPELINE, MappedQuery
from ragmon.sources.otlp.traces.tree import everything


def admit(decoded: DecodedSpans, pipelines: Pipelines) -> None:
    """Refuse spans whose resource names another pipeline, and note the limits in the others."""
    admitted = []
    for span in decoded.spans:
        named = [name for name in (span.resource.service, span.resource.project) if name]
        if all(map(pipelines, named or (DEFAULT_PIPELINE,))):
            admitted.append(replace(span, sender_pipelines=pipelines.globs))
        else:
            decoded.refuse(FORBIDDEN)
    decoded.spans = admitted


def strangers(queries: Iterable[MappedQuery]) -> set[bytes]:
    """Ids of spans in queries of pipelines that their sender may not write."""
    return {
        node.span.span_id
        for query in queries
        for node in everything(query.unit.tops)
        if (globs := node.span.sender_pipelines) and not Pipelines(globs)(query.record.pipeline)
    }
