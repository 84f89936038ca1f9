"""The thread that turns complete traces into queries and feedback.

A query is committed before it is noted that its spans were mapped. A crash between the two maps the
trace again, and its query id makes that a duplicate. The spans stay for a while: with those that
come later the trace is mapped again, and its queries are restated.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import structlog

from ragmon.clock import Clock
from ragmon.errors import OverloadedError, StoreCorruptError, StoreError
from ragmon.loops import Loop, beat, wait_for
from ragmon.privacy.erasure import Subject
from ragmon.sources import IngestCounters, IngestOutcome, RecordSink, Submission, count_outcome
from ragmon.sources.otlp.receiver.assembly import Assembly, Complete, TraceTimeouts
from ragmon.sources.otlp.receiver.batch import MappingBatch, MappingBounds, MappingOptions
from ragmon.sources.otlp.receiver.erasure import is_owned
from ragmon.sources.otlp.receiver.known import closed
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.suspects import Suspects, damaged_items, no_reply
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.receiver.time_limit import FreezeGuard, TimeLimit
from ragmon.stores.protocols import MappedSpans, SpanRow, Spans, UnreadableSpans
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.threads import OnWriter

SOURCE = "otlp"
_TURN_S = 0.25
_RETRY_S = 1.0
_BATCH = 200  # traces mapped before the next are looked at: it bounds what is in memory twice
_RECENT = 100
_RECENT_BYTES = 8 << 20
_MOST_BEHIND = 8 << 20
_CLOSED = 1_000  # traces whose spans go in one step
_CLOSE_EVERY_S = 5.0
_PART_BYTES = 400  # what a part takes besides its body


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
        options: MappingOptions,
    ) -> None:
        self.assembly = Assembly(timeouts)
        self.targets = Targets()
        self.recent: deque[tuple[bytes, tuple[bytes, ...]]] = deque(maxlen=_RECENT)
        self._recent_bytes = 0
        self._sink = sink
        self._counters = counters
        self._clock = clock
        self._spans = spans
        self._options = options
        self._bounds = MappingBounds(clock, options)
        self._timeouts = timeouts
        self._closes_at = clock.monotonic()
        guard = FreezeGuard(clock, options.timeout_s) if options.ends_frozen else None
        self._inbox: deque[SpanRow] = deque()
        self._delivered = 0  # bytes; written by the thread that delivers
        self._drained = 0  # bytes; written by this thread
        self._is_restored = False
        self._erasures: deque[tuple[Subject, bool, Future[list[bytes]]]] = deque()
        self._log = structlog.get_logger("otlp")
        self.loop = Loop("otlp", self._turn, self._log)
        self.limit = TimeLimit(options.timeout_s, clock, guard)
        self._suspects = Suspects(
            spans,
            self._submit,
            clock,
            options,
            bounds=self._bounds,
            is_ending=self.loop.stopping.is_set,
        )

    def start(self) -> None:
        """Begin, without waiting."""
        self.limit.loop.start()
        self.loop.start()

    def stop(self) -> None:
        """End; traces that are not complete stay in the store."""
        self.loop.stop()
        self.limit.stop()

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
        waiting = self._spans.ask(lambda stored: stored.traces())
        owned: list[bytes] = []
        for start in range(0, len(waiting), _BATCH):
            beat()
            batch = waiting[start : start + _BATCH]
            pairs = zip(batch, self._spans.ask(partial(_salvage_all, batch)), strict=True)
            owned += [
                trace_id
                for trace_id, (bodies, damaged) in pairs
                # Whose unreadable spans are, nobody can tell, and nobody can use them.
                if damaged or is_owned(bodies, subject)
            ]
        if not dry_run:
            self._forget(owned)
            for trace_id in owned:
                self.assembly.discard(trace_id)
                self._suspects.discard(trace_id)
            kept = [(name, parts) for name, parts in self.recent if not is_owned(parts, subject)]
            self.recent.clear()
            self.recent.extend(kept)
            self._recent_bytes = sum(len(body) for _, parts in kept for body in parts)
        return owned

    def _forget(self, trace_ids: Sequence[bytes]) -> None:
        """Delete spans; of traces that were mapped no more are taken, as they would come back."""
        mapped = self._spans.ask(lambda stored: stored.mapped(trace_ids))
        now = self._clock.now()
        self._spans.ask(lambda stored: stored.delete(trace_ids))
        self._spans.ask(lambda stored: stored.keep(map(closed, mapped), now))

    def _let_go(self) -> None:
        """Delete the spans of traces that were mapped long ago, a stretch at a time."""
        now = self._clock.monotonic()
        if now < self._closes_at:
            return
        before, timeouts = self._clock.now() - self._timeouts.late_s, self._timeouts
        gone = self._spans.ask(lambda stored: stored.close(before, timeouts.late_bytes, _CLOSED))
        self._closes_at = now + (0.0 if gone == _CLOSED else _CLOSE_EVERY_S)

    def restore(self) -> None:
        """Wait again for the traces that were incomplete when ragmon ended."""
        now = self._clock.monotonic()
        self._bounds.resume()
        self._suspects.restore()
        for trace_id, spans, has_entry in self._spans.ask(lambda stored: stored.pending()):
            if trace_id not in self._suspects:
                self.assembly.restore(trace_id, spans, bool(has_entry), now)

    def step(self) -> bool:
        """Map everything that is complete; False when the results could not be stored."""
        now = self._clock.monotonic()
        for part in self._drain():
            # Spans of a suspect are in the store and are mapped with it.
            if part.trace_id not in self._suspects:
                self.assembly.add(part, now)
        while complete := self.assembly.due(now, _BATCH):
            if not self._finish(complete, now):
                return False
        self._let_go()
        return self._suspects.step()

    def _finish(self, complete: Sequence[Complete], now: float) -> bool:
        """Map and store traces; those that cannot be stored wait again."""
        ids = [trace.trace_id for trace in complete]
        try:
            # Written before: what ends the process is then known after the restart.
            before = self._spans.ask(partial(_begin, ids, self._clock.now()))
            bodies, damaged = self._fetch(complete, before)
            batch = self._map(complete, bodies, before)
            results = batch.results
            submission = Submission(
                SOURCE,
                sum(len(body) for trace in bodies for body in trace),
                no_reply,
                records=results.records,
                changes=results.changes,
                revisions=results.revisions,
                quarantined=[*damaged, *batch.quarantined],
            )
            self._submit(submission, results.refused | _count(damaged))
            spoiled = {item.name for item in damaged}
            self._keep([_closed_if(each, spoiled) for each in batch.kept])
        except (OverloadedError, StoreError) as error:
            self._log.warning("traces_wait", error=str(error), traces=len(complete))
            for trace in complete:
                self.assembly.put_back(trace, now)
            return False
        except Exception:  # a defect of ours: they are mapped again, each by itself
            self._spans.ask(lambda stored: stored.mark(ids, self._clock.now()))
            self._suspects.restore()
            raise
        self._count(batch)
        self._remember(complete, bodies)
        return True

    def _count(self, batch: MappingBatch) -> None:
        counts = self.assembly.counts
        counts.late += batch.late + batch.too_late
        counts.too_late += batch.too_late
        counts.restated += len(batch.results.revisions)
        for reason, traces in batch.results.without_query.items():
            counts.without_query[reason] = counts.without_query.get(reason, 0) + traces
        for reason, events in batch.results.log_events.items():
            self._counters.rejected("otlp_logs", reason, events)
        self._counters.duplicated("otlp_spans", batch.repeated)
        if batch.too_late:
            self._counters.rejected("otlp_spans", "too_late", batch.too_late)

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

    def _fetch(
        self, complete: Sequence[Complete], before: Container[bytes]
    ) -> tuple[list[tuple[bytes, ...]], list[QuarantinedItem]]:
        """The bodies of each trace, from the store where need be, and what cannot be read there."""
        missing = [
            trace.trace_id for trace in complete if trace.bodies is None or trace.trace_id in before
        ]
        stored: dict[bytes, list[bytes]] = {}
        damaged: list[QuarantinedItem] = []
        if missing:
            try:
                stored = dict(zip(missing, self._bodies(missing), strict=True))
            except StoreCorruptError:  # then one by one
                for trace_id in missing:
                    stored[trace_id], rows = self._spans.ask(partial(_salvage, trace_id))
                    damaged += damaged_items(trace_id, rows, self._clock.now())
        return [
            tuple(stored[trace.trace_id]) if trace.trace_id in stored else trace.bodies or ()
            for trace in complete
        ], damaged

    def _bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        return self._spans.ask(lambda spans: spans.bodies(trace_ids))

    def _map(
        self,
        complete: Sequence[Complete],
        bodies: Sequence[Sequence[bytes]],
        before: Mapping[bytes, MappedSpans],
    ) -> MappingBatch:
        now = self._clock.now()
        results = Results(self.targets, now, self._bounds.at(now))
        batch = MappingBatch(results, now, self._options, self.limit)
        for trace, trace_bodies in zip(complete, bodies, strict=True):
            batch.add(trace.trace_id, trace_bodies, before.get(trace.trace_id))
        batch.finish()
        self.limit.rest()
        return batch

    def _submit(self, submission: Submission, refused: Mapping[str, int]) -> None:
        """Hand over and wait until it is durable.

        Raises:
            OverloadedError: the queue is full.
            StoreError: the store refused.
        """
        if (
            submission.records
            or submission.changes
            or submission.revisions
            or submission.quarantined
        ):
            done = threading.Event()
            outcomes: list[IngestOutcome] = []

            def reply(outcome: IngestOutcome) -> None:
                outcomes.append(outcome)
                done.set()

            self._sink.submit(replace(submission, reply=reply))
            wait_for(done)
            if outcomes[0].error is not None:
                raise outcomes[0].error
            count_outcome(self._counters, SOURCE, outcomes[0])
        for reason, count in refused.items():
            self._counters.rejected(SOURCE, reason, count)

    def _keep(self, traces: Sequence[MappedSpans]) -> None:
        """Note what was mapped; in a damaged store of those of which it can be noted."""
        now = self._clock.now()
        try:
            self._spans.ask(lambda stored: stored.keep(traces, now))
        except StoreCorruptError as error:
            self._log.error("cannot_note_mapped", traces=len(traces), error=str(error))
            for trace in traces:
                with contextlib.suppress(StoreCorruptError):
                    self._spans.ask(partial(_keep_one, trace, now))

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


def _count(damaged: Sequence[QuarantinedItem]) -> dict[str, int]:
    return {"damaged": len(damaged)} if damaged else {}


def _salvage(trace_id: bytes, stored: Spans) -> tuple[list[bytes], list[UnreadableSpans]]:
    return stored.salvage(trace_id)


def _closed_if(trace: MappedSpans, spoiled: Container[str]) -> MappedSpans:
    """A trace of which spans cannot be read is not mapped again."""
    return closed(trace.trace_id) if trace.trace_id.hex() in spoiled else trace


def _keep_one(trace: MappedSpans, now: float, stored: Spans) -> None:
    stored.keep([trace], now)


def _begin(trace_ids: Sequence[bytes], now: float, stored: Spans) -> dict[bytes, MappedSpans]:
    """Mark traces that are about to be mapped; returns what was mapped of them before."""
    stored.mark(trace_ids, now)
    return stored.mapped(trace_ids)


def _salvage_all(
    trace_ids: Sequence[bytes], spans: Spans
) -> list[tuple[list[bytes], list[UnreadableSpans]]]:
    return [spans.salvage(trace_id) for trace_id in trace_ids]
