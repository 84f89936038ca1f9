"""Assembly of traces from their spans: pure, with time passed in.

A trace is mapped when its root is there and no span came for a moment; without a root, when no
span came for long: a service that was called cannot know when its caller has ended. It may not be
complete then: with spans that come later it waits and is mapped again. Spans wait in the store;
kept here are the times that tell when to fetch them, and the newest bodies, so that most need no
fetching.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence

from msgspec import Struct

from ragmon.sources.otlp.spans import DecodedSpans
from ragmon.stores.protocols import SpanRow


class TraceTimeouts(Struct, frozen=True, kw_only=True):
    """Limits after which a trace is taken as complete."""

    linger_s: float = 10.0
    """Seconds after the last span of a trace that has its root; SDKs export every 5 s."""
    idle_s: float = 60.0
    """Seconds after the last span of a trace without a root."""
    longest_s: float = 900.0
    """Seconds after the first span, even if more come."""
    most_traces: int = 200_000
    """Traces that wait; beyond it the oldest is taken as complete."""
    most_spans: int = 10_000
    """Spans of one trace; beyond it the trace is taken as complete."""
    kept_bytes: int = 16 << 20
    """Bytes of bodies kept in memory; older ones are read from the store again."""
    remembered: int = 50_000
    """Mapped traces of which it is known here that they have their root."""
    late_s: float = 3_600.0
    """Seconds after it was mapped for which a trace is mapped again with later spans."""
    late_bytes: int = 1 << 30
    """Bytes of the spans that the store keeps for it; beyond it the oldest go earlier."""


class PendingTrace:
    """A trace that is not complete."""

    __slots__ = ("bodies", "first_at", "has_entry", "last_at", "spans", "stored")

    def __init__(self, now: float) -> None:
        self.first_at = now
        self.last_at = now
        self.has_entry = False
        self.spans = 0
        self.stored = False  # some bodies are only in the store
        self.bodies: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the bodies held here."""
        return sum(map(len, self.bodies))


class Complete(Struct, frozen=True):
    """A trace to be mapped; ``bodies`` is None when they must be fetched from the store."""

    trace_id: bytes
    bodies: tuple[bytes, ...] | None
    reason: str  # root, idle, long, many or evicted


class Counts(Struct):
    """Counts of complete traces by reason, of late spans and of traces mapped again."""

    complete: dict[str, int]
    late: int = 0  # spans of traces that were mapped before
    too_late: int = 0  # of those, of traces that were let go
    restated: int = 0  # queries
    without_query: dict[str, int] = {}  # traces, by reason


class TraceSizes:
    """Sizes of the traces of one request, with what waits of them already.

    Spans beyond the most that a trace may have are refused before they are stored: they could only
    be thrown away later.
    """

    def __init__(self, assembly: "Assembly") -> None:
        self._assembly = assembly
        self._spans: dict[bytes, int] = {}

    def admit(self, parts: Sequence[SpanRow], decoded: DecodedSpans) -> list[SpanRow]:
        """The parts that fit into their traces; the others are counted as refused."""
        admitted: list[SpanRow] = []
        for part in parts:
            spans = self._spans.get(part.trace_id)
            if spans is None:
                spans = self._assembly.spans_of(part.trace_id)
            if spans + part.spans > self._assembly.most_spans:
                decoded.refuse("trace_too_large", part.spans)
            else:
                self._spans[part.trace_id] = spans + part.spans
                admitted.append(part)
        return admitted


