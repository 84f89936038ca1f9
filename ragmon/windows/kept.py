"""Totals of long runs, kept up to date: a week is not added up again for every evaluation."""

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragmon.windows.tiers import Run

_WORTH_KEEPING = 8  # buckets
_MOST = 4  # runs, half a megabyte each of 500 series: two or three windows reach into any tier

Scalar = TypeVar("Scalar", bound=np.generic)


class KeptTotals(Generic[Scalar]):
    """By run; an array each, of which the first axis counts in series."""

    def __init__(self) -> None:
        self._totals: dict[Run, NDArray[Scalar]] = {}

    def get(self, run: Run, size: int) -> NDArray[Scalar] | None:
        """The first ``size`` totals of a run; None when they are not known."""
        kept = self._totals.get(run)
        return None if kept is None or len(kept) < size else kept[:size]

    def keep(self, run: Run, total: NDArray[Scalar]) -> None:
        """Remember the totals of a run, if that saves anything."""
        if run.length < _WORTH_KEEPING:
            return
        self._totals.pop(run, None)
        if len(self._totals) >= _MOST:
            del self._totals[next(iter(self._totals))]
        self._totals[run] = total

    def add(self, buckets: NDArray[np.int64], index: NDArray[np.integer], rows: ArrayLike) -> None:
        """Add each row to the totals of the runs that hold its bucket.

        Args:
            buckets: shape (n,).
            index: into the first axis of the totals; shape (n,).
            rows: shape (n, ...), or one value for all.
        """
        for run, kept in list(self._totals.items()):
            inside = (buckets >= run.first) & (buckets < run.end)
            if not inside.any():
                continue
            if index[inside].max() < len(kept):
                added = rows[inside] if isinstance(rows, np.ndarray) else rows
                np.add.at(kept, index[inside], added)
            else:  # of a series that did not exist yet
                del self._totals[run]

    def forget(self, bucket: int) -> None:
        """Forget the runs that hold a bucket."""
        for run in [run for run in self._totals if run.first <= bucket < run.end]:
            del self._totals[run]

    def clear(self) -> None:
        """Forget everything."""
        self._totals.clear()
