"""Mapping of a group of traces, each of which can only spoil itself."""

from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.privacy import Policy
from ragmon.quarantine import explain, trace_item
from ragmon.sources.otlp.receiver.known import closed, known_trace
from ragmon.sources.otlp.receiver.recorded_calls import is_bare
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.time_limit import MappingTimeoutError, TimeLimit
from ragmon.sources.otlp.spans import count_packed, unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.stores.protocols import MappedSpans
from ragmon.stores.quarantine import QuarantinedItem, Stage


def _without_queries() -> float:
    return 0.0


class MappingOptions(Struct, frozen=True, kw_only=True):
    """Limits of mapping, and what may be written of a trace that fails."""

    retention_s: float  # older queries are refused
    max_skew_s: float  # and those further in the future
    timeout_s: float  # for one trace
    text: Policy = "keep"  # for errors, which can quote a trace
    ends_frozen: bool = False  # ends the process when a trace stops all of its threads
    newest: Callable[[], float] = _without_queries
    """Unix seconds of the newest query that was counted; 0.0 without one."""

    def bounds(self, now: float) -> Bounds:
        """Range of accepted timestamps."""
        return Bounds(now - self.retention_s, now + self.max_skew_s)


class MappingBounds:
    """Range of accepted timestamps for spans that were acknowledged a while ago.

    A clock that is set meanwhile refuses none of them: they may be as old, and as new, as the clock
    allows, as it would without the step, and as it did for the newest query before a restart.
    """

    def __init__(self, clock: Clock, options: MappingOptions) -> None:
        self._clock = clock
        self._options = options
        self._offsets = [clock.now() - clock.monotonic()]  # of clocks that may be right

    def resume(self) -> None:
        """Take the newest query for what the clock said before the restart."""
        newest = self._options.newest()
        if newest:
            self._offsets.append(newest - self._clock.monotonic())

    def at(self, now: float) -> Bounds:
        """The range at a moment in unix seconds."""
        monotonic = self._clock.monotonic()
        clocks = [now, *(offset + monotonic for offset in self._offsets)]
        earlier, later = (self._options.bounds(each) for each in (min(clocks), max(clocks)))
        return Bounds(earlier.oldest, later.newest)


class MappingBatch:
    """The results of several traces, and those of them that go to the quarantine."""

    def __init__(
        self, results: Results, now: float, options: MappingOptions, limit: TimeLimit
    ) -> None:
        self.results = results
        self.quarantined: list[QuarantinedItem] = []
        self.kept: list[MappedSpans] = []  # to be mapped again when more spans come
        self.late = 0  # spans for which a trace was mapped again
        self.too_late = 0  # spans of traces that were let go
        self.repeated = 0  # spans that were sent before
        self._bare: list[tuple[int, bytes, Sequence[bytes]]] = []  # mapped after the others
        self._is_ending = False
        self._now = now
        self._text = options.text
        self._limit = limit
        self._log = structlog.get_logger("otlp")

    def add(
        self, trace_id: bytes, bodies: Sequence[bytes], before: MappedSpans | None = None
    ) -> None:
        """Map one trace; of one that was let go only read the feedback in what came since.

        Args:
            trace_id: of the trace.
            bodies: its spans, those that were mapped before too.
            before: what was mapped.
        """
        size, kept = self.results.size(), len(self.kept)
        try:
            refusal = self._limit.run(lambda: self._map(trace_id, bodies, before))
        except MappingTimeoutError as error:
            self._spoil(trace_id, bodies, ("map", "timeout", str(error)))
        except Exception as error:  # noqa: BLE001 - a defect of ours costs this trace alone
            self._log.exception("mapping_defect", trace_id=trace_id.hex())
            self._spoil(trace_id, bodies, ("map", "defect", explain(error, self._text)))
        else:
            if refusal is not None:
                cause: tuple[Stage, str, str] = (
                    "decode", refusal.reason, explain(refusal, self._text)
                )  # fmt: skip
                self.quarantined.append(trace_item(self._now, trace_id, cause, bodies))
                self.kept[-1] = closed(trace_id)
            return
        self.results.cut(size)
        self.kept[kept:] = [closed(trace_id)]

    def finish(self) -> None:
        """Map the traces that were left for the end: another may have recorded the same call."""
        self._is_ending = True
        for _, trace_id, bodies in sorted(self._bare, reverse=True):  # the longest first
            self.add(trace_id, bodies)

    def _map(
        self, trace_id: bytes, bodies: Sequence[bytes], before: MappedSpans | None
    ) -> RecordError | None:
        spans = unpack(bodies)
        if before is None and len(spans) == 1 and not self._is_ending and is_bare(spans[0]):
            self._bare.append((spans[0].end_ns - spans[0].start_ns, trace_id, bodies))
            return None
        if before is not None and before.is_closed:
            self.results.add_feedback(map_trace(spans, self._now))
            self.too_late += len(spans)
            self.kept.append(before)
            return None
        known, refusal = known_trace(bodies, before), None
        later = [span for span in spans if span.span_id not in known.seen]
        if later or before is None:
            refusal = self.results.add(spans, known)
            self.late += 0 if before is None else len(later)
            self.kept.append(known.packed(trace_id, len(bodies)))
        else:
            self.repeated += sum(map(count_packed, bodies[before.parts :]))
            self.kept.append(before._replace(parts=len(bodies)))
        return refusal

    def _spoil(
        self, trace_id: bytes, bodies: Sequence[bytes], cause: tuple[Stage, str, str]
    ) -> None:
        self.results.refuse(cause[1])
        self.quarantined.append(trace_item(self._now, trace_id, cause, bodies))
