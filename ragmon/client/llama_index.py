"""Event handler of LlamaIndex.

    get_dispatcher().add_event_handler(RagmonEvents(monitor, pipeline="helpdesk"))

Each call of a query engine is a query; engines inside an engine are steps of it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from llama_index.core.instrumentation.event_handlers import BaseEventHandler

from ragmon.client.arguments import QueryFields
from ragmon.client.clock import ClientClock, ProcessClock
from ragmon.client.monitor import Monitor
from ragmon.client.timing import TimedQuery

if TYPE_CHECKING:
    from typing_extensions import Unpack

_BEGINS = {"RetrievalStartEvent": "retrieval", "SynthesizeStartEvent": "generation"}
_ENDS = {"RetrievalEndEvent": "retrieval", "SynthesizeEndEvent": "generation"}


class _EngineQuery:
    """The outermost query under way."""

    def __init__(self, query: TimedQuery, span_id: str | None) -> None:
        self.query = query
        self.span_id = span_id
        self.began: dict[tuple[str, str | None], float] = {}
        self.nodes: list[Any] | None = None


_CURRENT: ContextVar[_EngineQuery | None] = ContextVar("current LlamaIndex query", default=None)


class RagmonEvents(BaseEventHandler):  # type: ignore[misc]
    """Logs each query of a query engine.

    A streamed answer is not known when the engine returns: it is left out.

    Args:
        monitor: logs the queries.
        clock: for tests.
        **fields: of every query, such as ``pipeline``; see ``QueryFields``.
    """

    model_config = {"extra": "allow"}  # noqa: RUF012 - pydantic's; it admits what is set below

    def __init__(
        self, monitor: Monitor, clock: ClientClock | None = None, **fields: Unpack[QueryFields]
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.clock = clock or ProcessClock()
        self.fields = fields

    @classmethod
    def class_name(cls) -> str:
        """Name of the handler."""
        return "RagmonEvents"

    def handle(self, event: Any, **_: Any) -> None:
        """Take one event of any kind; those of other kinds are left alone."""
        kind, current = event.class_name(), _CURRENT.get()
        if kind == "QueryStartEvent" and current is None:
            self._begin(event)
        elif current is None:
            return
        elif kind in _BEGINS:
            current.began[_BEGINS[kind], event.span_id] = self.clock.monotonic()
        elif kind in _ENDS:
            self._end_stage(current, _ENDS[kind], event)
        elif event.span_id == current.span_id and kind in ("QueryEndEvent", "SpanDropEvent"):
            self._finish(current, event)

    def _begin(self, event: Any) -> None:
        fields = {"query": _question(event.query), **self.fields}
        query_id = self.monitor.new_query_id()
        query = TimedQuery(self.monitor.log_query, query_id, self.clock, fields)
        query.begin()
        _CURRENT.set(_EngineQuery(query, event.span_id))

    def _end_stage(self, current: _EngineQuery, stage: str, event: Any) -> None:
        began = current.began.pop((stage, event.span_id), None)
        if began is not None:
            current.query.spent(stage, self.clock.monotonic() - began)
        if stage == "retrieval":
            current.nodes = [*(current.nodes or ()), *event.nodes]

    def _finish(self, current: _EngineQuery, event: Any) -> None:
        _CURRENT.set(None)
        response = getattr(event, "response", None)
        answer = getattr(response, "response", None)
        nodes = current.nodes
        if nodes is None:
            nodes = getattr(response, "source_nodes", None) or None
        if event.class_name() == "SpanDropEvent":
            current.query.failed(event.err_str or "the query failed")
        current.query.complete(
            answer=answer if isinstance(answer, str) else None, retrieved_docs=nodes
        )
        current.query.finish()


def _question(query: Any) -> str | None:
    """Text of a question, or of a bundle that holds it."""
    text = query if isinstance(query, str) else getattr(query, "query_str", None)
    return text if isinstance(text, str) else None
