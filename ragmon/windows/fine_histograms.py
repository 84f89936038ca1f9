"""Fine histograms of the series that have any: pipelines, of up to a dozen times as many series."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.stats import exponential

Counts = NDArray[np.int64]
_NONE = -1


class FineHistograms:
    """Counters of ``stats.exponential`` by series and stage; a series takes a row with its first.

    Not a table of all series, of which most pages are never written to: where the kernel makes
    pages of 2 MB, that would be resident as a whole.
    """

    def __init__(self, capacity: int, stages: int) -> None:
        """Begin with none.

        Args:
            capacity: series.
            stages: histograms of each.
        """
        self._place = np.full(capacity, _NONE, dtype=np.int32)  # by series
        self._rows = np.zeros((0, stages, exponential.SIZE), dtype=np.int64)  # by place
        self._free: list[int] = []

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self._place.nbytes + self._rows.nbytes

    def of(self, series: Sequence[int] | NDArray[np.integer]) -> Counts:
        """The counters of some series, (series, stages, SIZE); a copy."""
        places = self._place[np.asarray(series, dtype=np.intp)]
        counts: Counts = np.zeros((len(places), *self._rows.shape[1:]), dtype=np.int64)
        counts[places >= 0] = self._rows[places[places >= 0]]
        return counts

    def add(self, series: NDArray[np.int64], stage: int, counters: NDArray[np.integer]) -> None:
        """Count one more in a counter of each of n series, of which some may be the same."""
        places = self._places(series)  # before the rows are looked at: there may be more then
        np.add.at(self._rows[:, stage], (places, counters), 1)

    def put(self, series: NDArray[np.int64], counts: Counts) -> None:
        """Set the counters of distinct series, (series, stages, SIZE)."""
        places = self._places(series)
        self._rows[places] = counts

    def put_counters(
        self,
        series: NDArray[np.int64],
        stages: NDArray[np.integer],
        counters: NDArray[np.integer],
        counts: Counts,
    ) -> None:
        """Set n distinct counters, each of one series and stage."""
        places = self._places(series)
        self._rows[places, stages, counters] = counts

    def clear(self, series: Sequence[int]) -> None:
        """Forget some series."""
        places = np.unique(self._place[list(series)])
        places = places[places >= 0]
        self._rows[places] = 0
        self._free += places.tolist()
        self._place[list(series)] = _NONE

    def _places(self, series: NDArray[np.int64]) -> NDArray[np.int32]:
        """The row of each; those that have none take one."""
        places = self._place[series]
        if (places < 0).any():
            for number in np.unique(series[places < 0]).tolist():
                self._place[number] = self._take()
            places = self._place[series]
        return places

    def _take(self) -> int:
        """A row of zeros."""
        if not self._free:
            before = len(self._rows)
            room = np.zeros((max(8, before), *self._rows.shape[1:]), dtype=np.int64)
            self._rows = np.concatenate([self._rows, room])
            self._free = list(range(len(self._rows) - 1, before - 1, -1))
        return self._free.pop()
