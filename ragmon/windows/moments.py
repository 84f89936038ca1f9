"""Dense rings of sums: one row a series and bucket, mergeable by addition.

A row holds, for every column of observations, the count n, Σx and Σx², and last the number of
records. Rings are allocated at once as untouched zero pages, so memory follows what is used.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.tiers import Run, Tier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def row_width(columns: int) -> int:
    """Length of a row for that many columns of observations."""
    return 3 * columns + 1


def expand(values: Floats) -> Floats:
    """Observations (n, columns) with NaN for unknown, as addable rows (n, row_width)."""
    known = ~np.isnan(values)
    x = np.where(known, values, 0.0)
    return np.hstack([known, x, x * x, np.ones((len(values), 1))])


def group(keys: Ints, rows: Floats) -> tuple[Ints, Floats]:
    """Sum rows of equal key; returns the index of each group's first row, and the sums."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return order[starts], np.add.reduceat(rows[order], starts, axis=0)


class Ring:
    """The buckets of one tier for every series."""

    def __init__(self, tier: Tier, capacity: int, width: int) -> None:
        self.tier = tier
        self.cells = np.zeros((capacity, tier.slots, width))
        self.epochs = np.full(tier.slots, -1, dtype=np.int64)  # bucket number held by each slot

    def add(self, series: Ints, buckets: Ints, rows: Floats) -> Ints:
        """Add rows to (series, bucket); returns the bucket numbers that took part.

        Buckets that the ring has already overwritten are left out: a coarser tier has them.
        """
        slots = buckets % self.tier.slots
        held = self.epochs[slots]
        self._open(buckets[buckets > held])
        kept = buckets >= self.epochs[slots]
        if not kept.all():
            series, buckets, slots, rows = series[kept], buckets[kept], slots[kept], rows[kept]
        if not len(series):
            return buckets
        first, sums = group(series * self.tier.slots + slots, rows)
        self.cells[series[first], slots[first]] += sums
        return np.unique(buckets)

    def put(self, bucket: int, series: Ints, rows: Floats) -> None:
        """Set one bucket as it was saved."""
        self._open(np.array([bucket]))
        self.cells[series, bucket % self.tier.slots] = rows

    def get(self, bucket: int, count: int) -> tuple[Ints, Floats]:
        """Series numbers below ``count`` that have records in the bucket, and their rows."""
        slot = bucket % self.tier.slots
        rows = self.cells[:count, slot]
        series = np.flatnonzero(rows[:, -1]) if self.epochs[slot] == bucket else np.arange(0)
        return series, rows[series]

    def total(self, run: Run, count: int) -> Floats:
        """Sum over a run of buckets, for the first ``count`` series; shape (count, width)."""
        result = np.zeros((count, self.cells.shape[2]))
        buckets = np.arange(run.first, run.first + run.length)[-self.tier.slots :]
        slots = buckets % self.tier.slots
        held = slots[self.epochs[slots] == buckets]
        for first, last in _stretches(np.sort(held)):
            result += self.cells[:count, first:last].sum(axis=1)
        return result

    def clear(self, series: Sequence[int]) -> None:
        """Forget everything about some series."""
        for number in series:
            used = np.flatnonzero(self.cells[number, :, -1])
            self.cells[number, used] = 0.0

    def _open(self, buckets: Ints) -> None:
        """Make room for buckets newer than what their slots hold."""
        for bucket in np.unique(buckets):
            slot = bucket % self.tier.slots
            if self.epochs[slot] >= bucket:
                continue
            if self.epochs[slot] >= 0:
                used = np.flatnonzero(self.cells[:, slot, -1])
                self.cells[used, slot] = 0.0  # untouched pages stay untouched
            self.epochs[slot] = bucket


def _stretches(slots: Ints) -> list[tuple[int, int]]:
    """Sorted slots as half-open intervals of neighbours, so that sums run over slices."""
    if not len(slots):
        return []
    breaks = np.flatnonzero(np.diff(slots) != 1)
    firsts = slots[np.r_[0, breaks + 1]]
    lasts = slots[np.r_[breaks, len(slots) - 1]] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
