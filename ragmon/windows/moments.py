"""Rings of sums: one row a series and bucket, mergeable by addition."""

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.bucket_rows import BucketRows, BucketRowsState, Rows
from ragmon.windows.kept import KeptTotals
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.tiers import Run, Tier, split

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST_OPEN = 2_000  # rows of a ring that are not packed: some 3 MB
_SHORT = 8  # up to so many rows, one pass for each takes half the time of reduceat


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
    """The buckets of one tier for every series.

    A bucket that rests is packed. To add to it opens it again, so that late records cost more
    than timely ones, and memory follows what is stored.
    """

    def __init__(self, tier: Tier, layout: RowLayout) -> None:
        self.tier = tier
        self._width = layout.width
        self._queries = layout.queries
        self._newest = -1  # bucket
        self._buckets: dict[int, BucketRows] = {}  # by number; the longest untouched first
        self._kept: KeptTotals[np.float64] = KeptTotals()

    @property
    def nbytes(self) -> int:
        """Bytes of all buckets."""
        return sum(bucket.nbytes for bucket in self._buckets.values())

    def add(
        self, series: Ints, buckets: Ints, rows: Floats, *, restating: bool = False
    ) -> list[int]:
        """Add rows to distinct pairs of series and bucket; returns the buckets that took part.

        Buckets that the ring has moved past are left out: a coarser tier has them.
        Restating leaves out cells without records too, where there is nothing to correct.
        """
        self._advance(int(buckets.max()))
        kept = buckets > self._oldest
        if restating:
            kept &= self.counted(series, buckets)
        if not kept.all():
            series, buckets, rows = series[kept], buckets[kept], rows[kept]
        touched = []
        open_rows = sum(bucket.open_rows for bucket in self._buckets.values())
        for number, mine in split(buckets):
            bucket = self._buckets.pop(number, None) or BucketRows(self._width)
            open_rows -= bucket.open_rows
            bucket.add(series[mine], rows[mine])
            open_rows += bucket.open_rows
            self._buckets[number] = bucket
            touched.append(number)
            open_rows = self._rest_longest_untouched(open_rows)
        self._kept.add(buckets, series, rows)
        return touched

    def put(self, bucket: int, series: Ints, rows: Floats) -> None:
        """Set one bucket as it was saved."""
        self._kept.clear()
        self._buckets[bucket] = BucketRows(self._width)
        self._buckets[bucket].put(series, rows)
        self._advance(bucket)

    def is_current(self, bucket: int) -> bool:
        """True for a bucket that the ring holds."""
        return bucket in self._buckets

    def state(self, bucket: int) -> BucketRowsState | None:
        """The rows of a bucket now, for another thread to read; None: it is not held."""
        stored = self._buckets.get(bucket)
        return None if stored is None else stored.state()

    def get(self, bucket: int) -> Rows:
        """The series that have records in the bucket, ascending, and their rows."""
        stored = self._buckets.get(bucket)
        if stored is None:
            return Rows(np.arange(0), np.empty((0, self._width)))
        series, rows = stored.get()
        used = rows[:, self._queries] != 0.0
        return Rows(series[used], rows[used])

    def row(self, bucket: int, series: int) -> Floats | None:
        """The row of one series in a bucket, not to be changed; None when it has none."""
        stored = self._buckets.get(bucket)
        return None if stored is None else stored.row(series)

    def counted(self, series: Ints, buckets: Ints) -> NDArray[np.bool_]:
        """True for the pairs of series and bucket that have records."""
        counted = np.zeros(len(series), dtype=np.bool_)
        for number, mine in split(buckets):
            if number in self._buckets:
                counted[mine] = self._buckets[number].has(series[mine], self._queries)
        return counted

    def total(self, run: Run, count: int) -> Floats:
        """Sum over a run of buckets, for the first ``count`` series; shape (count, width)."""
        kept = self._kept.get(run, count)
        if kept is None:
            kept = self._sum(run, count)
            self._kept.keep(run, kept)
        return kept

    def clear(self, series: Sequence[int]) -> None:
        """Forget everything about some series."""
        self._kept.clear()
        for bucket in self._buckets.values():
            bucket.drop(np.array(series))

    def rest(self, touched: Container[int]) -> None:
        """Pack all buckets but those that were touched lately."""
        for number, bucket in self._buckets.items():
            if number not in touched:
                bucket.rest()

    def _sum(self, run: Run, count: int) -> Floats:
        result = np.zeros((count, self._width))
        for number in range(run.first, run.end):
            if number in self._buckets:
                series, rows = self._buckets[number].get()
                within = np.searchsorted(series, count)
                result[series[:within]] += rows[:within]
        return result

    @property
    def _oldest(self) -> int:
        """The last bucket that the ring has moved past."""
        return self._newest - self.tier.slots

    def _advance(self, bucket: int) -> None:
        if bucket <= self._newest:
            return
        self._newest = bucket
        for stale in [number for number in self._buckets if number <= self._oldest]:
            del self._buckets[stale]
            self._kept.forget(stale)

    def _rest_longest_untouched(self, open_rows: int) -> int:
        """Pack what was not touched for longest, while too many rows are open; returns how many."""
        if open_rows <= _MOST_OPEN:
            return open_rows
        for bucket in self._buckets.values():
            open_rows -= bucket.open_rows
            bucket.rest()
            if open_rows <= _MOST_OPEN:
                break
        return open_rows
