"""Traces that were being mapped when the process died: each is mapped apart from all others.

One that does not survive its own process goes to the quarantine. The results of the others are
stored one by one, as that may be what the process died of.
"""

from collections.abc import Callable, Mapping, Sequence

import structlog

from ragmon.clock import Clock
from ragmon.errors import OverloadedError, StoreError
from ragmon.quarantine import DamagedContent, encode, trace_item
from ragmon.sources import Submission
from ragmon.sources.otlp.receiver.batch import MappingBounds, MappingOptions
from ragmon.sources.otlp.receiver.isolated import IsolatedRequest, MappedTrace, map_isolated
from ragmon.sources.otlp.receiver.known import closed
from ragmon.stores.protocols import MarkedTrace, Spans, UnreadableSpans
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.threads import OnWriter

_MOST_DEATHS = 2  # while storing one trace alone; one may be an accident
_BATCH = 50  # traces in one process, as long as none of them ends it

Submit = Callable[[Submission, Mapping[str, int]], None]
"""Hands over a batch with the counts of its refusals, and waits until it is durable."""


class Suspects:
    """For the thread that maps traces."""

    def __init__(
        self,
        spans: OnWriter[Spans],
        submit: Submit,
        clock: Clock,
        options: MappingOptions,
        *,
        bounds: MappingBounds,
        is_ending: Callable[[], bool],
    ) -> None:
        """Make it.

        Args:
            spans: of traces that are not complete, with their marks.
            submit: see ``Submit``; raises OverloadedError or StoreError.
            clock: of the daemon.
            options: limits of mapping.
            bounds: of timestamps.
            is_ending: True when nothing new should be begun.
        """
        self._spans = spans
        self._submit = submit
        self._clock = clock
        self._options = options
        self._bounds = bounds
        self._is_ending = is_ending
        self._traces: dict[bytes, MarkedTrace] = {}
        self._log = structlog.get_logger("otlp")

    def __contains__(self, trace_id: object) -> bool:
        return trace_id in self._traces

    def discard(self, trace_id: bytes) -> None:
        """Forget a trace that was deleted from the store."""
        self._traces.pop(trace_id, None)

    def restore(self) -> None:
        """Find the traces whose mapping was begun and not ended."""
        marked = self._spans.ask(lambda spans: spans.marked())
        self._traces = {trace.trace_id: trace for trace in marked}
        if marked:
            self._log.warning("mapping_was_interrupted", traces=len(marked))

    def step(self) -> bool:
        """Map some of them; False when that has to wait.

        Raises:
            OSError: no process can be started.
        """
        batch = list(self._traces.values())[:_BATCH]
        try:
            for trace, bodies, mapped in self._mapped(batch):
                self._store(trace, bodies, mapped)
                del self._traces[trace.trace_id]
        except (OverloadedError, StoreError) as error:
            self._log.warning("traces_wait", error=str(error), traces=len(self._traces))
            return False
        return True

    def _mapped(
        self, batch: Sequence[MarkedTrace]
    ) -> list[tuple[MarkedTrace, list[bytes], MappedTrace]]:
        if not batch:
            return []
        now = self._clock.now()
        fetched = [(trace, self._fetch(trace)) for trace in batch]
        before = self._spans.ask(lambda spans: spans.mapped(each.trace_id for each in batch))
        hopeless = [each for each in fetched if each[0].deaths >= _MOST_DEATHS]
        others = [each for each in fetched if each[0].deaths < _MOST_DEATHS]
        request = IsolatedRequest(
            [bodies for _, bodies in others],
            now,
            self._bounds.at(now),
            self._options.timeout_s,
            self._options.text,
            [before.get(trace.trace_id) for trace, _ in others],
        )
        mapped = map_isolated(request, self._is_ending) if others else []
        error = f"ragmon died {_MOST_DEATHS + 1} times while it mapped or stored this trace"
        killed = MappedTrace(reason="killed", error=error)
        return [
            *((trace, bodies, killed) for trace, bodies in hopeless),
            *((*each, result) for each, result in zip(others, mapped, strict=False)),
        ]

    def _fetch(self, trace: MarkedTrace) -> list[bytes]:
        bodies, damaged = self._spans.ask(lambda spans: spans.salvage(trace.trace_id))
        if damaged:
            items = damaged_items(trace.trace_id, damaged, self._clock.now())
            self._submit(Submission("otlp", 0, no_reply, quarantined=items), {})
        return bodies

    def _store(self, trace: MarkedTrace, bodies: list[bytes], mapped: MappedTrace) -> None:
        items = []
        if mapped.reason:
            self._log.error(
                "trace_quarantined", trace_id=trace.trace_id.hex(), reason=mapped.reason
            )
            cause = (mapped.stage, mapped.reason, mapped.error)
            items.append(trace_item(self._clock.now(), trace.trace_id, cause, bodies))
        else:
            self._spans.ask(lambda spans: spans.note_risk(trace.trace_id))
        refused = dict(mapped.refused)
        if mapped.stage == "map" and mapped.reason:
            refused[mapped.reason] = 1
        self._submit(submission_of(mapped, bodies, items), refused)
        kept = mapped.kept or closed(trace.trace_id)
        self._spans.ask(lambda spans: spans.keep([kept], self._clock.now()))


def submission_of(
    mapped: MappedTrace, bodies: Sequence[bytes], items: Sequence[QuarantinedItem]
) -> Submission:
    """The results of one trace as a batch."""
    return Submission(
        "otlp",
        sum(map(len, bodies)),
        no_reply,
        records=mapped.records,
        changes=[*mapped.feedback, *mapped.labels],
        revisions=mapped.revisions,
        quarantined=items,
    )


def damaged_items(
    trace_id: bytes, rows: Sequence[UnreadableSpans], now: float
) -> list[QuarantinedItem]:
    """Items of spans that cannot be read from the store."""
    return [
        QuarantinedItem(
            "decode", "damaged", now, trace_id.hex(), row.error, encode(DamagedContent(row.body))
        )
        for row in rows
    ]


def no_reply(_: object) -> None:
    """Stand in until it is submitted."""
