"""Numbers of pipelines or slices over windows, estimated anew only where their sums changed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.figures import numbers, width
from ragmon.signals import Column
from ragmon.signals.verdict_sums import layout_of
from ragmon.windows import Merged
from ragmon.windows.copies import WindowCopy
from ragmon.windows.estimates import estimate
from ragmon.windows.latency_sums import LatencySums, follow
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.series import SeriesKey

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Part(NamedTuple):
    """Numbers of some series over one window."""

    window: str  # as in the label
    keys: Sequence[SeriesKey]
    numbers: Floats  # (keys, places)


class WindowFigures:
    """Follows some series over some windows from one copy to the next."""

    def __init__(
        self,
        columns: Sequence[Column],
        windows: Sequence[str],
        *,
        stages: int,
        with_intervals: bool,
    ) -> None:
        """Make it.

        Args:
            columns: of the observations.
            windows: names of the windows.
            stages: the first so many stages of latencies are looked at.
            with_intervals: whether bounds are computed.
        """
        self._columns = columns
        self._names = windows
        self._stages = stages
        self._with_intervals = with_intervals
        self._members: list[tuple[SeriesKey, int]] = []
        self._windows: list[_Followed] = []

    def update(
        self, members: Sequence[tuple[SeriesKey, int]], copies: Sequence[WindowCopy]
    ) -> list[Part]:
        """The numbers of every window, estimated all at once where sums changed.

        Args:
            members: the series with their numbers, as the copies have them.
            copies: one a window.
        """
        self._follow(list(members))
        histograms = [window.latency for window in self._windows]
        differ = follow(histograms, [copy.latency for copy in copies])
        rows = zip(self._windows, copies, differ, strict=True)
        changes = [window.changes(copy, differs) for window, copy, differs in rows]
        if any(len(change.places) for change in changes):
            merged = Merged(
                np.concatenate([change.rows for change in changes]),
                np.concatenate([change.latency for change in changes]),
                np.concatenate([change.judged for change in changes]),
            )
            estimates = estimate(merged, self._columns, with_intervals=self._with_intervals)
            ends = np.cumsum([len(change.places) for change in changes])
            changed = np.split(numbers(estimates), ends[:-1])
            for window, change, of_window in zip(self._windows, changes, changed, strict=True):
                window.numbers[change.places] = of_window
        keys = [key for key, _ in self._members]
        return [
            Part(name, keys, window.numbers)
            for name, window in zip(self._names, self._windows, strict=True)
        ]

    def _follow(self, members: list[tuple[SeriesKey, int]]) -> None:
        """Begin anew, unless there are only more of them than before."""
        known = len(self._members)
        if members[:known] != self._members or not self._windows:
            self._windows = [_Followed(self._columns, self._stages) for _ in self._names]
            known = 0
        if len(members) > known:
            more = np.array([number for _, number in members[known:]], dtype=np.intp)
            for window in self._windows:
                window.extend(more)
        self._members = members


class _Changes(NamedTuple):
    """Sums of one window that are others than before."""

    places: Places  # of the series
    rows: Floats
    latency: NDArray[np.int64]
    judged: Floats


class _Followed:
    """One window: the sums as they were last, and the numbers made of them."""

    def __init__(self, columns: Sequence[Column], stages: int) -> None:
        self.numbers = np.empty((0, width(columns)))
        self._rows = np.empty((0, RowLayout(len(columns)).width))
        self._judged = np.empty((0, layout_of(columns).width))
        self.latency = LatencySums(stages)

    def extend(self, series: Places) -> None:
        """Have more series, of which nothing is known yet."""
        self.latency.extend(series)
        self._rows, self._judged, self.numbers = (
            np.pad(table, ((0, len(series)), (0, 0)), constant_values=np.nan)
            for table in (self._rows, self._judged, self.numbers)
        )

    def changes(self, copy: WindowCopy, differs: NDArray[np.bool_]) -> _Changes:
        """Sums that are others than in the copy before.

        Args:
            copy: of the window.
            differs: the series whose histogram is another; added to in place.
        """
        judged = np.zeros(self._judged.shape) if copy.judged is None else copy.judged
        for before, now in ((self._rows, copy.rows), (self._judged, judged)):
            differs |= (before != now).any(axis=1)
        self._rows, self._judged = copy.rows, judged
        at = np.flatnonzero(differs)
        latency = self.latency.counts[at].astype(np.int64)
        return _Changes(at, copy.rows[at], latency, judged[at])
