"""Summaries of blocks made in the background, so that searches leave most blocks closed."""

from collections.abc import Callable

from ragmon.daemon.ingest.engine import Engine
from ragmon.queries.summaries import layout_of, summarize
from ragmon.stores import Reader
from ragmon.stores.summaries import DueSummary, SummaryRow

_BATCH = 16  # blocks whose summaries are written together
_TURN_S = 3.0  # that one turn takes: a tenth of its interval


class BlockSummarizer:
    """Maker of the summaries that are missing, of the newest blocks first."""

    def __init__(self, engine: Engine, ending: Callable[[], bool], monotonic: Callable[[], float]):
        """Make it.

        Args:
            engine: of the daemon.
            ending: true when the step under way is the last.
            monotonic: seconds.
        """
        self._engine = engine
        self._ending = ending
        self._monotonic = monotonic
        self._summaries = engine.thread.bind(engine.shard.summaries())
        self._layout = layout_of(engine.pipeline)
        self._below = 0  # blocks from here on were new a turn ago, and may yet be joined
        self._unreadable: set[int] = set()

    def turn(self) -> int:
        """Make some; returns how many."""
        below, self._below = self._below, self._engine.shard.next_sequence
        until, made = self._monotonic() + _TURN_S, 0
        while not self._ending() and self._monotonic() < until:
            made_now = self._batch(below)
            if not made_now:
                break
            made += made_now
        return made

    def _batch(self, below: int) -> int:
        engine = self._engine
        with engine.store.reader() as reader:
            most = _BATCH + len(self._unreadable)
            due = reader.due_summaries(self._layout, below, most)
            due = [block for block in due if block.first_sequence not in self._unreadable][:_BATCH]
            if not due:
                return 0
            self._summaries.ask(lambda summaries: summaries.begin(due))
            rows = []
            for block in due:
                row = self._made(reader, block)
                if row is None:
                    self._unreadable.add(block.first_sequence)
                else:
                    rows.append(row)
        self._summaries.ask(lambda summaries: summaries.put(rows))
        return len(due)

    def _made(self, reader: Reader, block: DueSummary) -> SummaryRow | None:
        return summarize(
            reader, self._engine.pipeline, block.first_sequence, with_keys=block.needs_keys
        )
