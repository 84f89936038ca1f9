"""Knowledge of a trace that was mapped before: its queries keep their ids when more spans come."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragmon.sources.otlp.spans import Span, unpack
from ragmon.sources.otlp.traces.mapping import MappedQuery
from ragmon.sources.otlp.traces.tree import everything
from ragmon.stores.protocols import MappedSpans


class KnownTrace(Struct):
    """The queries that were made of a trace, and the spans that were read for them."""

    queries: dict[str, list[bytes]] = {}  # by query id: span ids of the tops
    seen: frozenset[bytes] = frozenset()  # span ids
    spans: int = 0
    has_entry: bool = False

    def note(self, spans: Sequence[Span]) -> None:
        """Note the spans that are there now."""
        self.spans = len(spans)
        self.has_entry = any(span.is_entry for span in spans)

    def learn(self, query: MappedQuery) -> None:
        """Remember a query by its tops."""
        tops = [top.span.span_id for top in query.unit.tops]
        self.queries[query.record.query_id] = tops

    def named(self, queries: Sequence[MappedQuery]) -> tuple[list[MappedQuery], int]:
        """The queries under the ids that they had, and how many of the former are parts of others.

        A query is the same when its tops are found in it again: their parent may have come.
        """
        left = dict(self.queries)
        named, merged = [], 0
        for query in queries:
            within = {node.span.span_id for node in everything(query.unit.tops)}
            same = [name for name, tops in left.items() if not within.isdisjoint(tops)]
            for name in same:
                del left[name]
            merged += max(0, len(same) - 1)
            record = replace(query.record, query_id=same[0]) if same else query.record
            named.append(replace(query, record=record))
        return named, merged

    def packed(self, trace_id: bytes, parts: int) -> MappedSpans:
        """For the store.

        Args:
            trace_id: of the trace.
            parts: that its spans came in.
        """
        queries = msgspec.msgpack.encode(self.queries)
        return MappedSpans(trace_id, parts, self.spans, self.has_entry, queries)


def known_trace(bodies: Sequence[bytes], before: MappedSpans | None) -> KnownTrace:
    """Knowledge of a trace, of which some parts were mapped before.

    Args:
        bodies: all parts, in the order in which they came.
        before: as the store has it; None: none was mapped.

    Raises:
        msgspec.MsgspecError: a part is damaged.
    """
    if before is None:
        return KnownTrace()
    queries = msgspec.msgpack.decode(before.queries, type=dict[str, list[bytes]])
    seen = frozenset(span.span_id for span in unpack(bodies[: before.parts]))
    return KnownTrace(queries, seen)


def closed(trace_id: bytes) -> MappedSpans:
    """A trace of which no more spans are taken."""
    return MappedSpans(trace_id, 0, 0, has_entry=False, queries=b"", is_closed=True)
