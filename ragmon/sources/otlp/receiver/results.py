"""Results of complete traces: checked records, and changes to the queries they are about."""

from collections.abc import Container, Sequence

import msgspec
from msgspec.structs import replace

from ragmon.decode import Decoder
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.quarantine import AGES
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.receiver.known import KnownTrace
from ragmon.sources.otlp.receiver.permitted import strangers
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.spans import FORBIDDEN, Span
from ragmon.sources.otlp.traces.feedback import changes_for, stamped, targeted_evaluations
from ragmon.sources.otlp.traces.mapping import Trace, map_trace, reason_for_none
from ragmon.sources.otlp.traces.tree import everything

_encode = msgspec.json.Encoder().encode
_decode = Decoder(QueryRecord)


class Results:
    """Collects the results of several traces."""

    def __init__(self, targets: Targets, now: float, bounds: Bounds) -> None:
        self.records: list[QueryRecord] = []
        self.changes: list[Feedback | Label] = []
        self.revisions: list[QueryRecord] = []  # queries of traces that were mapped before
        self.refused: dict[str, int] = {}
        self.without_query: dict[str, int] = {}  # traces, by reason
        self.log_events: dict[str, int] = {}  # that joined no span, by reason
        self._targets = targets
        self._now = now
        self._bounds = bounds

    def add(self, spans: Sequence[Span], known: KnownTrace | None = None) -> RecordError | None:
        """Map a trace; returns why a query of it was refused, unless by its age.

        Args:
            spans: of the trace, those that were read before too.
            known: from before; it learns the queries of now.
        """
        known = known or KnownTrace()
        known.note(spans)
        trace = map_trace(spans, self._now)
        while foreign := strangers(trace.queries):
            self.refuse(FORBIDDEN, len(foreign))
            spans = [span for span in spans if span.span_id not in foreign]
            trace = map_trace(spans, self._now)
        refusal = None
        for _ in range(trace.circles):
            self.refuse("parent_cycle")
        for event_id, reason in trace.left_out.items():
            if event_id not in known.seen:
                self.log_events[reason] = self.log_events.get(reason, 0) + 1
        if not known.queries and self._is_recorded(trace):
            self._count_without("recorded_twice")
            self.add_feedback(trace, known.seen)
            return None
        if not trace.queries:
            self._count_without(reason_for_none(everything(trace.tops)))
        queries, merged = known.named(trace.queries)
        trace = replace(trace, queries=tuple(queries))
        if merged:
            self.refuse("merged", merged)
        for query in trace.queries:
            try:
                record = _decode(_encode(query.record), self._now, self._bounds)
            except RecordError as error:
                self.refuse(error.reason)
                refusal = refusal if error.reason in AGES else error
                continue
            is_new = record.query_id not in known.queries
            (self.records if is_new else self.revisions).append(record)
            known.learn(query)
            self._targets.learn(query)
        self.add_feedback(trace, known.seen)
        return refusal

    def add_feedback(self, trace: Trace, seen: Container[bytes] = ()) -> None:
        """Add the feedback of a trace alone; for spans that come after their trace was let go.

        Args:
            trace: mapped.
            seen: ids of spans whose feedback was read before.
        """
        inline = {
            node.span.span_id: query.record.query_id
            for query in trace.queries
            for node in everything(query.unit.tops)
        }
        by_query: dict[str, list[SpanEvaluation]] = {}
        for targeted in targeted_evaluations(trace.tops, seen):
            if targeted.evaluation.scope == "session":
                self.refuse("session_feedback")
                continue
            own_query = inline.get(targeted.span_id)
            if own_query is None and targeted.is_limited:
                self.refuse(FORBIDDEN)  # the pipeline of another query is not known here
                continue
            target = own_query or self._targets.of_span(targeted.trace_id, targeted.span_id)
            try:
                evaluation = stamped(targeted.evaluation, self._now, self._bounds)
            except RecordError as error:
                self.refuse(error.reason)
                continue
            by_query.setdefault(target, []).append(evaluation)
        for query_id, evaluations in by_query.items():
            self.changes += changes_for(query_id, evaluations)

    def _is_recorded(self, trace: Trace) -> bool:
        """True for a call that another instrumentation recorded in a trace of its own."""
        return len(trace.queries) == 1 and self._targets.calls.has(trace.queries[0])

    def _count_without(self, reason: str) -> None:
        self.without_query[reason] = self.without_query.get(reason, 0) + 1

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count results that are left out."""
        self.refused[reason] = self.refused.get(reason, 0) + count

    def size(self) -> tuple[int, int, int]:
        """Numbers of records, of changes and of revisions."""
        return len(self.records), len(self.changes), len(self.revisions)

    def cut(self, size: tuple[int, int, int]) -> None:
        """Take back what came after ``size`` was asked for."""
        del self.records[size[0] :], self.changes[size[1] :], self.revisions[size[2] :]