class Assembly:
    """The traces that wait, by the time of their last span."""

    def __init__(self, timeouts: TraceTimeouts) -> None:
        self.counts = Counts({})
        self.kept_bytes = 0
        self._timeouts = timeouts
        self._rooted: OrderedDict[bytes, PendingTrace] = OrderedDict()
        self._rootless: OrderedDict[bytes, PendingTrace] = OrderedDict()
        self._ready: deque[Complete] = deque()  # beyond a limit: not waited for any longer
        self._bodies: OrderedDict[bytes, None] = (
            OrderedDict()
        )  # traces with bodies in memory, oldest first
        self._done: OrderedDict[bytes, tuple[int, bool]] = OrderedDict()  # spans, has its root

    def __len__(self) -> int:
        return len(self._rooted) + len(self._rootless)

    @property
    def most_spans(self) -> int:
        """Spans of one trace; beyond it the trace is taken as complete."""
        return self._timeouts.most_spans

    def spans_of(self, trace_id: bytes) -> int:
        """Spans of a trace that wait; safe to ask on any thread."""
        pending = self._rooted.get(trace_id) or self._rootless.get(trace_id)
        return pending.spans if pending is not None else self._done.get(trace_id, (0, False))[0]

    def add(self, part: SpanRow, now: float) -> None:
        """Take in spans that are durable."""
        trace_id = part.trace_id
        pending = self._note(trace_id, part.spans, part.has_entry, now)
        if not pending.stored:
            pending.bodies += (part.body,)
            self.kept_bytes += len(part.body)
            self._bodies[trace_id] = None
            self._bodies.move_to_end(trace_id)
            self._forget_bodies()
        self._limit(trace_id, pending, now)

    def restore(self, trace_id: bytes, spans: int, has_entry: bool, now: float) -> None:
        """Wait again for a trace whose spans are in the store, after a restart."""
        self._note(trace_id, spans, has_entry, now).stored = True

    def due(self, now: float, most: int = 1_000) -> list[Complete]:
        """Traces that are complete now; each is returned once."""
        complete: list[Complete] = []
        while self._ready and len(complete) < most:
            complete.append(self._ready.popleft())
        for waiting, limit_s, reason in (
            (self._rooted, self._timeouts.linger_s, "root"),
            (self._rootless, self._timeouts.idle_s, "idle"),
        ):
            while waiting and len(complete) < most:
                trace_id = next(iter(waiting))
                if now - waiting[trace_id].last_at < limit_s:
                    break
                complete.append(self._finish(trace_id, waiting.pop(trace_id), reason))
        return complete

    def put_back(self, complete: Complete, now: float) -> None:
        """Wait again for a trace that could not be stored."""
        self._note(complete.trace_id, 0, has_entry=True, now=now).stored = True

    def discard(self, trace_id: bytes) -> None:
        """Wait no longer for a trace, and let go of its spans."""
        pending = self._take(trace_id)
        self._done.pop(trace_id, None)
        if pending is not None:
            self.kept_bytes -= pending.size
            self._bodies.pop(trace_id, None)

    def _note(self, trace_id: bytes, spans: int, has_entry: bool, now: float) -> PendingTrace:
        pending = self._take(trace_id) or self._begin(trace_id, now)
        pending.spans += spans
        pending.has_entry |= has_entry
        pending.last_at = now
        (self._rooted if pending.has_entry else self._rootless)[trace_id] = pending
        return pending

    def _begin(self, trace_id: bytes, now: float) -> PendingTrace:
        """A trace that begins to wait; of one that was mapped the store has the other spans."""
        pending = PendingTrace(now)
        if (done := self._done.pop(trace_id, None)) is not None:
            pending.spans, pending.has_entry = done
            pending.stored = True
        return pending

    def _take(self, trace_id: bytes) -> PendingTrace | None:
        return self._rooted.pop(trace_id, None) or self._rootless.pop(trace_id, None)

    def _limit(self, trace_id: bytes, pending: PendingTrace, now: float) -> None:
        reason = ""
        if pending.spans > self._timeouts.most_spans:
            reason = "many"
        elif now - pending.first_at > self._timeouts.longest_s:
            reason = "long"
        elif len(self) > self._timeouts.most_traces:
            reason = "evicted"
            trace_id = next(iter(self._rootless or self._rooted))
        if reason and (taken := self._take(trace_id)):
            self._ready.append(self._finish(trace_id, taken, reason))

    def _forget_bodies(self) -> None:
        while self.kept_bytes > self._timeouts.kept_bytes:
            trace_id, _ = self._bodies.popitem(last=False)
            pending = self._rooted.get(trace_id) or self._rootless.get(trace_id)
            if pending is not None:
                self.kept_bytes -= pending.size
                pending.bodies, pending.stored = (), True

    def _finish(self, trace_id: bytes, pending: PendingTrace, reason: str) -> Complete:
        self.kept_bytes -= pending.size
        self._bodies.pop(trace_id, None)
        self.counts.complete[reason] = self.counts.complete.get(reason, 0) + 1
        self._done[trace_id] = (pending.spans, pending.has_entry)
        if len(self._done) > self._timeouts.remembered:
            self._done.popitem(last=False)
        return Complete(trace_id, None if pending.stored else pending.bodies, reason)
