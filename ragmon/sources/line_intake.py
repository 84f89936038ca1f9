"""Lines of a source that reads on by itself: mapped, decoded, and delivered with their position.

A position is committed together with the records before it, so that a crash neither repeats nor
skips a line.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from msgspec import Struct

from ragmon.decode import Decoder
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.mapping import KINDS, RecordMapping
from ragmon.quarantine import AGES, LineContent, LineKind, explain, line_item
from ragmon.records import QueryRecord
from ragmon.sources import IngestOutcome, SourceContext, Submission, count_outcome, deliver
from ragmon.stores.quarantine import QuarantinedItem

_MOST_QUARANTINED = 100  # lines of one batch: a file of another format must not push out the rest
_MOST_LINE_BYTES = 16 << 20
_SHOWN_BYTES = 1_000  # of an original that could not be mapped


class IntakeOptions(Struct, frozen=True):
    """The lines of a source, in general."""

    kind: str  # of the source, as it is counted
    records: LineKind
    mapping: RecordMapping | None
    unit: str  # of places in the log, for example at_byte


class LineIntake:
    """Delivers lines; for one thread."""

    def __init__(
        self,
        options: IntakeOptions,
        context: SourceContext,
        log: "structlog.stdlib.BoundLogger",
        place: Callable[[int], str],
    ) -> None:
        """Make one.

        Args:
            options: of the lines.
            context: of the source.
            log: refused lines go there.
            place: words for the place of a line, for people.
        """
        self._options = options
        self._context = context
        self._log = log
        self._place = place
        self._decode: Decoder[Any] = Decoder(KINDS[options.records])

    def deliver(
        self, lines: Iterable[tuple[int, bytes]], position: tuple[str, bytes], stop: threading.Event
    ) -> bool:
        """Submit lines, each with its place, and wait until they are durable.

        Args:
            lines: JSON; blank ones count for nothing.
            position: name of the source, and how far it is read once the lines are durable.
            stop: ends the waiting.

        Returns:
            False when stopped first: nothing is known of the batch.
        """
        records: list[Any] = []
        quarantined: list[QuarantinedItem] = []
        size_bytes = 0
        now = self._context.clock.now()
        bounds = Bounds(now - self._context.retention_s, now + self._context.max_skew_s)
        for place, line in lines:
            size_bytes += len(line)
            if not line.strip():
                continue
            mapped: bytes | None = None
            try:
                _check_size(line)
                mapping = self._options.mapping
                mapped = line if mapping is None else mapping.line(line)
                records.append(self._decode(mapped, now, bounds))
            except RecordError as error:
                self._refuse(error, place, now)
                if error.reason not in AGES and len(quarantined) < _MOST_QUARANTINED:
                    quarantined.append(self._kept(now, place, error, mapped, line))
        self._count_missing()
        is_queries = KINDS[self._options.records] is QueryRecord

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            return Submission(
                self._options.kind,
                size_bytes,
                reply,
                records=records if is_queries else (),
                changes=() if is_queries else records,
                offsets=[position],
                quarantined=quarantined,
            )

        outcome = deliver(self._context.sink, make, stop)
        if outcome is not None:
            count_outcome(self._context.counters, self._options.kind, outcome)
        return outcome is not None

    def _kept(
        self, now: float, place: int, error: RecordError, mapped: bytes | None, line: bytes
    ) -> QuarantinedItem:
        """A refused line as it was mapped, so that it can be tried again."""
        content = LineContent(self._options.records, line if mapped is None else mapped)
        if mapped is None:  # the original alone would be taken for a record without fields
            content = LineContent(self._options.records, line[:_SHOWN_BYTES], whole=False)
        return line_item(now, self._place(place), error, content, self._context.text)

    def _count_missing(self) -> None:
        mapping = self._options.mapping
        for field, count in mapping.take_missing().items() if mapping else ():
            self._context.counters.unmapped(self._options.kind, field, count)

    def _refuse(self, error: RecordError, place: int, now: float) -> None:
        self._context.counters.rejected(self._options.kind, error.reason)
        text = f"{self._place(place)}: {explain(error, self._context.text)}"
        self._context.counters.note_refusal(self._options.kind, error.reason, now, text)
        where = {self._options.unit: place}
        self._log.warning(
            "line_refused", field=error.field, reason=error.reason, error=str(error), **where
        )


def _check_size(line: bytes) -> None:
    if len(line) > _MOST_LINE_BYTES:
        raise RecordError(
            "too_large",
            "",
            f"has more than {_MOST_LINE_BYTES >> 20} MiB",
            hint="leave out of chunks what nobody reads",
        )
