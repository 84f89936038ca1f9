"""The thread that turns complete traces into queries and feedback.

A query is committed before its spans are deleted. A crash between the two maps the trace again,
and its query id makes that a duplicate.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
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
from ragmon.sources.otlp.receiver.batch import MappingBatch, MappingOptions
from ragmon.sources.otlp.receiver.erasure import is_owned
from ragmon.sources.otlp.receiver.suspects import Suspects, damaged_items, no_reply
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.receiver.time_limit import FreezeGuard, TimeLimit
from ragmon.stores.protocols import SpanRow, Spans, UnreadableSpans
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.threads import OnWriter

SOURCE = "otlp"
_TURN_S = 0.25
_RETRY_S = 1.0
_BATCH = 200  # traces mapped before the next are looked at: it bounds what is in memory twice
_RECENT = 100
_RECENT_BYTES = 8 << 20
_MOST_BEHIND = 8 << 20
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
            spans, self._submit, clock, options, is_ending=self.loop.stopping.is_set
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
        waiting = [row[0] for row in self._spans.ask(lambda stored: stored.pending())]
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
            self._spans.ask(lambda stored: stored.delete(owned))
            for trace_id in owned:
                self.assembly.discard(trace_id)
                self._suspects.discard(trace_id)
            kept = [(name, parts) for name, parts in self.recent if not is_owned(parts, subject)]
            self.recent.clear()
            self.recent.extend(kept)
            self._recent_bytes = sum(len(body) for _, parts in kept for body in parts)
        return owned

    def restore(self) -> None:
        """Wait again for the traces that were incomplete when ragmon ended."""
        now = self._clock.monotonic()
        self._suspects.restore()
        for trace_id, spans, has_entry in self._spans.ask(lambda stored: stored.pending()):
            if trace_id not in self._suspects:
                self.assembly.restore(trace_id, spans, bool(has_entry), now)

    def step(self) -> bool:
        """Map everything that is complete; False when the results could not be stored."""
        now = self._clock.monotonic()
        late = [
            part
            for part in self._drain()
            # Spans of a suspect are in the store and are mapped with it.
            if part.trace_id not in self._suspects and not self.assembly.add(part, now)
        ]
        while (complete := self.assembly.due(now, _BATCH)) or late:
            if not self._finish(complete, late, now):
                return False
            late = []
        return self._suspects.step()

    def _finish(self, complete: Sequence[Complete], late: Sequence[SpanRow], now: float) -> bool:
        """Map, store and delete traces; those that cannot be stored wait again."""
        known = {trace.trace_id for trace in complete} | {part.trace_id for part in late}
        try:
            bodies, damaged = self._fetch(complete)
            # Written before: what ends the process is then known after the restart.
            self._spans.ask(lambda stored: stored.mark(known, self._clock.now()))
            batch = self._map(complete, bodies, late)
            results = batch.results
            submission = Submission(
                SOURCE,
                sum(len(body) for trace in bodies for body in trace),
                no_reply,
                records=results.records,
                changes=results.changes,
                quarantined=[*damaged, *batch.quarantined],
            )
            self._submit(submission, results.refused | _count(damaged))
            self._delete(known)
        except (OverloadedError, StoreError) as error:
            self._log.warning("traces_wait", error=str(error), traces=len(complete))
            for trace in complete:
                self.assembly.put_back(trace, now)
            self._inbox.extendleft(reversed(late))
            self._drained -= _size_of(late)
            return False
        except Exception:  # a defect of ours: they are mapped again, each by itself
            self._spans.ask(lambda stored: stored.mark(known, self._clock.now()))
            self._suspects.restore()
            raise
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

    def _fetch(
        self, complete: Sequence[Complete]
    ) -> tuple[list[tuple[bytes, ...]], list[QuarantinedItem]]:
        """The bodies of each trace, from the store where need be, and what cannot be read there."""
        missing = [trace.trace_id for trace in complete if trace.bodies is None]
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
            tuple(stored[trace.trace_id]) if trace.bodies is None else trace.bodies
            for trace in complete
        ], damaged

    def _bodies(self, trace_ids: Sequence[bytes]) -> list[list[bytes]]:
        return self._spans.ask(lambda spans: spans.bodies(trace_ids))

    def _map(
        self,
        complete: Sequence[Complete],
        bodies: Sequence[Sequence[bytes]],
        late: Sequence[SpanRow],
    ) -> MappingBatch:
        batch = MappingBatch(self.targets, self._clock.now(), self._options, self.limit)
        for trace, trace_bodies in zip(complete, bodies, strict=True):
            batch.add(trace.trace_id, trace_bodies)
        for part in late:
            batch.add(part.trace_id, (part.body,), is_late=True)
        self.limit.rest()
        return batch

    def _submit(self, submission: Submission, refused: Mapping[str, int]) -> None:
        """Hand over and wait until it is durable.

        Raises:
            OverloadedError: the queue is full.
            StoreError: the store refused.
        """
        if submission.records or submission.changes or submission.quarantined:
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

    def _delete(self, trace_ids: Iterable[bytes]) -> None:
        """Delete traces that are done; of a damaged store what can be deleted."""
        gone = list(trace_ids)
        try:
            self._spans.ask(lambda stored: stored.delete(gone))
        except StoreCorruptError as error:
            self._log.error("cannot_delete_spans", traces=len(gone), error=str(error))
            for trace_id in gone:
                with contextlib.suppress(StoreCorruptError):
                    self._spans.ask(partial(_delete_one, trace_id))

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


def _delete_one(trace_id: bytes, stored: Spans) -> None:
    stored.delete([trace_id])


def _salvage_all(
    trace_ids: Sequence[bytes], spans: Spans
) -> list[tuple[list[bytes], list[UnreadableSpans]]]:
    return [spans.salvage(trace_id) for trace_id in trace_ids]
