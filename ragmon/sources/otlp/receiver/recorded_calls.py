"""Model calls that were mapped lately, to know those that a second instrumentation recorded.

The spans of a provider's own SDK may be a trace of their own beside that of the instrumentation
around it; they would be a query without question and answer, with the same tokens once more.
"""

from collections import OrderedDict, deque
from typing import Any

from ragmon.sources.otlp.conventions import read
from ragmon.sources.otlp.reading.facts import MODEL
from ragmon.sources.otlp.spans import Span
from ragmon.sources.otlp.traces.mapping import MappedQuery
from ragmon.sources.otlp.traces.model_calls import NO_USAGE, interval, is_within, usage_of
from ragmon.sources.otlp.traces.tree import Node

_MOST = 2_000
_MOST_ALIKE = 20  # calls with the same usage

_Recorded = tuple[str, tuple[int, int]]
"""Instrumentation and time of a call."""


class RecordedCalls:
    """The newest calls by service, model and tokens; for one thread."""

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[Any, ...], deque[_Recorded]] = OrderedDict()

    def learn(self, query: MappedQuery) -> None:
        """Remember the calls of a query."""
        for node in query.models:
            key = _key(node)
            if key is not None:
                self._calls.setdefault(key, deque(maxlen=_MOST_ALIKE)).append(
                    (node.span.scope, interval(node))
                )
        while len(self._calls) > _MOST:
            self._calls.popitem(last=False)

    def has(self, query: MappedQuery) -> bool:
        """True for one call without content that another instrumentation recorded before."""
        record = query.record
        if len(query.models) != 1 or record.query or record.answer or record.chunks is not None:
            return False
        call = query.models[0]
        key = _key(call)
        return key is not None and any(
            scope != call.span.scope and is_within(interval(call), recorded)
            for scope, recorded in self._calls.get(key, ())
        )


def is_bare(span: Span) -> bool:
    """True for a model call that tells its tokens, and neither question nor answer."""
    facts = read(span)
    return (
        facts.role == MODEL
        and facts.value("query") is None
        and facts.value("answer") is None
        and usage_of(Node(span, facts)) != NO_USAGE
    )


def _key(node: Node) -> tuple[Any, ...] | None:
    usage = usage_of(node)
    return None if usage == NO_USAGE else (node.span.resource.service, *usage)
