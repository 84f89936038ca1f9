"""Hashes of the newest records, in little memory: 131,072 of them in 2 MB.

A dictionary of as many numbers takes 18 MB, and scatters them over pages that nothing else can
give back. Only the last of them are in one; the others are sorted, and found by bisection.
"""

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Sequences = NDArray[np.int64]
_MOST_UNSORTED = 1 << 14  # to sort some in copies all: seldom enough to cost 0.1 us a record


class RecentHashes:
    """Sequence number by hash; of two with one hash the later is meant."""

    def __init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        return len(self._unsorted) + len(self._hashes)

    def clear(self) -> None:
        """Forget them."""
        self._unsorted: dict[int, int] = {}  # the newest
        self._hashes: Hashes = np.empty(0, dtype=np.uint64)  # distinct, ascending
        self._sequences: Sequences = np.empty(0, dtype=np.int64)  # of these

    def add(self, hashes: Hashes, first_sequence: int) -> None:
        """Remember records with consecutive sequence numbers."""
        numbers = range(first_sequence, first_sequence + len(hashes))
        self._unsorted.update(zip(hashes.tolist(), numbers, strict=True))
        if len(self._unsorted) >= _MOST_UNSORTED:
            self._sort()

    def get_many(self, hashes: Hashes) -> list[int | None]:
        """The sequence number of each; None for those that are not among them."""
        newest = self._unsorted
        numbers: list[int | None] = [newest.get(each) for each in hashes.tolist()]
        if len(self._hashes):
            at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
            for place in np.flatnonzero(self._hashes[at] == hashes).tolist():
                if numbers[place] is None:
                    numbers[place] = int(self._sequences[at[place]])
        return numbers

    def forget_below(self, sequence: int) -> None:
        """Forget those with a smaller sequence number."""
        self._sort()
        kept = self._sequences >= sequence
        self._hashes, self._sequences = self._hashes[kept], self._sequences[kept]

    def entries(self) -> tuple[Hashes, Sequences]:
        """All of them, by hash ascending."""
        self._sort()
        return self._hashes, self._sequences

    def _sort(self) -> None:
        """Sort the newest in among the others."""
        count = len(self._unsorted)
        hashes = np.fromiter(self._unsorted.keys(), dtype=np.uint64, count=count)
        sequences = np.fromiter(self._unsorted.values(), dtype=np.int64, count=count)
        self._unsorted = {}
        order = np.argsort(hashes)
        hashes, sequences = hashes[order], sequences[order]
        at = np.searchsorted(self._hashes, hashes, side="right")  # the later behind its equal
        self._hashes = np.insert(self._hashes, at, hashes)
        self._sequences = np.insert(self._sequences, at, sequences)
        outdated = self._hashes[:-1] == self._hashes[1:]
        if outdated.any():
            kept = np.append(~outdated, True)
            self._hashes, self._sequences = self._hashes[kept], self._sequences[kept]
