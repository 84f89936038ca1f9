"""Inbox of a worker: changes, committed at once, and work that the evaluator asks for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragmon.clock import Clock
from ragmon.daemon.ingest.changes import from_waiting
from ragmon.daemon.ingest.committer import Committer
from ragmon.sources import Submission
from ragmon.stores import Commit, InboxRow, Reader
from ragmon.stores.ports import Shard

_EVERY_S = 0.5
_MOST = 1_000
_WORK_S = 0.1  # of longer work, between two turns of the source
_SOURCE = "inbox"


class OwnedShard(NamedTuple):
    """A shard of a worker, with what commits to it and reads it."""

    shard: Shard
    committer: Committer
    reader: Callable[[], Reader]


ShardWork = Callable[[OwnedShard, InboxRow, float], Iterator[Commit | None]]
"""Begins work that a row asks for, at a time in unix seconds: a step each, the last of which is the
commit that answers, and claims the row."""


class WorkerInbox:
    """Changes and work for the shards of a worker; for the thread that commits to them."""

    def __init__(self, clock: Clock, work: Mapping[str, ShardWork]) -> None:
        """Make it.

        Args:
            clock: of the process.
            work: that takes longer, by kind of the rows that ask for it.
        """
        self.owned: dict[int, OwnedShard] = {}
        self.claimed = 0  # changes that were committed
        self._clock = clock
        self._work = work
        self._asked_at = clock.monotonic()
        self._under_way: dict[tuple[int, int], Iterator[Commit | None]] = {}  # by shard, row

    def let_go(self, shard: int) -> None:
        """Own a shard no longer; work that is under way is begun again by whoever has it."""
        self.owned.pop(shard, None)
        self._under_way = {key: work for key, work in self._under_way.items() if key[0] != shard}

    def step(self, rows: Callable[[int], Mapping[int, Sequence[InboxRow]]]) -> None:
        """Do what is due.

        Args:
            rows: the oldest rows of the owned shards, at most so many.

        Raises:
            StoreError: what was not committed stays where it is.
        """
        now = self._clock.monotonic()
        if self.owned and now >= self._asked_at + _EVERY_S:
            asked = rows(_MOST)
            if sum(map(len, asked.values())) < _MOST:  # or else at once again
                self._asked_at = now
            for shard, some in asked.items():
                self._take(shard, some)
        self._go_on(now + _WORK_S)

    def _take(self, shard: int, rows: Sequence[InboxRow]) -> None:
        place = self.owned[shard]
        if changes := [row for row in rows if row.waiting.kind not in self._work]:
            self._commit(place.committer, changes)
        for row in rows:
            begin, key = self._work.get(row.waiting.kind), (shard, row.number)
            if begin is not None and key not in self._under_way:
                self._under_way[key] = begin(place, row, self._clock.now())

    def _commit(self, committer: Committer, rows: Sequence[InboxRow]) -> None:
        submission = Submission(
            _SOURCE,
            sum(len(row.waiting.body) for row in rows),
            lambda _: None,
            changes=[from_waiting(row.waiting) for row in rows],
            claimed=[row.number for row in rows],
        )
        committer.commit([submission], self._clock.now())
        self.claimed += len(rows)

    def _go_on(self, until: float) -> None:
        """Go on with longer work for a moment."""
        for key, work in [*self._under_way.items()]:
            for answer in work:
                if answer is not None:
                    self.owned[key[0]].committer.send(claimed=answer.claimed, handed=answer.handed)
                    del self._under_way[key]
                    break
                if self._clock.monotonic() >= until:
                    return
