"""Reader of committed records: in order, a share of them drawn by hashes of their ids.

A share draws the same records whenever it is asked, and a larger one draws those of a smaller.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from ragmon.daemon.ingest.record_cache import RecordCache, is_drawn
from ragmon.daemon.judging.verdicts import judgeable
from ragmon.records import QueryRecord
from ragmon.stores import Reader

SOURCE = "judge:grounding"
LOCAL_SOURCE = "judge:local"
"""Names under which the store keeps how far a judge has read."""

_START_BEHIND = 100_000  # how far back a store that never was judged is read

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class CommittedReader:
    """For one thread, which opens a reader of its own."""

    def __init__(
        self,
        reader: Callable[[], Reader],
        newest: Callable[[], int],
        position: Callable[[], bytes | None],
        cache: RecordCache,
        source: str = SOURCE,
    ) -> None:
        self.open = reader
        self.newest = newest  # the sequence number of the next record
        self.source = source
        self._cache = cache
        self._position = position  # from where the last run went on
        self._block: tuple[int, list[bytes]] = (0, [])

    def begin(self) -> int:
        """The sequence number from which to go on after a restart."""
        position = self._position()
        return int(position) if position else max(0, self.newest() - _START_BEHIND)

    def keep_for(self, share: Callable[[], float]) -> None:
        """Have what will be drawn kept in memory; ``share`` is what the follower draws now."""
        self._cache.keep_for(share, self.source)

    def drawn(self, reader: Reader, at: int, end: int, share: float) -> list[QueryRecord]:
        """The answers from ``at`` to before ``end`` that can be judged and belong to the share.

        Raises:
            StoreError: the store cannot be read.
        """
        drawn: dict[int, bytes] = {}
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
            at = first + len(hashes)
        self._cache.lend(drawn, self.source)
        return [record for record in map(_decode, drawn.values()) if judgeable(record)]

    def _stored(self, reader: Reader, first: int, sequence: int) -> bytes | None:
        """A record of a block, None when it is gone; a small batch leaves most for the next one."""
        cached = self._cache.record(sequence)
        if cached is not None:
            return cached
        if self._block[0] != first or not self._block[1]:
            self._block = first, reader.records(first)
        records = self._block[1]
        return records[sequence - first] if sequence - first < len(records) else None
