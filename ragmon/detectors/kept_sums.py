"""Sums over stretches of buckets, kept while they slide: most are asked for again, one bucket on.

Cells are exact in whatever order they are added (``losses``), so that a sum from which buckets were
taken away and to which others were added equals the one made anew, bit for bit.
"""

from collections.abc import Callable

import numpy as np

from ragmon.detectors.arrays import Floats, Ints, grown

_MOST = 24  # a hundred kilobytes each, of two thousand streams twice as many cells
_MOST_STEPS = 3  # that a sum slides at once; further, another is made

Summed = Callable[[int, int], Floats]
"""The sum of buckets [first, last), (streams, 3)."""


class KeptSum:
    """The sum over buckets [first, last)."""

    __slots__ = ("first", "last", "total")

    def __init__(self, first: int, last: int, total: Floats) -> None:
        self.first = first
        self.last = last
        self.total = total  # (streams, 3)


class KeptSums:
    """The sums that were asked for last."""

    def __init__(self) -> None:
        self._sums: list[KeptSum] = []  # the one that was asked for longest ago first

    def get(self, first: int, last: int, summed: Summed) -> Floats:
        """The sum of buckets [first, last), (streams, 3); not to be changed."""
        kept = self._nearest(first, last)
        if kept is None:
            kept = KeptSum(first, last, summed(first, last))
        else:
            if kept.last < last:
                kept.total = kept.total + summed(kept.last, last)
            if kept.first < first:
                kept.total = kept.total - summed(kept.first, first)
            kept.first, kept.last = first, last
        self._sums.append(kept)
        del self._sums[:-_MOST]
        return kept.total

    def add(self, buckets: Ints, streams: Ints, cells: Floats) -> None:
        """Count cells that were added to buckets."""
        if not len(buckets):
            return
        oldest, newest = int(buckets.min()), int(buckets.max())
        for kept in self._sums:
            if oldest < kept.last and newest >= kept.first:
                within = (buckets >= kept.first) & (buckets < kept.last)
                kept.total = kept.total.copy()
                for part in range(3):
                    added = np.bincount(streams[within], cells[within, part], len(kept.total))
                    kept.total[:, part] += added

    def grow(self, streams: int) -> None:
        """Make room for that many streams."""
        for kept in self._sums:
            kept.total = grown(kept.total, streams)

    def forget(self, bucket: int) -> None:
        """Let go of the sums that this bucket, which is no longer held, takes part in."""
        self._sums = [kept for kept in self._sums if kept.first > bucket]

    def clear(self) -> None:
        """Let go of all."""
        self._sums.clear()

    def _nearest(self, first: int, last: int) -> KeptSum | None:
        """Take out a sum that becomes this one by a few buckets more, and as many less or none."""
        length = last - first
        earliest = last - min(_MOST_STEPS, length // 3)
        for at, kept in enumerate(self._sums):
            slid = kept.last - kept.first == length
            if earliest <= kept.last <= last and (slid or kept.first == first):
                return self._sums.pop(at)
        return None
