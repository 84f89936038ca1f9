"""Rolling windows: observations in, sums and latency histograms over any stretch of time out.

Folding is commutative and every sum is mergeable, so live traffic, a restart, a replay and
several replicas arrive at the same numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import Column
from ragmon.signals.verdict_sums import layout_of
from ragmon.stats.latency import BINS, bins
from ragmon.windows.latencies import LatencyRing
from ragmon.windows.moments import Ring, expand, group
from ragmon.windows.observations import Observations, Sparse
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.series import SeriesTable
from ragmon.windows.sparse import SparseRing
from ragmon.windows.tiers import cover, tiers_for
from ragmon.windows.totals import STAGES, Totals

LATENCY = "latency_ms"
TOP_SCORE = "top_score"
_EVER = 1 << 40  # finest buckets: a stretch of time that holds all others


class Merged(Struct, frozen=True):
    """One window of every series."""

    rows: NDArray[np.float64]  # (series, RowLayout.width)
    latency: NDArray[np.int64]  # (series, stages, bins)
    judged: NDArray[np.float64] | None = None  # (series, width of the layout); None: nothing


class Windows:
    """Everything counted so far, by series and time."""

    def __init__(
        self, columns: Sequence[Column], *, slices: tuple[str, ...], longest_s: float, limit: int
    ) -> None:
        self.columns = tuple(columns)
        self.slices = slices
        self.series = SeriesTable(limit, slices)
        self.tiers = tiers_for(longest_s)
        self.row_layout = RowLayout(len(self.columns))
        self.rings = [Ring(tier, self.series.capacity, self.row_layout) for tier in self.tiers]
        self.latencies = [LatencyRing(tier, STAGES) for tier in self.tiers]
        self.verdict_layout = layout_of(self.columns)
        self.judged = [SparseRing(tier, self.verdict_layout.width) for tier in self.tiers]
        self.totals = Totals(self.series.capacity, self.row_layout)
        self.dirty: list[set[int]] = [set() for _ in self.tiers]
        self.watermark = 0.0  # newest timestamp counted
        self.dropped = 0  # observations that went to `other` because max_series was reached
        self.restatements = 0
        names = [column.name for column in self.columns]
        self._latency = [index for index, name in enumerate(names) if name == LATENCY]
        self._score = names.index(TOP_SCORE)

    def fold(self, observations: Observations) -> None:
        """Count a batch."""
        if not len(observations):
            return
        members, dropped = self._members(observations)
        rows = expand(observations.values)
        self._add(observations, members, rows)
        self._add_latency(observations, members)
        self.totals.observe(
            members[observations.dim_index, 0],
            observations.values[:, self._latency],
            observations.values[:, self._score],
        )
        self.watermark = max(self.watermark, float(observations.timestamps.max()))
        self.dropped += dropped

    def restate(self, old: Observations, new: Observations) -> None:
        """Replace what was counted of some records by what is known of them now.

        Counters only grow: they gain what is new and keep what was. A series that counted none
        of them, because its slice was configured later, is left alone.
        """
        if not len(new):
            return
        delta = expand(new.values) - expand(old.values)
        members, _ = self._members(new)
        self._add(new, members, delta, growth=np.maximum(delta, 0.0))
        for sign, observations in ((-1.0, old), (1.0, new)):
            if observations.judged is not None:
                self._add_judged(new, members, observations.judged, sign)
        self.restatements += len(new)

    def merge(self, window_s: float, now: float, end: float | None = None) -> Merged:
        """The window that ends now, or ended at ``end``, for series 0 to ``len(series) - 1``.

        It is made of whole buckets, so it begins up to one of them early; now it ends with the
        bucket in progress.
        """
        count = len(self.series)
        finest = self.tiers[0].width_s
        stop = (now // finest + 1) * finest if end is None else end
        newest = max(now, self.watermark)  # a clock that runs ahead has moved the rings on
        rows = np.zeros((count, self.row_layout.width))
        latency = np.zeros((count, STAGES, BINS), dtype=np.int64)
        judged = np.zeros((count, self.verdict_layout.width))
        for run in cover(self.tiers, (now if end is None else end) - window_s, stop, newest):
            rows += self.rings[run.tier].total(run, count)
            latency += self.latencies[run.tier].total(run, count)
            self.judged[run.tier].add_to(judged, run)
        return Merged(rows, latency, judged)

    def forget(self, now: float) -> int:
        """Drop the series unseen for longer than the longest tier; returns how many."""
        coarsest = self.tiers[-1]
        stale = self.series.forget(now - coarsest.width_s * coarsest.slots)
        if stale:
            for ring in self.rings:
                ring.clear(stale)
            for latencies in self.latencies:
                latencies.clear(stale)
            for judged in self.judged:
                judged.clear(stale)
            self.totals.clear(stale)
        return len(stale)

    def _members(self, observations: Observations) -> tuple[NDArray[np.int64], int]:
        """The series of each distinct dims, and how many observations went to ``other``.

        Series numbers have shape (dims, most series of one), padded with -1.
        """
        newest = np.zeros(len(observations.dims))
        np.maximum.at(newest, observations.dim_index, observations.timestamps)
        records = np.bincount(observations.dim_index, minlength=len(observations.dims))
        members = np.full((len(observations.dims), 2 + len(observations.slices)), -1)
        dropped = 0
        for index, dims in enumerate(observations.dims):
            numbers, overflow = self.series.membership(dims, observations.slices)
            dropped += overflow * int(records[index])
            members[index, : len(numbers)] = numbers
        series, pair = _pairs(members)
        self.series.seen(series, newest[pair])
        return members, dropped

    def _add(
        self,
        observations: Observations,
        members: NDArray[np.int64],
        rows: NDArray[np.float64],
        growth: NDArray[np.float64] | None = None,
    ) -> None:
        """Add rows to every series, tier and bucket they belong to, and growth to the totals."""
        dim_index = observations.dim_index
        finest = observations.timestamps.astype(np.int64) // self.tiers[0].width_s
        sums = _by_series(dim_index, finest, members, rows)
        for level, ring in enumerate(self.rings):
            if level:
                sums = _widened(sums, ring.tier.width_s // self.tiers[level - 1].width_s)
            touched = ring.add(*sums, restating=growth is not None)
            self.dirty[level].update(touched.tolist())
        if growth is not None:
            sums = _by_series(dim_index, finest, members, growth)
            sums.rows[self.totals.queries[sums.series] == 0.0] = 0.0
        ever = _widened(sums, _EVER)
        self.totals.rows[ever.series] += ever.rows

    def _add_judged(
        self, of: Observations, members: NDArray[np.int64], sparse: Sparse, sign: float
    ) -> None:
        """Add what verdicts say to the cells that hold their records, in every tier."""
        rows = sign * self.verdict_layout.converted(sparse.names, sparse.rows)
        series, pair = _pairs(members[of.dim_index[sparse.record]])
        seconds = of.timestamps[sparse.record].astype(np.int64)[pair]
        for ring, judged in zip(self.rings, self.judged, strict=True):
            buckets = seconds // ring.tier.width_s
            slots = buckets % ring.tier.slots
            present = ring.epochs[slots] == buckets
            present &= ring.queries[slots, series] > 0.0
            if present.any():
                judged.add(series[present], buckets[present], rows[pair][present])

    def _add_latency(self, observations: Observations, members: NDArray[np.int64]) -> None:
        latency = observations.values[:, self._latency]
        record, stage = np.nonzero(~np.isnan(latency))
        if not len(record):
            return
        within = stage * BINS + bins(latency[record, stage])
        series, pair = _pairs(members[observations.dim_index[record]])
        codes = (series * (STAGES * BINS) + within[pair]).astype(np.int32)
        seconds = observations.timestamps[record].astype(np.int64)[pair]
        for ring in self.latencies:
            buckets = seconds // ring.tier.width_s
            if buckets.min() == buckets.max():
                ring.add(int(buckets[0]), codes)
                continue
            for bucket in np.unique(buckets).tolist():
                ring.add(bucket, codes[buckets == bucket])


class _BucketRows(NamedTuple):
    """Rows of distinct pairs of series and bucket."""

    series: NDArray[np.int64]
    buckets: NDArray[np.int64]
    rows: NDArray[np.float64]


def _by_series(
    dim_index: NDArray[np.int32],
    buckets: NDArray[np.int64],
    members: NDArray[np.int64],
    rows: NDArray[np.float64],
) -> _BucketRows:
    """The rows of records, summed by series and bucket.

    First by dims, of which there are fewer than records, then by the series these belong to.
    """
    first, sums = group(dim_index.astype(np.int64) << 40 | buckets, rows)
    series, pair = _pairs(members[dim_index[first]])
    of_series = buckets[first][pair]
    first, sums = group(series << 40 | of_series, sums, pair)
    return _BucketRows(series[first], of_series[first], sums)


def _widened(sums: _BucketRows, factor: int) -> _BucketRows:
    """The sums over buckets that many times as wide."""
    wider = sums.buckets // factor
    if sums.buckets.min() == sums.buckets.max():  # one row a series already
        return _BucketRows(sums.series, wider, sums.rows)
    first, rows = group(sums.series << 40 | wider, sums.rows)
    return _BucketRows(sums.series[first], wider[first], rows)


def _pairs(members: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every (series, row) pair of a table of members padded with -1."""
    row, column = np.nonzero(members >= 0)
    return members[row, column], row
