"""Records just committed that a judge will draw, so that no block is opened for them.

A judge reads them, and its verdicts restate them, within half a minute; of a busy stream it
draws one in hundreds, and each would cost a block of hundreds to decompress, twice.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragmon.stores import Hashes

_MOST_BYTES = 16 << 20  # half a minute of what a quarter of a core judges, at 3 kB each
_MARGIN = 1.5  # when traffic falls, a larger share is drawn than was when they came
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: a permutation of the hashes

_decode = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class RecordCache:
    """Encoded records by sequence number; ``record`` may be called on any thread."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._shares: dict[str, Callable[[], float]] = {}  # by follower
        self._lent: dict[str, Mapping[int, bytes]] = {}  # by follower
        self._records: OrderedDict[int, bytes] = OrderedDict()  # a dict is slow at its front
        self._size = 0
        self._most_bytes = most_bytes

    def keep_for(self, share: Callable[[], float], follower: str) -> None:
        """Keep, from the next commit on, what a follower will draw.

        Args:
            share: of all records, that the follower draws now; in [0, 1].
            follower: its name; a larger share draws what a smaller one does.
        """
        self._shares = self._shares | {follower: share}

    def lend(self, records: Mapping[int, bytes], follower: str) -> None:
        """Offer what a judge is reading, from whatever source: its verdicts come in a moment."""
        self._lent = self._lent | {follower: records}

    def keep(self, first_sequence: int, hashes: Hashes, block: bytes | bytearray) -> None:
        """Remember those of a commit that would be drawn; the oldest make room.

        Args:
            first_sequence: number of its first record.
            hashes: of the ids of its records.
            block: its records, encoded: to encode some of them again would take longer.
        """
        share = _MARGIN * max((share() for share in self._shares.values()), default=0.0)
        drawn = np.flatnonzero(is_drawn(hashes, share)).tolist() if share else []
        bodies = _decode(block) if drawn else []
        for at in drawn:
            body = self._records[first_sequence + at] = bytes(bodies[at])
            self._size += len(body)
        while self._size > self._most_bytes:
            self._size -= len(self._records.popitem(last=False)[1])

    def record(self, sequence: int) -> bytes | None:
        """One of them; None when the store has to be asked."""
        for records in (self._records, *self._lent.values()):
            body = records.get(sequence)  # by one look, since other threads forget some
            if body is not None:
                return body
        return None

    def discard(self, sequences: Iterable[int]) -> None:
        """Forget records that are others now."""
        for sequence in sequences:
            self._size -= len(self._records.pop(sequence, b""))

    def clear(self) -> None:
        """Forget them, because records were deleted from the store."""
        self._records.clear()
        self._lent = {}
        self._size = 0


def is_drawn(hashes: Hashes, share: float) -> NDArray[np.bool_]:
    """Draw ids by their hash: always the same, and a larger share draws those of a smaller."""
    if share >= 1.0:
        return np.ones(len(hashes), dtype=np.bool_)
    mixed = hashes * _MIX  # the index uses the plain hash; wraps around by intention
    return mixed < np.uint64(share * 2.0**64)
