"""Reader of committed records: in order, a share of them drawn by hashes of their ids.

A share draws the same records whenever it is asked, and a larger one draws those of a smaller.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from ragmon.daemon.ingest.record_cache import RecordCache, is_drawn
from ragmon.daemon.judging.session_turns import SessionTurns
from ragmon.daemon.judging.verdicts import judgeable
from ragmon.records import QueryRecord, number_of
from ragmon.stores import Reader

SOURCE = "judge:grounding"
LOCAL_SOURCE = "judge:local"
"""Names under which the store keeps how far a judge has read."""


def custom_source(judge: str) -> str:
    """The name for a custom judge."""
    return f"judge:custom:{judge}"


_START_BEHIND = 100_000  # how far back a store that never was judged is read
_BATCH_BYTES = 4 << 20  # of records; each of them takes four times as much until it is judged

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class DrawnBatch(NamedTuple):
    """Answers of a stretch of records."""

    answers: list[QueryRecord]
    end: int  # number behind the stretch
    numbers: list[int]  # of the answers


class CommittedReader:
    """For one thread, which opens a reader of its own."""

    def __init__(
        self,
        reader: Callable[[], Reader],
        newest: Callable[[], Mapping[int, int]],
        position: Callable[[str], bytes | None],
        cache: RecordCache,
        source: str = SOURCE,
        *,
        turns: SessionTurns | None = None,
    ) -> None:
        self.open = reader
        self.newest = newest  # number of the next record, by shard
        self.source = source
        self.turns = turns or SessionTurns(0)  # of the conversations that were read
        self._cache = cache
        self._position = position  # from where the last run went on
        self._block: tuple[int, list[bytes]] = (0, [])

    def source_of(self, shard: int) -> str:
        """The name under which the store keeps how far a shard was read."""
        return f"{self.source}/{shard}" if shard else self.source

    def begin(self, shard: int) -> int:
        """The number from which to go on in a shard after a restart."""
        position = self._position(self.source_of(shard))
        if position:
            return number_of(shard, int(position))
        return max(number_of(shard, 0), self.newest()[shard] - _START_BEHIND)

    def keep_for(self, share: Callable[[], float]) -> None:
        """Have what will be drawn kept in memory; ``share`` is what the follower draws now."""
        self._cache.keep_for(share, self.source)

    def drawn(self, reader: Reader, at: int, end: int, share: float) -> DrawnBatch:
        """The answers from ``at`` to before ``end`` that can be judged and belong to the share.

        Where records are large the stretch ends earlier, after one of them at least.

        Raises:
            StoreError: the store cannot be read.
        """
        drawn: dict[int, bytes] = {}
        size_bytes = 0
        while at < end:
            block = reader.hashes_from(at)
            if block is None:
                break
            first, hashes = block
            chosen = np.flatnonzero(is_drawn(hashes, share)) + first
            chosen = chosen[(chosen >= at) & (chosen < end)]
            for sequence in chosen.tolist():
                body = self._stored(reader, first, sequence)
                if body is not None:
                    drawn[sequence] = body
                    size_bytes += len(body)
                if size_bytes >= _BATCH_BYTES:
                    end = sequence + 1
                    break
            at = first + len(hashes)
        self._cache.lend(drawn, self.source)
        opened = [(number, _decode(body)) for number, body in drawn.items()]
        chosen_answers = [(number, record) for number, record in opened if judgeable(record)]
        numbers = [number for number, _ in chosen_answers]
        return DrawnBatch([record for _, record in chosen_answers], end, numbers)

    def _stored(self, reader: Reader, first: int, sequence: int) -> bytes | None:
        """A record of a block, None when it is gone; a small batch leaves most for the next one."""
        cached = self._cache.record(sequence)
        if cached is not None:
            return cached
        if self._block[0] != first or not self._block[1]:
            self._block = first, reader.records(first)
        records = self._block[1]
        return records[sequence - first] if sequence - first < len(records) else None
