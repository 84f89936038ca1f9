"""Copies of windows, which other threads read while the windows go on.

What is taken is little: sums, and references to histograms that are never changed in place. Their
counts are added up by whoever reads the copy (``latency_sums``).
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.windows import Windows
from ragmon.windows.latency_bucket import BucketState
from ragmon.windows.tiers import Run

Floats = NDArray[np.float64]
BucketStates = dict[tuple[int, int], BucketState]
"""By tier and number of the bucket."""


class WindowCopy(Struct, frozen=True):
    """One window of some series as it was at one moment."""

    rows: Floats  # (series, RowLayout.width)
    judged: Floats | None  # (series, VerdictLayout.width); None without verdicts
    latency: BucketStates  # of all series


class WindowCopier:
    """Copies windows that end at one moment, and so have runs of buckets in common."""

    def __init__(self, windows: Windows, now: float) -> None:
        """Make it; all is copied between two commits.

        Args:
            windows: to read.
            now: unix seconds.
        """
        self._windows = windows
        self._now = now
        self._count = len(windows.series)
        self._rows: dict[Run, Floats] = {}
        self._latency: dict[Run, BucketStates] = {}

    def copy(self, length_s: float, series: NDArray[np.intp]) -> WindowCopy:
        """The window that ends now.

        Args:
            length_s: seconds.
            series: numbers.
        """
        windows = self._windows
        rows = np.zeros((len(series), windows.row_layout.width))
        latency: BucketStates = {}
        runs = windows.runs(length_s, self._now)
        for run in runs:
            rows += self._total(run)[series]
            latency |= self._states(run)
        judged = None
        if any(windows.judged[run.tier].has_any(run) for run in runs):
            judged = np.zeros((self._count, windows.verdict_layout.width))
            for run in runs:
                windows.judged[run.tier].add_to(judged, run)
            judged = judged[series]
        return WindowCopy(rows, judged, latency)

    def queries(self, length_s: float) -> Floats:
        """Queries of every series in the window that ends now; shape (series,)."""
        queries = np.zeros(self._count)
        for run in self._windows.runs(length_s, self._now):
            queries += self._total(run)[:, self._windows.row_layout.queries]
        return queries

    def _total(self, run: Run) -> Floats:
        total = self._rows.get(run)
        if total is None:
            total = self._rows[run] = self._windows.rings[run.tier].total(run, self._count)
        return total

    def _states(self, run: Run) -> BucketStates:
        states = self._latency.get(run)
        if states is None:
            ring = self._windows.latencies[run.tier]
            states = {(run.tier, number): state for number, state in ring.states(run)}
            self._latency[run] = states
        return states
