"""Histograms of latencies over one window, kept up to date from one copy to the next.

Counts are whole numbers, so what leaves the window is taken back and what enters is added, and the
sum is that of the window, whatever the steps. Between two scrapes few of some hundred buckets do.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ragmon.stats.latency import BINS
from ragmon.windows.copies import BucketStates
from ragmon.windows.latency_bucket import BucketState, Codes
from ragmon.windows.totals import STAGES

_CODES = STAGES * BINS  # of one series


class CountedStates:
    """States that were counted already, for the windows that have them in common."""

    def __init__(self) -> None:
        self._counted: dict[tuple[int, int], tuple[BucketState, tuple[Codes, Codes]]] = {}

    def counted(self, state: BucketState) -> tuple[Codes, Codes]:
        """Sorted distinct codes, and how often each was seen."""
        key = (id(state.gaps), len(state.waiting))
        if key not in self._counted:
            self._counted[key] = (state, state.counted())  # it lives, so its id is its own
        return self._counted[key][1]


class LatencySums:
    """The histograms of some series over one window."""

    def __init__(self, stages: int) -> None:
        """Begin with none.

        Args:
            stages: the first so many are counted.
        """
        self.counts = np.zeros((0, stages, BINS), dtype=np.int32)  # (series, stages, BINS)
        self._stages = stages
        # By number of the series, -1: not counted; the last stands for all higher numbers.
        self._places = np.full(1, -1, dtype=np.intp)
        self._states: BucketStates = {}

    def extend(self, series: NDArray[np.intp]) -> None:
        """Count more series, which have no latencies in any bucket counted so far."""
        size = len(self.counts)
        empty = np.zeros((len(series), self._stages, BINS), dtype=np.int32)
        self.counts = np.concatenate([self.counts, empty])
        more = int(series.max(initial=-1)) + 2 - len(self._places)
        if more > 0:
            self._places = np.pad(self._places, (0, more), constant_values=-1)
        self._places[series] = np.arange(size, size + len(series))

    def follow(self, states: BucketStates, known: CountedStates) -> NDArray[np.bool_]:
        """Take over the buckets of a copy; returns the series whose histogram changed."""
        changed = np.zeros(len(self.counts), dtype=np.bool_)
        before = self._states
        gone = (
            state
            for bucket, state in before.items()
            if bucket not in states or not states[bucket].is_same(state)
        )
        come = (
            state
            for bucket, state in states.items()
            if bucket not in before or not before[bucket].is_same(state)
        )
        self._add(gone, -1, known, changed)
        self._add(come, 1, known, changed)
        self._states = states
        return changed

    def _add(
        self,
        states: Iterable[BucketState],
        sign: int,
        known: CountedStates,
        changed: NDArray[np.bool_],
    ) -> None:
        flat = self.counts.reshape(-1)
        for state in states:
            codes, counts = known.counted(state)
            series, within = np.divmod(codes, np.int32(_CODES))
            places = self._places[np.minimum(series, len(self._places) - 1)]
            mine = (places >= 0) & (within < self._stages * BINS)
            at = places[mine] * (self._stages * BINS) + within[mine]
            flat[at] += sign * counts[mine]
            changed[places[mine]] = True
