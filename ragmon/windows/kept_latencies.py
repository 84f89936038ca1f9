"""Histograms of long runs of buckets, kept up to date in the small form of a bucket.

A table of all series, stages and bins would take forty times as much, and there are dozens of runs.
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.latency_bucket import Bucket, Codes
from ragmon.windows.tiers import Run

_WORTH_KEEPING = 8  # buckets
_MOST = 6  # runs: two or three windows reach into any tier
_NEAR = 3  # buckets: what a window moves on by between two reports
_MOST_WAITING = 1 << 16  # codes added to a run since it was asked for; it is not in use any more


class KeptLatencies:
    """By run, the codes of its histograms and how often each was seen."""

    def __init__(self) -> None:
        self._totals: dict[Run, Bucket] = {}  # the one kept longest first

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(total.nbytes for total in self._totals.values())

    def get(self, run: Run) -> tuple[Codes, Codes] | None:
        """Sorted distinct codes of a run and their counts; None when they are not known."""
        total = self._totals.get(run)
        return None if total is None else total.counted()

    def take_near(self, run: Run) -> tuple[Run, Codes, Codes] | None:
        """A run of which few buckets differ, which is not kept any longer: its window moved on."""
        for other, total in self._totals.items():
            if abs(other.first - run.first) + abs(other.end - run.end) <= _NEAR:
                del self._totals[other]
                return (other, *total.counted())
        return None

    def keep(self, run: Run, codes: Codes, counts: Codes) -> None:
        """Remember the histograms of a run, if that saves anything."""
        if run.length < _WORTH_KEEPING:
            return
        self._totals.pop(run, None)
        if len(self._totals) >= _MOST:
            del self._totals[next(iter(self._totals))]
        self._totals[run] = Bucket(codes, counts)

    def add(self, buckets: NDArray[np.int64], codes: Codes) -> None:
        """Count each code once more in the runs that hold its bucket.

        Args:
            buckets: (n,) by number.
            codes: (n,).
        """
        for run, total in list(self._totals.items()):
            inside = (buckets >= run.first) & (buckets < run.end)
            if not inside.any():
                continue
            total.add(codes[inside])
            if total.waiting > _MOST_WAITING:
                del self._totals[run]

    def forget(self, bucket: int) -> None:
        """Forget the runs that hold a bucket."""
        for run in [run for run in self._totals if run.first <= bucket < run.end]:
            del self._totals[run]

    def clear(self) -> None:
        """Forget everything."""
        self._totals.clear()
