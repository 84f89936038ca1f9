"""The thread that turns complete traces into queries and feedback.

A query is committed before its spans are deleted. A crash between the two maps the trace again,
and its query id makes that a duplicate.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

import structlog
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.decode import Bounds
from ragmon.errors import OverloadedError, StoreError
from ragmon.loops import Loop, beat, wait_for
from ragmon.privacy.erasure import Subject
from ragmon.sources import IngestCounters, IngestOutcome, RecordSink, Submission, count_outcome
from ragmon.sources.otlp.receiver.assembly import Assembly, Complete, TraceTimeouts
from ragmon.sources.otlp.receiver.erasure import is_owned
from ragmon.sources.otlp.receiver.results import DEFECTS, Results
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.spans import Span, unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.stores.protocols import SpanRow, Spans
from ragmon.threads import OnWriter

SOURCE = "otlp"
_TURN_S = 0.25
_RETRY_S = 1.0
_BATCH = 200  # traces mapped before the next are looked at: it bounds what is in memory twice
_RECENT = 100
_RECENT_BYTES = 8 << 20
_MOST_BEHIND = 8 << 20
_PART_BYTES = 400  # what a part takes besides its body


class Bounding(Struct, frozen=True, kw_only=True):
    """Accepted ages of queries; older and future ones are refused."""

    retention_s: float
    max_skew_s: float


class MappingWorker:
    """Waits for traces to be complete, maps them and hands the results to the sink."""

    def __init__(
        self,
        *,
        sink: RecordSink,
        counters: IngestCounters,
        clock: Clock,
        spans: OnWriter[Spans],
        timeouts: TraceTimeouts,
        bounding: Bounding,
    ) -> None:
        self.assembly = Assembly(timeouts)
        self.targets = Targets()
        self.recent: deque[tuple[bytes, tuple[bytes, ...]]] = deque(maxlen=_RECENT)
        self._recent_bytes = 0
        self._sink = sink
        self._counters = counters
        self._clock = clock
        self._spans = spans
        self._bounding = bounding
        self._inbox: deque[SpanRow] = deque()
        self._delivered = 0  # bytes; written by the thread that delivers
        self._drained = 0  # bytes; written by this thread
        self._is_restored = False
        self._erasures: deque[tuple[Subject, bool, Future[list[bytes]]]] = deque()
        self._log = structlog.get_logger("otlp")
        self.loop = Loop("otlp", self._turn, self._log)

    def start(self) -> None:
        """Begin, without waiting."""
        self.loop.start()

    def stop(self) -> None:
        """End; traces that are not complete stay in the store."""
        self.loop.stop()

    @property
    def is_behind(self) -> bool:
        """True while so many spans wait that requests should be refused for now."""
        return self._delivered - self._drained > _MOST_BEHIND

    def deliver(self, parts: Sequence[SpanRow]) -> None:
        """Take in spans that are durable now; called on the writer's thread only."""
        self._inbox.extend(parts)
        self._delivered += _size_of(parts)

    def erase(self, subject: Subject, *, dry_run: bool) -> Future[list[bytes]]:
        """Have the subject's incomplete traces deleted between two turns; returns their ids."""
        future: Future[list[bytes]] = Future()
        self._erasures.append((subject, dry_run, future))
        self.loop.wake()
        return future

    def _erase_all(self) -> None:
        while self._erasures:
            subject, dry_run, future = self._erasures.popleft()
            try:
                future.set_result(self._erase(subject, dry_run=dry_run))
            except (StoreError, RuntimeError) as error:
                future.set_exception(error)

    def _erase(self, subject: Subject, *, dry_run: bool) -> list[bytes]:
        waiting = [row[0] for row in self._spans.ask(lambda stored: stored.pending())]
        owned: list[bytes] = []
        for start in range(0, len(waiting), _BATCH):
            beat()
            batch = waiting[start : start + _BATCH]
            pairs = zip(batch, self._bodies(batch), strict=True)
            owned += [trace_id for trace_id, parts in pairs if is_owned(parts, subject)]
        if not dry_run:
            self._spans.ask(lambda stored: stored.delete(owned))
            for trace_id in owned:
                self.assembly.discard(trace_id)
            kept = [(name, parts) for name, parts in self.recent if not is_owned(parts, subject)]
            self.recent.clear()
            self.recent.extend(kept)
            self._recent_bytes = sum(len(body) for _, parts in kept for body in parts)
        return owned

    def restore(self) -> None:
        """Wait again for the traces that were incomplete when ragmon ended."""
        now = self._clock.monotonic()
        for trace_id, spans, has_entry in self._spans.ask(lambda stored: stored.pending()):
            self.assembly.restore(trace_id, spans, bool(has_entry), now)

    def step(self) -> bool:
        """Map everything that is complete; False when the results could not be stored."""
        now = self._clock.monotonic()
        late = [part for part in self._drain() if not self.assembly.add(part, now)]
        while (complete := self.assembly.due(now, _BATCH)) or late:
            if not self._finish(complete, late, now):
                return False
            late = []
        return True

    def _finish(self, complete: Sequence[Complete], late: Sequence[SpanRow], now: float) -> bool:
        """Map, store and delete traces; those that cannot be stored wait again."""
        try:
            bodies = self._fetch(complete)
            results = self._map(bodies, late)
            self._submit(results, sum(len(body) for trace in bodies for body in trace))
            gone = {trace.trace_id for trace in complete} | {part.trace_id for part in late}
            self._spans.ask(lambda stored: stored.delete(gone))
        except (OverloadedError, StoreError) as error:
            self._log.warning("traces_wait", error=str(error), traces=len(complete))
            for trace in complete:
                self.assembly.put_back(trace, now)
            self._inbox.extendleft(reversed(late))
            self._drained -= _size_of(late)
            return False
        self._remember(complete, bodies)
        return True

    def _turn(self) -> float:
        if not self._is_restored:
            try:
                self.restore()
            except StoreError as error:
                self._log.warning("cannot_restore", error=str(error))
                return _RETRY_S
            self._is_restored = True
        mapped = self.step()
        self._erase_all()
        return _TURN_S if mapped else _RETRY_S

    def _drain(self) -> list[SpanRow]:
        parts = []
        while self._inbox:
            parts.append(self._inbox.popleft())
        self._drained += _size_of(parts)
        return parts

    def _fetch(self, complete: Sequence[Complete]) -> list[tuple[bytes, ...]]:
        """The bodies of each trace; those no longer in memory come from the store."""
        missing = [trace.trace_id for trace in complete if trace.bodies is None]
        stored: dict[bytes, list[bytes]] = {}
        if missing:
            bodies = self._bodies(missing)
            stored = dict(zip(missing, bodies, strict=True))
        return [
            tuple(stored[trace.trace_id]) if trace.bodies is None else trace.bodies
            for trace in complete
        ]

    def _bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        return self._spans.ask(lambda spans: spans.bodies(trace_ids))

    def _map(self, bodies: Sequence[Sequence[bytes]], late: Sequence[SpanRow]) -> Results:
        now = self._clock.now()
        bounding = self._bounding
        bounds = Bounds(now - bounding.retention_s, now + bounding.max_skew_s)
        results = Results(self.targets, now, bounds)
        for trace_bodies in bodies:
            self._try(results, trace_bodies, is_late=False)
        for part in late:
            self._try(results, (part.body,), is_late=True)
        return results

    def _try(self, results: Results, bodies: Sequence[bytes], *, is_late: bool) -> None:
        beat()
        spans = unpack(bodies)
        try:
            if is_late:
                results.add_feedback(map_trace(spans, self._clock.now()))
            else:
                results.add(spans)
        except DEFECTS:
            self._log.exception("mapping_defect", trace_id=_name(spans))
            results.refuse("defect")

    def _submit(self, results: Results, size_bytes: int) -> None:
        """Hand over and wait until it is durable.

        Raises:
            OverloadedError: the queue is full.
            StoreError: the store refused.
        """
        for reason, count in results.refused.items():
            self._counters.rejected(SOURCE, reason, count)
        if not results.records and not results.changes:
            return
        done = threading.Event()
        outcomes: list[IngestOutcome] = []

        def reply(outcome: IngestOutcome) -> None:
            outcomes.append(outcome)
            done.set()

        self._sink.submit(
            Submission(SOURCE, size_bytes, reply, records=results.records, changes=results.changes)
        )
        wait_for(done)
        if outcomes[0].error is not None:
            raise outcomes[0].error
        count_outcome(self._counters, SOURCE, outcomes[0])

    def _remember(self, complete: Sequence[Complete], bodies: Sequence[tuple[bytes, ...]]) -> None:
        """Keep the newest for ``ragmon trace-doctor --last``."""
        for trace, trace_bodies in zip(complete[-_RECENT:], bodies[-_RECENT:], strict=True):
            if len(self.recent) == _RECENT:
                self._recent_bytes -= sum(map(len, self.recent[0][1]))
            self.recent.append((trace.trace_id, trace_bodies))
            self._recent_bytes += sum(map(len, trace_bodies))
            while self._recent_bytes > _RECENT_BYTES and self.recent:
                self._recent_bytes -= sum(map(len, self.recent.popleft()[1]))


def _size_of(parts: Iterable[SpanRow]) -> int:
    return sum(_PART_BYTES + len(part.body) for part in parts)


def _name(spans: Sequence[Span]) -> str:
    return spans[0].trace_id.hex() if spans else ""
