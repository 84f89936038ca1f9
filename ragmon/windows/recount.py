"""Windows counted anew up to a horizon, because some of what they had counted is of the future.

A clock that stood days ahead moved the rings on, and what came afterwards found no bucket. Totals
are not counted anew: what they have counted stays counted, so that no counter falls.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows import Windows
from ragmon.windows.observations import Observations
from ragmon.windows.snapshot import SavedBucket, dump_totals, load_bucket, load_totals


class RecountStretch(NamedTuple):
    """Times of queries; buckets of before are taken as they were saved."""

    begin: float  # unix seconds, on the hour
    end: float  # the horizon, exclusive: later ones are left out


class Recount:
    """Windows beside those in use, to be put in their place."""

    def __init__(self, counted: Windows, totals: bytes, stretch: RecountStretch) -> None:
        """Begin, on any thread.

        Args:
            counted: empty windows of the form of those in use.
            totals: of those in use, as ``dump_totals`` gave them: their series keep their room.
            stretch: to count anew.
        """
        load_totals(counted, totals)
        counted.watermark = 0.0
        self.counted = counted
        self.stretch = stretch
        self.left_out = 0  # queries behind the horizon
        self.left_out_from: float | None = None  # unix seconds, the earliest of them

    def load(self, buckets: Iterable[SavedBucket]) -> None:
        """Take the widest buckets of before the stretch as they were saved.

        The stretch is longer than narrower ones are kept.
        """
        coarsest = len(self.counted.tiers) - 1
        width_s = self.counted.tiers[coarsest].width_s
        for saved in buckets:
            if saved.tier == coarsest and (saved.bucket + 1) * width_s <= self.stretch.begin:
                load_bucket(self.counted, saved)

    def fold(self, observations: Observations, *, since: float = 0.0) -> None:
        """Count queries from some time on, up to the horizon."""
        times = observations.timestamps
        ahead = times >= self.stretch.end
        if ahead.any():
            self.left_out += int(ahead.sum())
            earliest = float(times[ahead].min())
            self.left_out_from = min(earliest, self.left_out_from or earliest)
        kept = ~ahead & (times >= since)
        self.counted.fold(_selected(observations, kept))

    def fold_before(self, observations: Observations) -> None:
        """Count the queries of before the stretch alone."""
        self.counted.fold(_selected(observations, observations.timestamps < self.stretch.begin))

    def restate(self, old: Observations, new: Observations, *, since: float = 0.0) -> None:
        """Correct queries from some time on, up to the horizon."""
        times = new.timestamps
        kept = (times < self.stretch.end) & (times >= since)
        self.counted.restate(_selected(old, kept), _selected(new, kept))

    def restate_before(self, old: Observations, new: Observations) -> None:
        """Correct the queries of before the stretch alone."""
        kept = new.timestamps < self.stretch.begin
        self.counted.restate(_selected(old, kept), _selected(new, kept))

    def replace(self, windows: Windows) -> None:
        """Put the windows counted anew in the place of those in use, on the thread of these.

        Totals and series stay; a series seen in the future counts as seen at the horizon.
        """
        counted = self.counted
        watermark = counted.watermark
        counted.clear_totals()
        load_totals(counted, dump_totals(windows))
        counted.watermark = watermark
        for key, seen in windows.series.last_seen().items():
            number = counted.series.keys.get(key)
            if number is not None:
                counted.series.seen(np.array([number]), min(seen, self.stretch.end))
        windows.adopt(counted)


def _selected(observations: Observations, kept: NDArray[np.bool_]) -> Observations:
    return observations if kept.all() else observations.select(kept)
