"""Index from spans and model responses to queries, for feedback that names nothing else."""

import threading
from collections import OrderedDict

from ragmon.sources.otlp.receiver.recorded_calls import RecordedCalls
from ragmon.sources.otlp.traces.mapping import MappedQuery
from ragmon.sources.otlp.traces.tree import everything

_MOST = 50_000


class Targets:
    """The newest spans and responses; feedback about older ones must name its trace."""

    def __init__(self) -> None:
        self.calls = RecordedCalls()
        self._queries: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def learn(self, query: MappedQuery) -> None:
        """Remember a query by its spans and responses."""
        self.calls.learn(query)
        with self._lock:
            tops = query.unit.tops
            is_alone = query.record.query_id == query.record.trace_id
            # Deeper spans of the only query of a trace are found by the trace.
            nodes = [*tops, *(each for top in tops for each in top.children)]
            for node in nodes if is_alone else everything(tops):
                self._remember(node.span.span_id.hex(), query.record.query_id)
            for response_id in query.response_ids:
                self._remember(f"response:{response_id}", query.record.query_id)

    def find(self, name: str) -> str | None:
        """The query of a span id (hexadecimal) or of ``response:`` and a response id."""
        with self._lock:
            return self._queries.get(name)

    def of_span(self, trace_id: bytes, span_id: bytes) -> str:
        """The query of a span; its trace stands for it when it is not known better."""
        return self.find(span_id.hex()) or trace_id.hex()

    def _remember(self, name: str, query_id: str) -> None:
        self._queries[name] = query_id
        if len(self._queries) > _MOST:
            self._queries.popitem(last=False)
