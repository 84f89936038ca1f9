"""Sums over few records, such as verdicts: stored only for the series that have any."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.tiers import Run, Tier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cells(NamedTuple):
    """The rows of one bucket, by series."""

    series: Ints  # (m,) ascending
    rows: Floats  # (m, width)


class SparseRing:
    """The buckets of one tier."""

    def __init__(self, tier: Tier, width: int) -> None:
        self.tier = tier
        self._width = width
        self._buckets: dict[int, Cells] = {}

    def add(self, series: Ints, buckets: Ints, rows: Floats) -> None:
        """Add rows to pairs of series and bucket, which may come several times."""
        for bucket in np.unique(buckets).tolist():
            mine = buckets == bucket
            self._merge(bucket, series[mine], rows[mine])
        self._forget_old()

    def put(self, bucket: int, series: Ints, rows: Floats) -> None:
        """Set one bucket as it was saved."""
        self._buckets.pop(bucket, None)
        self.add(series, np.full(len(series), bucket), rows)

    def get(self, bucket: int) -> Cells | None:
        """The rows of a bucket; None when it is empty."""
        return self._buckets.get(bucket)

    def has_any(self, run: Run) -> bool:
        """True when a bucket of the run has rows."""
        return any(run.first <= bucket < run.end for bucket in self._buckets)

    def add_to(self, total: Floats, run: Run) -> None:
        """Add the rows of a run of buckets to those of their series."""
        buckets = [bucket for bucket in self._buckets if run.first <= bucket < run.end]
        for bucket in sorted(buckets):  # in one order, so that a sum is always the same
            series, rows = self._buckets[bucket]
            total[series] += rows

    def clear(self, series: list[int]) -> None:
        """Forget everything about some series."""
        for bucket, cells in list(self._buckets.items()):
            kept = ~np.isin(cells.series, series)
            self._buckets[bucket] = Cells(cells.series[kept], cells.rows[kept])

    def _merge(self, bucket: int, series: Ints, rows: Floats) -> None:
        before = self._buckets.get(bucket)
        if before is not None:
            series = np.concatenate([before.series, series])
            rows = np.concatenate([before.rows, rows])
        distinct, at = np.unique(series, return_inverse=True)
        total = np.zeros((len(distinct), self._width))
        np.add.at(total, at, rows)
        self._buckets[bucket] = Cells(distinct, total)

    def _forget_old(self) -> None:
        """Drop all but the tier's number of slots, counted back from the newest bucket."""
        oldest = max(self._buckets, default=0) - self.tier.slots
        for bucket in [bucket for bucket in self._buckets if bucket <= oldest]:
            del self._buckets[bucket]
