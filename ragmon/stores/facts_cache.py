"""Facts of blocks that searches read before, in memory: most of a search is reading them."""

import heapq
import threading

from ragmon.stores.compression import unzip
from ragmon.stores.sealing import HEAD_BYTES, is_sealed, unseal

_MOST_BYTES = 24 << 20  # about those of five million queries in blocks of a thousand
_ENTRY_BYTES = 400  # of an entry beside its facts

_Place = tuple[int, int]  # shard, and first sequence number


class FactsCache:
    """Facts by block, believed as long as the stored checksum is theirs; for any thread.

    It needs no word of what changes: facts that were made anew have another checksum. When it is
    full it keeps the newest blocks, which searches look at first.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._room = most_bytes
        self._entries: dict[_Place, tuple[bytes, bytes]] = {}  # head of the row, and the facts
        self._oldest: list[_Place] = []  # a heap of the same places
        self._lock = threading.Lock()

    def read(self, stored: bytes, shard: int, first: int) -> bytes:
        """The facts of a block.

        Args:
            stored: as the store holds them, sealed and compressed.
            shard: of the block.
            first: its first sequence number.

        Raises:
            ValueError: they were changed.
            zstandard.ZstdError: likewise.
        """
        head = stored[:HEAD_BYTES]
        entry = self._entries.get((shard, first))
        if entry is not None and entry[0] == head:
            return entry[1]
        facts = unzip(unseal(stored, "block_facts", first))
        if is_sealed(stored):
            with self._lock:
                self._keep((shard, first), head, facts)
        return facts

    def _keep(self, place: _Place, head: bytes, facts: bytes) -> None:
        before = self._entries.get(place)
        self._room += 0 if before is None else len(before[1]) + _ENTRY_BYTES
        self._room -= len(facts) + _ENTRY_BYTES
        self._entries[place] = head, facts
        if before is None:
            heapq.heappush(self._oldest, place)
        while self._room < 0:
            _, removed = self._entries.pop(heapq.heappop(self._oldest))
            self._room += len(removed) + _ENTRY_BYTES
