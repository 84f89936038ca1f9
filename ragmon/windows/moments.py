"""Dense rings of sums: one row a series and bucket, mergeable by addition.

Rings are allocated at once as untouched small pages, so memory follows what is used.
"""

import math
import mmap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.kept import KeptTotals
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.tiers import Run, Tier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SHORT = 8  # up to so many rows, one pass for each takes half the time of reduceat


def expand(values: Floats) -> Floats:
    """Observations (n, columns) with NaN for unknown, as addable rows (n, ``RowLayout.width``)."""
    layout = RowLayout(values.shape[1])
    rows = np.empty((len(values), layout.width))
    n, x, xx = (rows[:, part] for part in layout.moments)
    known = ~np.isnan(values)
    n[:] = known
    x[:] = 0.0
    np.copyto(x, values, where=known)
    np.multiply(x, x, out=xx)
    rows[:, layout.queries] = 1.0
    return rows


def group(keys: Ints, rows: Floats, of: Ints | None = None) -> tuple[Ints, Floats]:
    """Sum rows of equal key.

    Args:
        keys: one or more; shape (n,).
        rows: what is summed.
        of: the row of each key; None: they stand in the same order.

    Returns:
        The index of the first of each distinct key, in the order of the keys, and the sums.
    """
    order = None
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        of = order if of is None else of[order]
    begins = np.empty(len(keys), dtype=np.bool_)
    begins[0] = True
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    taken = rows if of is None else rows[of]
    return starts if order is None else order[starts], _sum_stretches(taken, starts)


def _sum_stretches(rows: Floats, starts: Ints) -> Floats:
    """Sums of neighbouring rows, each stretch from one start to the next."""
    if len(starts) == len(rows):
        return rows
    lengths = np.diff(starts, append=len(rows))
    most = int(lengths.max())
    if most > _SHORT:
        return np.add.reduceat(rows, starts, axis=0)
    sums = rows[starts]
    for place in range(1, most):
        longer = np.flatnonzero(lengths > place)
        sums[longer] += rows[starts[longer] + place]
    return sums


class Ring:
    """The buckets of one tier for every series."""

    def __init__(self, tier: Tier, capacity: int, layout: RowLayout) -> None:
        self.tier = tier
        self.cells = _zeros((tier.slots, capacity, layout.width))
        self.queries = self.cells[:, :, layout.queries]  # a view, (slots, capacity)
        self.epochs = np.full(tier.slots, -1, dtype=np.int64)  # bucket number held by each slot
        self._kept: KeptTotals[np.float64] = KeptTotals()

    def add(self, series: Ints, buckets: Ints, rows: Floats, *, restating: bool = False) -> Ints:
        """Add rows to distinct pairs of series and bucket; returns the buckets that took part.

        Buckets that the ring has already overwritten are left out: a coarser tier has them.
        Restating leaves out cells without records too, where there is nothing to correct.
        """
        distinct = np.unique(buckets)
        self._open(distinct)
        slots = buckets % self.tier.slots
        kept = buckets == self.epochs[slots]
        if restating:
            kept &= self.queries[slots, series] > 0.0
        if not kept.all():
            series, buckets, slots, rows = series[kept], buckets[kept], slots[kept], rows[kept]
            distinct = np.unique(buckets)
        self.cells[slots, series] += rows
        self._kept.add(buckets, series, rows)
        return distinct

    def put(self, bucket: int, series: Ints, rows: Floats) -> None:
        """Set one bucket as it was saved."""
        self._open(np.array([bucket]))
        self._kept.clear()
        self.cells[bucket % self.tier.slots, series] = rows

    def is_current(self, bucket: int) -> bool:
        """True while no newer bucket has taken the slot."""
        return bool(self.epochs[bucket % self.tier.slots] == bucket)

    def get(self, bucket: int, count: int) -> tuple[Ints, Floats]:
        """Series numbers below ``count`` that have records in the bucket, and their rows."""
        slot = bucket % self.tier.slots
        used = self.queries[slot, :count]
        series = np.flatnonzero(used) if self.is_current(bucket) else np.arange(0)
        return series, self.cells[slot, series]

    def total(self, run: Run, count: int) -> Floats:
        """Sum over a run of buckets, for the first ``count`` series; shape (count, width)."""
        kept = self._kept.get(run, count)
        if kept is None:
            kept = self._sum(run, count)
            self._kept.keep(run, kept)
        return kept

    def _sum(self, run: Run, count: int) -> Floats:
        result = np.zeros((count, self.cells.shape[2]))
        buckets = np.arange(run.first, run.first + run.length)[-self.tier.slots :]
        slots = buckets % self.tier.slots
        current = slots[self.epochs[slots] == buckets]
        for first, last in _stretches(np.sort(current)):
            result += self.cells[first:last, :count].sum(axis=0)
        return result

    def clear(self, series: Sequence[int]) -> None:
        """Forget everything about some series."""
        self._kept.clear()
        for number in series:
            used = np.flatnonzero(self.queries[:, number])
            self.cells[used, number] = 0.0

    def _open(self, buckets: Ints) -> None:
        """Make room for those of the distinct buckets that are newer than what their slots hold."""
        for bucket in buckets:
            slot = bucket % self.tier.slots
            previous = int(self.epochs[slot])
            if previous >= bucket:
                continue
            if previous >= 0:
                self._kept.forget(previous)
                used = np.flatnonzero(self.queries[slot])
                self.cells[slot, used] = 0.0  # untouched pages stay untouched
            self.epochs[slot] = bucket


def _zeros(shape: tuple[int, int, int]) -> Floats:
    """Zeros that take memory only where written.

    numpy asks for huge pages, of which one row would touch two megabytes.
    """
    # Private, because a shared page takes memory when it is only read.
    pages = mmap.mmap(-1, math.prod(shape) * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype=np.float64).reshape(shape)


def _stretches(slots: Ints) -> list[tuple[int, int]]:
    """Sorted slots as half-open intervals of neighbours, so that sums run over slices."""
    if not len(slots):
        return []
    breaks = np.flatnonzero(np.diff(slots) != 1)
    firsts = slots[np.r_[0, breaks + 1]]
    lasts = slots[np.r_[breaks, len(slots) - 1]] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
