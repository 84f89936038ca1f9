"""One series over time: the sums of a window, but for each step of a stretch.

The answer has the shape of a window in which each step is a series, so that estimates are made
of it in the same way.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import Column
from ragmon.stats.latency import BINS
from ragmon.windows import Merged, Windows
from ragmon.windows.series import SeriesKey
from ragmon.windows.snapshot import PER_SERIES, SavedBucket, saved_sums
from ragmon.windows.tiers import Tier
from ragmon.windows.totals import STAGES


class Steps(NamedTuple):
    """Stretches of equal length, each of whole buckets of one tier."""

    tier: int
    width_s: int  # of a bucket
    first: int  # bucket
    buckets: int  # of a step
    length: int  # in steps

    @property
    def step_s(self) -> int:
        """Seconds of a step."""
        return self.width_s * self.buckets

    @property
    def start(self) -> int:
        """Unix seconds at which the first begins."""
        return self.first * self.width_s

    @property
    def end(self) -> int:
        """The bucket after the last."""
        return self.first + self.buckets * self.length

    def at(self, bucket: int) -> int:
        """The step that a bucket lies in."""
        return (bucket - self.first) // self.buckets


def steps(tiers: Sequence[Tier], start: float, end: float, step_s: float, newest: float) -> Steps:
    """Steps from ``start`` to ``end``, at multiples of their length.

    Args:
        tiers: from fine to coarse.
        start: unix seconds; the first step holds it.
        end: unix seconds, after ``start``.
        step_s: least length of a step; it becomes a multiple of the buckets that are kept so
            far back.
        newest: unix seconds up to which the rings have moved.
    """
    wide = max((at for at, tier in enumerate(tiers) if tier.width_s <= step_s), default=0)
    kept = (at for at, tier in enumerate(tiers) if start > newest - tier.width_s * (tier.slots - 1))
    tier = max(wide, next(kept, len(tiers) - 1))
    width = tiers[tier].width_s
    buckets = max(1, -int(-step_s // width))
    step = width * buckets
    first = int(start // step)
    length = max(1, -int(-end // step) - first)
    return Steps(tier, width, first * buckets, buckets, length)


def of_series(windows: Windows, series: int | None, over: Steps, *, latencies: bool) -> Merged:
    """The sums of one series that memory holds.

    Args:
        windows: all series.
        series: number of the one; None: memory has forgotten it.
        over: the steps.
        latencies: False leaves out the histograms of latency, which take longest.
    """
    windows.settle()
    merged = _nothing(over, windows)
    if series is None:
        return merged
    ring, judged = windows.rings[over.tier], windows.judged[over.tier]
    for bucket in range(over.first, over.end):
        at = over.at(bucket)
        row = ring.row(bucket, series)
        if row is not None:
            merged.rows[at] += row
        cells = judged.get(bucket)
        if cells is not None and merged.judged is not None:
            merged.judged[at] += cells.rows[cells.series == series].sum(axis=0)
        if latencies and row is not None:
            codes, counts = windows.latencies[over.tier].get(bucket)
            first, last = np.searchsorted(codes, (series * PER_SERIES, (series + 1) * PER_SERIES))
            mine = slice(first, last)
            merged.latency[at].reshape(-1)[codes[mine] % PER_SERIES] += counts[mine]
    return merged


def add_saved_buckets(
    merged: Merged,
    key: SeriesKey,
    over: Steps,
    saved: Iterable[SavedBucket],
    columns: Sequence[Column],
) -> None:
    """Add what saved buckets hold of a series, for those that memory has forgotten."""
    for bucket in saved:
        sums = saved_sums(bucket.body, key, columns)
        if sums is None:
            continue
        at = over.at(bucket.bucket)
        merged.rows[at] += sums.row
        merged.latency[at].reshape(-1)[sums.bins] += sums.counts
        if merged.judged is not None:
            merged.judged[at] += sums.judged


def _nothing(over: Steps, windows: Windows) -> Merged:
    rows: NDArray[np.float64] = np.zeros((over.length, windows.row_layout.width))
    latency = np.zeros((over.length, STAGES, BINS), dtype=np.int64)
    return Merged(rows, latency, np.zeros((over.length, windows.verdict_layout.width)))
