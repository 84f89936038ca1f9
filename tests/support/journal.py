"""Journal of several shards in memory, read in any order that shards allow."""

import random
from collections.abc import Iterator

from ragmon.records import Position, Positions
from ragmon.stores import JournalEntry, Restatement
from ragmon.windows.snapshot import SavedBucket


class MemoryJournal:
    """Implements ``WindowSource``: what was committed, and one snapshot."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._blocks: dict[int, list[tuple[int, bytes]]] = {}  # number behind each, by shard
        self._restatements: dict[int, list[Restatement]] = {}
        self._positions: Positions = {}
        self._totals: bytes | None = None
        self._buckets: dict[tuple[int, int], SavedBucket] = {}

    def log(self, shard: int, records: int, observations: bytes) -> None:
        """Commit a block."""
        blocks = self._blocks.setdefault(shard, [])
        blocks.append(((blocks[-1][0] if blocks else 0) + records, observations))

    def restate(self, shard: int, restatement: Restatement) -> None:
        """Commit what became known of some records."""
        self._restatements.setdefault(shard, []).append(restatement)

    def save(self, totals: bytes, buckets: Iterator[SavedBucket], positions: Positions) -> None:
        """Replace the snapshot."""
        self._positions, self._totals = dict(positions), totals
        self._buckets.update({(each.tier, each.bucket): each for each in buckets})

    def load_windows(self) -> tuple[Positions, bytes | None, Iterator[SavedBucket]]:
        """The snapshot."""
        buckets = (self._buckets[key] for key in sorted(self._buckets))
        return self._positions, self._totals, buckets

    def follow(self, after: Positions) -> Iterator[JournalEntry]:
        """Everything behind these positions: of each shard in order, shards in any."""
        left = {shard: self._of_shard(shard, after.get(shard)) for shard in self._blocks}
        while left:
            shard = self._chance.choice(sorted(left))
            entry = next(left[shard], None)
            if entry is None:
                del left[shard]
            else:
                yield entry

    def _of_shard(self, shard: int, after: Position | None) -> Iterator[JournalEntry]:
        begin = after or Position()
        end = begin.sequence
        for end, observations in self._blocks[shard]:
            if end > begin.sequence:
                yield JournalEntry(shard, Position(end, begin.restatement), observations)
        for number, each in enumerate(self._restatements.get(shard, ()), start=1):
            if number > begin.restatement:
                yield JournalEntry(shard, Position(end, number), each)
