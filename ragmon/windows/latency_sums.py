"""Histograms of latencies over one window, kept up to date from one copy to the next.

Counts are whole numbers, so what leaves the window is taken back and what enters is added, and the
sum is that of the window, whatever the steps. Between two scrapes few of some hundred buckets do.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.stats.latency import BINS
from ragmon.windows.copies import BucketStates
from ragmon.windows.latency_bucket import BucketState, Codes
from ragmon.windows.totals import STAGES

_CODES = STAGES * BINS  # of one series
_Bools = NDArray[np.bool_]


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

    def differences(self, states: BucketStates) -> Iterator[tuple[BucketState, int]]:
        """States to be taken back (-1) and to be added (1) for the buckets of a copy."""
        before = self._states
        for bucket, state in before.items():
            if bucket not in states or not states[bucket].is_same(state):
                yield state, -1
        for bucket, state in states.items():
            if bucket not in before or not before[bucket].is_same(state):
                yield state, 1

    def add(self, codes: Codes, counts: Codes, sign: int, changed: _Bools) -> None:
        """Count a bucket, or take it back, and mark the series that have something in it.

        Args:
            codes: sorted and distinct, shape (n,).
            counts: of the codes.
            sign: 1 or -1.
            changed: (series,), true for those whose histogram is another from now on.
        """
        series, within = np.divmod(codes, np.int32(_CODES))
        places = self._places[np.minimum(series, len(self._places) - 1)]
        mine = (places >= 0) & (within < self._stages * BINS)
        at = places[mine] * (self._stages * BINS) + within[mine]
        self.counts.reshape(-1)[at] += sign * counts[mine]
        changed[places[mine]] = True

    def settle(self, states: BucketStates) -> None:
        """Remember the buckets that are counted now."""
        self._states = states


def follow(windows: Sequence[LatencySums], copies: Sequence[BucketStates]) -> list[_Bools]:
    """Take over the buckets of copies, one a window; returns the series whose histogram changed.

    A bucket that windows have in common is counted once for all of them, and then forgotten:
    the codes of a week of busy hours at once would take more memory than all windows.
    """
    changed = [np.zeros(len(window.counts), dtype=np.bool_) for window in windows]
    steps: dict[tuple[int, int], tuple[BucketState, list[tuple[int, int]]]] = {}
    for place, (window, states) in enumerate(zip(windows, copies, strict=True)):
        for state, sign in window.differences(states):
            key = (id(state.gaps), len(state.waiting))  # it lives, so its id is its own
            steps.setdefault(key, (state, []))[1].append((place, sign))
    for state, uses in steps.values():
        codes, counts = state.counted()
        for place, sign in uses:
            windows[place].add(codes, counts, sign, changed[place])
    for window, states in zip(windows, copies, strict=True):
        window.settle(states)
    return changed
