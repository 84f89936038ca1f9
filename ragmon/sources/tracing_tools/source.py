"""The thread that asks a tracing tool: a page, a commit with the position behind it, the next page.

Spans and scores take the way of those that are sent: the same readers, the same rules.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec
import structlog

from ragmon.errors import MemoryLimitError, RecordError, RemoteError, SettingsError
from ragmon.loops import Loop, LoopOptions, LoopOwner, beat
from ragmon.records import Feedback, Label
from ragmon.sources import (
    IngestOutcome,
    SourceContext,
    Submission,
    count_outcome,
    deliver,
)
from ragmon.sources.tracing_tools.client import ThrottledError, TooLargeError, ToolClient
from ragmon.sources.tracing_tools.options import ToolOptions, begin
from ragmon.sources.tracing_tools.sweeps import Sweep, SweepPosition, Window, pack, unpack
from ragmon.stores.protocols import SpanRow

_LONGEST_PAUSE_S = 300.0  # of a tool that does not answer
_FIRST_PAUSE_S = 2.0
_BEHIND_S = 0.5
_AGAIN_EVERY_S = 600.0
_BAD_CURSOR = frozenset({400, 422})
_MOST_DETAIL = 300
_CHANGE_BYTES = 200  # about, for the queue's account

ToolName = Literal["langfuse", "phoenix"]


class SpanPage(NamedTuple):
    """Some spans of a window."""

    spans: Sequence[msgspec.Raw]  # as the tool has them, which may be anything
    encode: Callable[[Sequence[msgspec.Raw]], bytes]
    """Some of them as an ``ExportTraceServiceRequest`` in JSON; raises whatever odd ones cause."""
    next_cursor: str  # empty: there are no more


class ScorePage(NamedTuple):
    """Some scores of a window."""

    scores: Sequence[msgspec.Raw]  # as they would be sent
    next_cursor: str
    odd: int = 0  # others, that cannot be read


class TracingTool(Protocol):
    """API of one tool; every method raises RemoteError and SettingsError."""

    def spans(self, window: Window, cursor: str, most: int) -> SpanPage:
        """A page of the spans that began in a window."""
        ...

    def scores(self, window: Window, cursor: str, most: int) -> ScorePage:
        """A page of the scores of a window."""
        ...


class ToolFigures:
    """Written by the thread that reads; every other thread only looks."""

    def __init__(self, name: str, now: Callable[[], float], requests: dict[str, int]) -> None:
        self.name = name
        self.requests = requests  # by what became of them
        self.read_to: float | None = None  # unix seconds
        self._now = now

    @property
    def lag_s(self) -> float | None:
        """Age of what was read last; None before the first look."""
        return None if self.read_to is None else max(0.0, self._now() - self.read_to)


class ToolSource(LoopOwner):
    """One thread and the position of every sweep."""

    def __init__(
        self,
        kind: ToolName,
        options: ToolOptions,
        context: SourceContext,
        client: ToolClient,
        tool: TracingTool,
    ) -> None:
        """Make it; nothing is asked before its first turn.

        Args:
            kind: of the tool.
            options: of the source.
            context: of the source.
            client: whose requests are counted.
            tool: that is asked.

        Raises:
            SettingsError: nobody takes traces.
        """
        if context.spans is None or context.scores is None:
            raise SettingsError("this program takes no traces", hint="Run `ragmon serve`")
        self._kind = kind
        self._name = f"{kind}:{options.name}"
        self._options = options
        self._context = context
        self._spans, self._scores = context.spans, context.scores
        self._tool = tool
        self._most = options.page
        self._sweeps = _sweeps(options)
        self.figures = ToolFigures(options.name, context.clock.now, client.requests)
        self._log = structlog.get_logger(kind).bind(source=options.name)
        self.loop = Loop(
            self._name,
            self._turn,
            self._log,
            options=LoopOptions(
                failed="cannot_read",
                is_vital=False,  # its endpoint is somebody else's
                is_left_at_end=True,
                first_pause_s=_FIRST_PAUSE_S,
                longest_pause_s=_LONGEST_PAUSE_S,
            ),
        )

    def stop(self) -> None:
        """End; a page under way is read again after the restart."""
        self.loop.stop(0.0)

    def _turn(self) -> float:
        try:
            return 0.0 if self.step() else self._options.every_s
        except ThrottledError as error:
            self._log.info("throttled", error=str(error), again_s=error.retry_after_s)
            return error.retry_after_s

    def step(self) -> bool:
        """Read and deliver one page; False when nothing is old enough to be read.

        Raises:
            ThrottledError: the tool asks for a pause.
            RemoteError: it did not answer, or refused.
        """
        now = self._context.clock.now()
        for sweep in self._sweeps:
            position = self._position(sweep, now)
            if position is None:
                return False
            window = sweep.window(position, now)
            if sweep is self._sweeps[0]:
                self.figures.read_to = position.read_to
            if window is not None:
                return self._read(sweep, position, window)
        return False

    def _position(self, sweep: Sweep, now: float) -> SweepPosition | None:
        """Place that a sweep has come to; None when stopped before its beginning was kept."""
        stored = self._context.offset(f"{self._name}:{sweep.suffix}")
        if stored:
            return unpack(stored)
        start = begin(self._options.since, now, self._context.retention_s)
        if sweep.number:  # older ones are read by the first sweep, which comes late to them
            start = max(start, now - sweep.delay_s)
        position = SweepPosition(start)
        return position if self._commit(sweep, position, [], []) else None

    def _read(self, sweep: Sweep, position: SweepPosition, window: Window) -> bool:
        rows: list[SpanRow] = []
        changes: list[Feedback | Label] = []
        try:
            if sweep.subject == "spans":
                spans = self._tool.spans(window, position.cursor, self._most)
                next_cursor = _moved(position.cursor, spans.next_cursor)
                rows = self._decoded(spans)
            else:
                scores = self._tool.scores(window, position.cursor, self._most)
                next_cursor = _moved(position.cursor, scores.next_cursor)
                changes = self._scores.changes(self._kind, scores.scores)
                if scores.odd:
                    self._context.counters.rejected(self._kind, "invalid", scores.odd)
                    self._log.warning("scores_refused", count=scores.odd)
        except TooLargeError:
            if self._most == 1:
                raise
            self._most //= 2
            self._log.warning("answer_too_large", page=self._most)
            return True
        except RemoteError as error:
            if error.status not in _BAD_CURSOR or not position.cursor:
                raise
            self._log.warning("cursor_refused", error=str(error))
            self._commit(sweep, position.again(), [], [])
            return True
        self._most = min(self._options.page, self._most * 2)
        return self._commit(sweep, position.after_page(window, next_cursor), rows, changes)

    def _decoded(self, page: SpanPage) -> list[SpanRow]:
        """Spans of a page; one that cannot be read is left out, counted, and costs no other."""
        rows: list[SpanRow] = []
        waiting = deque([page.spans] if page.spans else [])
        while waiting:
            spans = waiting.popleft()
            beat()
            try:
                rows += self._spans.decode(page.encode(spans), "json")
            except Exception as error:
                if isinstance(error, MemoryLimitError) and error.retryable:
                    raise
                if len(spans) > 1:
                    middle = len(spans) // 2
                    waiting.extendleft((spans[middle:], spans[:middle]))
                    continue
                reason = error.reason if isinstance(error, RecordError) else "invalid"
                self._context.counters.rejected(self._kind, reason)
                self._log.warning("span_refused", reason=reason, error=repr(error)[:_MOST_DETAIL])
        return rows

    def _commit(
        self,
        sweep: Sweep,
        position: SweepPosition,
        rows: Sequence[SpanRow],
        changes: Sequence[Feedback | Label],
    ) -> bool:
        """Commit a page with the position behind it; False when stopped first."""
        while rows and self._spans.is_behind:
            if self.loop.stopping.wait(_BEHIND_S):
                return False
            beat()

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            def durable(outcome: IngestOutcome) -> None:
                if outcome.error is None and rows:
                    self._spans.deliver(rows)
                reply(outcome)

            return Submission(
                self._kind,
                sum(len(row.body) for row in rows) + _CHANGE_BYTES * len(changes),
                durable,
                changes=changes,
                spans=rows,
                offsets=[(f"{self._name}:{sweep.suffix}", pack(position))],
            )

        outcome = deliver(self._context.sink, make, self.loop.stopping)
        if outcome is not None:
            count_outcome(self._context.counters, self._kind, outcome)
        return outcome is not None


def _moved(cursor: str, next_cursor: str) -> str:
    """The next cursor, unless the tool goes round in circles."""
    if cursor and cursor == next_cursor:
        raise RemoteError("the tool names the same page again and again", hint="It is tried again")
    return next_cursor


def _sweeps(options: ToolOptions) -> list[Sweep]:
    """Spans first, since a score that comes before its query has to wait for it."""
    settle_s, again_s = options.settle_s, options.again_s
    sweeps = [Sweep("spans", settle_s, options.every_s)]
    if again_s:
        sweeps.append(Sweep("spans", again_s, _AGAIN_EVERY_S, 1))
    sweeps.append(Sweep("scores", settle_s, options.every_s))
    for number, delay_s in enumerate(sorted(options.scores_again_s), 1):
        sweeps.append(Sweep("scores", delay_s, _AGAIN_EVERY_S, number))
    return sweeps
