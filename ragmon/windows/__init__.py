"""Rolling windows: observations in, sums and latency histograms over any stretch of time out.

Folding is commutative and every sum is mergeable, so live traffic, a restart, a replay and
several replicas arrive at the same numbers.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import Column
from ragmon.signals.verdict_sums import layout_of
from ragmon.stats.latency import BINS, bins
from ragmon.windows.batch_rows import BatchRows, added, on_grid, restated
from ragmon.windows.bucket_sums import NO_SUMS, by_series, in_parts, joined, pairs, widened
from ragmon.windows.latencies import LatencyRing
from ragmon.windows.moments import Ring
from ragmon.windows.observations import Observations, Sparse
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.series import SeriesTable
from ragmon.windows.sparse import SparseRing
from ragmon.windows.tiers import Run, cover, tiers_for
from ragmon.windows.totals import STAGES, Totals

LATENCY = "latency_ms"
TOP_SCORE = "top_score"
_MOST_WAITING = 8_000  # records: some 4 MB
_MOST_WIDE = 2_000  # rows that are widened at once: some 3 MB; history has one a record and series
_EVER = 1 << 40  # finest buckets: a stretch of time that holds all others


_Item = TypeVar("_Item")


class Merged(Struct, frozen=True):
    """One window of every series."""

    rows: NDArray[np.float64]  # (series, RowLayout.width)
    latency: NDArray[np.integer]  # (series, stages, bins)
    judged: NDArray[np.float64] | None = None  # (series, width of the layout); None: nothing


class Windows:
    """Everything counted so far, by series and time."""

    def __init__(
        self, columns: Sequence[Column], *, slices: tuple[str, ...], longest_s: float, limit: int
    ) -> None:
        self.columns = tuple(columns)
        self.slices = slices
        self.longest_s = longest_s
        self._limit = limit
        self.tiers = tiers_for(longest_s)
        self.row_layout = RowLayout(len(self.columns))
        self.verdict_layout = layout_of(self.columns)
        names = [column.name for column in self.columns]
        self._latency = [index for index, name in enumerate(names) if name == LATENCY]
        self._score = names.index(TOP_SCORE)
        self._proportions = np.array([column.kind == "proportion" for column in columns])
        families = {column.name for column in columns if column.kind == "quantity"}
        self._moments = [
            np.array([at for at, name in enumerate(names) if name == family])
            for family in sorted(families)
            if names.count(family) > 1
        ]
        self.clear()

    def clear(self) -> None:
        """Forget everything, to be counted anew."""
        self._series = SeriesTable(self._limit, self.slices)
        self.rings = [Ring(tier, self.row_layout) for tier in self.tiers]
        self.latencies = [LatencyRing(tier, STAGES) for tier in self.tiers]
        self.judged = [SparseRing(tier, self.verdict_layout.width) for tier in self.tiers]
        self._folded: list[Observations] = []  # not counted yet, nor are the restated ones
        self._restated: list[tuple[Observations, Observations]] = []
        self._waiting = 0  # records of both
        self.clear_totals()
        self.dirty: list[set[int]] = [set() for _ in self.tiers]
        self.watermark = 0.0  # newest timestamp counted
        self.dropped = 0  # observations that went to `other` because max_series was reached
        self.restatements = 0
        self.is_incomplete = False  # counting failed half-way: nothing here can be relied on

    def empty(self) -> "Windows":
        """Windows of the same form that have counted nothing."""
        return Windows(
            self.columns, slices=self.slices, longest_s=self.longest_s, limit=self._limit
        )

    @property
    def series(self) -> SeriesTable:
        """The series by number; those of every batch folded so far."""
        self.settle()
        return self._series

    @property
    def totals(self) -> Totals:
        """The cumulative sums of every batch folded so far."""
        self.settle()
        return self._totals

    def fold(self, observations: Observations) -> None:
        """Count a batch: now, or with those that follow it (``settle``)."""
        if not len(observations):
            return
        self._folded.append(observations)
        self.watermark = max(self.watermark, float(observations.timestamps.max()))
        self._wait(len(observations))

    def restate(self, old: Observations, new: Observations) -> None:
        """Replace what was counted of some records by what is known of them now.

        Totals only grow: they gain what is new and keep what was (``batch_rows.restated``). A
        series that counted none of the records, because its slice was configured later, is left
        alone.
        """
        if not len(new):
            return
        self._restated.append((old, new))
        self.restatements += len(new)
        self._wait(len(new))

    def settle(self) -> None:
        """Count what waits, before anything is read.

        Many small batches at once cost a fraction of each by itself: commits of 400 records
        with 450 series a third.
        """
        folded, restated = self._folded, self._restated
        self._folded, self._restated, self._waiting = [], [], 0
        try:
            for batches in _alike(folded, _layout):
                self._fold(Observations.concatenate(batches))
            for pairs in _alike(restated, lambda pair: (_layout(pair[0]), _layout(pair[1]))):
                old, new = zip(*pairs, strict=True)
                self._restate(Observations.concatenate(old), Observations.concatenate(new))
        except BaseException:
            self.is_incomplete = True
            raise

    def merge(
        self,
        window_s: float,
        now: float,
        end: float | None = None,
        *,
        series: NDArray[np.intp] | None = None,
        stages: int = STAGES,
    ) -> Merged:
        """The window that ends now, or ended at ``end``, of some series or of all.

        Args:
            window_s: its length, seconds.
            now: unix seconds.
            end: unix seconds; None: now.
            series: numbers of the series of the rows; None: 0 to ``len(series) - 1``.
            stages: the first so many stages of latencies.
        """
        self.settle()
        count = len(self._series)
        chosen = slice(None) if series is None else series
        size = count if series is None else len(series)
        rows = np.zeros((size, self.row_layout.width))
        latency = np.zeros((size, stages, BINS), dtype=np.int32)  # as the rings have it
        judged = np.zeros((count, self.verdict_layout.width))
        for run in self.runs(window_s, now, end):
            rows += self.rings[run.tier].total(run, count)[chosen]
            latency += self.latencies[run.tier].total(run, count)[:, :stages][chosen]
            self.judged[run.tier].add_to(judged, run)
        return Merged(rows, latency, judged[chosen])

    def queries(self, window_s: float, now: float, end: float | None = None) -> NDArray[np.float64]:
        """Queries of each series in the window that ends now or at ``end``; shape (series,)."""
        self.settle()
        count = len(self._series)
        queries = np.zeros(count)
        for run in self.runs(window_s, now, end):
            queries += self.rings[run.tier].total(run, count)[:, self.row_layout.queries]
        return queries

    def runs(self, window_s: float, now: float, end: float | None = None) -> list[Run]:
        """The buckets of the window that ends now, or ended at ``end``.

        They are whole, so it begins up to one of them early; now it ends with the bucket in
        progress.
        """
        finest = self.tiers[0].width_s
        stop = (now // finest + 1) * finest if end is None else end
        newest = max(now, self.watermark)  # a clock that runs ahead has moved the rings on
        return cover(self.tiers, (now if end is None else end) - window_s, stop, newest)

    def clear_totals(self) -> None:
        """Forget the cumulative sums alone."""
        self.settle()
        self._totals = Totals(
            self._series.capacity, self.row_layout, len(self.verdict_layout.counted)
        )

    def adopt(self, counted: "Windows") -> None:
        """Go on with the series, buckets and totals of others, which are not to be used again."""
        counted.settle()
        self._series, self._totals = counted._series, counted._totals
        self.rings, self.latencies, self.judged = counted.rings, counted.latencies, counted.judged
        self.dirty, self.watermark = counted.dirty, counted.watermark
        self.restatements, self.dropped = counted.restatements, counted.dropped
        self._folded, self._restated, self._waiting = [], [], 0

    def forget(self, now: float) -> int:
        """Drop the series unseen for longer than the longest tier; returns how many."""
        self.settle()
        coarsest = self.tiers[-1]
        stale = self._series.forget(now - coarsest.width_s * coarsest.slots)
        if stale:
            for ring in self.rings:
                ring.clear(stale)
            for latencies in self.latencies:
                latencies.clear(stale)
            for judged in self.judged:
                judged.clear(stale)
            self._totals.clear(stale)
        return len(stale)

    def _wait(self, records: int) -> None:
        self._waiting += records
        if self._waiting >= _MOST_WAITING:
            self.settle()

    def _fold(self, observations: Observations) -> None:
        members, dropped = self._members(observations)
        self._add(observations, members, added(observations.values, self._proportions))
        self._add_latency(observations, members)
        self._totals.observe(
            members[observations.dim_index, 0],
            observations.values[:, self._latency],
            observations.values[:, self._score],
        )
        self.dropped += dropped

    def _restate(self, old: Observations, new: Observations) -> None:
        members, _ = self._members(new)
        batch = restated(old.values, new.values, self._proportions, self._moments)
        self._add(new, members, batch.change, batch.growth)
        self._restate_histograms(old, new, members)
        for sign, observations in ((-1.0, old), (1.0, new)):
            if observations.judged is not None:
                self._add_judged(new, members, observations.judged, sign)
        if new.judged is not None:
            self._add_sampled(new, members, old.judged, new.judged)

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
            numbers, overflow = self._series.membership(dims, observations.slices)
            dropped += overflow * int(records[index])
            members[index, : len(numbers)] = numbers
        series, pair = pairs(members)
        self._series.seen(series, newest[pair])
        return members, dropped

    def _add(
        self,
        observations: Observations,
        members: NDArray[np.int64],
        batch: BatchRows,
        growth: BatchRows | None = None,
    ) -> None:
        """Add rows to every series, tier and bucket they belong to, and growth to the totals."""
        restating = growth is not None
        dim_index, seconds = observations.dim_index, observations.timestamps.astype(np.int64)
        finest = self._finest(seconds)
        sums = NO_SUMS
        for level, ring in enumerate(self.rings):
            width_s = ring.tier.width_s
            mine = slice(None) if (finest == level).all() else np.flatnonzero(finest == level)
            buckets = seconds[mine] // width_s
            of_level = by_series(dim_index[mine], buckets, members, batch.rows[mine])
            wider = widened(sums, width_s // self.tiers[level - 1].width_s)
            sums = joined(wider, of_level)
            for part in in_parts(sums, _MOST_WIDE):
                rows = batch.widened(part.rows)
                touched = ring.add(part.series, part.buckets, rows, restating=restating)
                self.dirty[level].update(touched)
        if growth is not None:
            batch = growth
            sums = by_series(dim_index, np.zeros_like(seconds), members, batch.rows)
            sums.rows[self._totals.queries[sums.series] == 0.0] = 0.0
        ever = widened(sums, _EVER)
        self._totals.rows[ever.series] += batch.widened(ever.rows)

    def _finest(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The finest tier that still holds each moment; the coarsest for what none holds.

        So a back-fill of days does not make, and forget, each of their 10-second buckets.
        """
        newest = max(int(self.watermark), int(seconds.max()))
        begins = [(newest // width - slots + 1) * width for width, slots in self.tiers[:-1]]
        finest: NDArray[np.int64] = (seconds[:, None] < np.array(begins)).sum(axis=1)
        return finest

    def _add_judged(
        self, of: Observations, members: NDArray[np.int64], sparse: Sparse, sign: float
    ) -> None:
        """Add what verdicts say to the cells that hold their records, in every tier."""
        rows = sign * self.verdict_layout.converted(sparse.names, sparse.rows)
        series, pair = pairs(members[of.dim_index[sparse.record]])
        seconds = of.timestamps[sparse.record].astype(np.int64)[pair]
        for ring, judged in zip(self.rings, self.judged, strict=True):
            buckets = seconds // ring.tier.width_s
            present = ring.counted(series, buckets)
            if present.any():
                judged.add(series[present], buckets[present], rows[pair][present])

    def _add_sampled(
        self, of: Observations, members: NDArray[np.int64], old: Sparse | None, new: Sparse
    ) -> None:
        """Add the sampled verdicts that are new, or other than before, to the totals."""
        gained = self._weighted(of, new)
        before = np.zeros_like(gained) if old is None else self._weighted(of, old)
        gained[(gained == before).all(axis=2)] = 0.0
        series, pair = pairs(members[of.dim_index[new.record]])
        counted = self._totals.queries[series] > 0.0
        growth = gained[new.record][pair[counted]]
        np.add.at(self._totals.sampled, series[counted], growth)

    def _weighted(self, of: Observations, sparse: Sparse) -> NDArray[np.float64]:
        """Weights and weighted scores of every record, shape (n, scores, 2); zero without any."""
        layout = self.verdict_layout
        weighted = np.zeros((len(of), len(layout.counted), 2))
        rows = layout.converted(sparse.names, sparse.rows)
        weighted[sparse.record] = on_grid(layout.weighted(rows))
        return weighted

    def _restate_histograms(
        self, old: Observations, new: Observations, members: NDArray[np.int64]
    ) -> None:
        """Move latencies and scores that changed, as those of a trace that was not whole do."""
        columns = [*self._latency, self._score]
        before, after = old.values[:, columns], new.values[:, columns]
        changed = (before != after) & ~(np.isnan(before) & np.isnan(after))
        if not changed.any():
            return
        gone, come = np.where(changed, before, np.nan), np.where(changed, after, np.nan)
        for sign, values in ((-1, gone[:, :-1]), (1, come[:, :-1])):
            codes, seconds = self._latency_codes(new, members, values)
            series = codes.astype(np.int64) // (STAGES * BINS)
            for ring, latencies in zip(self.rings, self.latencies, strict=True):
                buckets = seconds // ring.tier.width_s
                present = ring.counted(series, buckets)
                if present.any():
                    latencies.add(buckets[present], codes[present], sign)
        first = members[new.dim_index, 0]
        seen = self._totals.queries[first] > 0.0
        self._totals.observe(first[seen], come[seen, :-1], come[seen, -1])

    def _add_latency(self, observations: Observations, members: NDArray[np.int64]) -> None:
        latency = observations.values[:, self._latency]
        codes, seconds = self._latency_codes(observations, members, latency)
        if not len(codes):
            return
        for ring in self.latencies:
            ring.add(seconds // ring.tier.width_s, codes)

    def _latency_codes(
        self, of: Observations, members: NDArray[np.int64], latency: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Codes of known latencies in each series of their records, with their unix seconds."""
        record, stage = np.nonzero(~np.isnan(latency))
        within = stage * BINS + bins(latency[record, stage])
        series, pair = pairs(members[of.dim_index[record]])
        codes = (series * (STAGES * BINS) + within[pair]).astype(np.int32)
        return codes, of.timestamps[record].astype(np.int64)[pair]


def _layout(observations: Observations) -> tuple[str, ...] | None:
    """The names of the verdict sums: only those of one layout can be put together."""
    return None if observations.judged is None else observations.judged.names


def _alike(waiting: Sequence[_Item], key: Callable[[_Item], Hashable]) -> Iterable[list[_Item]]:
    """The items of equal key together, in the order in which they came."""
    groups: dict[Hashable, list[_Item]] = {}
    for item in waiting:
        groups.setdefault(key(item), []).append(item)
    return groups.values()
