"""The answers that wait for a verdict of the sampled judge, and the way in for verdicts."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from ragmon.records import Draw, QueryRecord, Verdict
from ragmon.sources import IngestOutcome, RecordSink, Submission, deliver
from ragmon.stores import Reader, amendments
from ragmon.stores.protocols import Awaited, AwaitedAnswers, Remembered
from ragmon.stores.quarantine import QuarantinedItem
from ragmon.threads import OnWriter

SOURCE = "judge:llm"

_BATCH = 64  # rows looked at together
_CHANGE_BYTES = {Draw: 200, Verdict: 2_000}  # about, for the queue's account

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class JudgeQueue:
    """Answers that wait, oldest first."""

    def __init__(
        self,
        answers: OnWriter[AwaitedAnswers],
        remembered: OnWriter[Remembered],
        reader: Callable[[], Reader],
        sink: RecordSink,
    ) -> None:
        self.open = reader
        self.length = 0  # answers that wait, when last counted
        self._answers = answers
        self._remembered = remembered
        self._sink = sink

    def count(self) -> int:
        """Count the answers that wait."""
        self.length = self._answers.ask(lambda answers: answers.awaited_count())
        return self.length

    def waiting(self, under_way: Collection[int]) -> Iterator[Awaited]:
        """Answers that wait and are not being judged; ``under_way`` may change meanwhile."""
        skip = 0
        while True:
            # Noted before the store is asked: what is judged meanwhile is not given out again.
            busy = set(under_way)
            rows = self._rows(skip)
            if not rows:
                return
            skip += len(rows)
            yield from (row for row in rows if row.sequence not in busy)

    def _rows(self, skip: int) -> Sequence[Awaited]:
        return self._answers.ask(lambda answers: answers.awaited(skip, _BATCH))

    def overdue(self, before: float, most: int) -> Sequence[Awaited]:
        """Answers that wait since before a moment, in unix seconds."""
        return self._answers.ask(lambda answers: answers.overdue(before, most))

    def read(self, reader: Reader, row: Awaited) -> tuple[QueryRecord, Draw] | None:
        """The answer and its draw; None when the record is gone, and then it waits no longer."""
        stored = reader.record(row.sequence)
        draw = amendments.decode(stored[1]).known.draw if stored and stored[1] else None
        if stored is None or draw is None:
            self._answers.ask(lambda answers: answers.abandon([row.sequence]))
            return None
        return _decode(stored[0]), draw

    def remember(self, name: str, dump: Callable[[], bytes]) -> None:
        """Keep some state under a name; it is dumped when nobody else can write it.

        Raises:
            StoreError: it cannot be kept.
        """
        self._remembered.ask(lambda kept: kept.save(name, dump()))

    def commit(
        self,
        changes: Sequence[Draw] | Sequence[Verdict],
        stop: threading.Event,
        quarantined: Sequence[QuarantinedItem] = (),
        places: Mapping[str, int] | None = None,
    ) -> bool:
        """Commit draws or verdicts, waiting for room; False when told to stop before.

        Args:
            changes: all draws, or all verdicts.
            stop: is set when ragmon ends.
            quarantined: answers without a verdict, kept with the changes.
            places: numbers of the queries that are of other shards, as far as they are known.
        """

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            size = sum(_CHANGE_BYTES[type(each)] for each in changes)
            return Submission(
                SOURCE,
                size,
                reply,
                changes=changes,
                quarantined=quarantined,
                places=places or {},
            )

        return deliver(self._sink, make, stop) is not None
