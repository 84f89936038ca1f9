"""Summaries of blocks made in the background, so that searches leave most blocks closed."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from ragmon.pipeline import Pipeline
from ragmon.queries.summaries import layout_of, summarize
from ragmon.records import number_of, sequence_of
from ragmon.stores import Reader
from ragmon.stores.summaries import DueSummary, Summaries, SummaryRow

_BATCH = 16  # blocks whose summaries are written together
_TURN_S = 3.0  # that one turn takes: a tenth of its interval
_Answer = TypeVar("_Answer")


class SummariesAccess(Protocol):
    """The summaries of a shard, on the thread that owns it."""

    def ask(self, function: Callable[[Summaries], _Answer]) -> _Answer:
        """The answer of a function that looks at them."""
        ...


class SummarizedShard(Protocol):
    """A shard, as far as any thread may look at it."""

    number: int
    next_sequence: int


class BlockSummarizer:
    """Maker of the summaries of a shard that are missing, of the newest blocks first."""

    def __init__(
        self,
        shard: SummarizedShard,
        summaries: SummariesAccess,
        reader: Callable[[], Reader],
        pipeline: Pipeline,
        *,
        ending: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        """Make it.

        Args:
            shard: whose blocks they sum up.
            summaries: of the shard.
            reader: opens a view of the store.
            pipeline: that observed the queries.
            ending: true when the step under way is the last.
            monotonic: seconds.
        """
        self._shard = shard
        self._summaries = summaries
        self._reader = reader
        self._pipeline = pipeline
        self._ending = ending
        self._monotonic = monotonic
        self._layout = layout_of(pipeline)
        self._below = 0  # blocks from here on were new a turn ago, and may yet be joined
        self._unreadable: set[int] = set()

    def turn(self, seconds: float = _TURN_S) -> int:
        """Make some, for some time; returns how many."""
        below, self._below = self._below, self._shard.next_sequence
        until, made = self._monotonic() + seconds, 0
        while not self._ending() and self._monotonic() < until:
            made_now = self._batch(below)
            if not made_now:
                break
            made += made_now
        return made

    def _batch(self, below: int) -> int:
        with self._reader() as reader:
            most = _BATCH + len(self._unreadable)
            due = reader.due_summaries(self._layout, number_of(self._shard.number, below), most)
            due = [block for block in due if block.first_sequence not in self._unreadable][:_BATCH]
            if not due:
                return 0
            watched = [_within_shard(block) for block in due]
            self._summaries.ask(lambda summaries: summaries.begin(watched))
            rows = []
            for block in due:
                row = self._made(reader, block)
                if row is None:
                    self._unreadable.add(block.first_sequence)
                else:
                    rows.append(row._replace(first_sequence=sequence_of(row.first_sequence)))
        self._summaries.ask(lambda summaries: summaries.put(rows))
        return len(due)

    def _made(self, reader: Reader, block: DueSummary) -> SummaryRow | None:
        return summarize(reader, self._pipeline, block.first_sequence, with_keys=block.needs_keys)


def _within_shard(block: DueSummary) -> DueSummary:
    return block._replace(first_sequence=sequence_of(block.first_sequence))
