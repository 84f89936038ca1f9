"""The usual median and 95th percentile of each pipeline's latency, on the histogram's edges.

They are learned once from the first day and then kept, so that the share of queries above them
is a stream like any other, with its own season and reference. They are learned anew only when
that share has left the range in which a change would show.
"""

from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.detectors.arrays import Floats, Ints
from ragmon.stats.latency import (
    BINS,
    EDGES_MS,
    MIDDLES_MS,
    bins,
    nearest_edge,
    quantiles,
    share_above,
)

_HOURS = 25
_LOGARITHMS = np.log(MIDDLES_MS)
ENOUGH = 200
SETTLE = 15
"""Minutes before new thresholds hold. What is folded that far ahead does not see them."""
_USABLE = ((0.2, 0.8), (0.005, 0.3))  # share above the median, and above the 95th percentile


class Learned(NamedTuple):
    """Indices in ``EDGES_MS``, and the minute from which they hold."""

    median: int
    p95: int
    since: int


class _SavedEdges(Struct, array_like=True):
    """One pipeline."""

    counts: bytes
    learned: Learned | None = None


class LatencyEdges:
    """Latency histograms of the last day by hour, and what was learned from them."""

    def __init__(self) -> None:
        self._counts: dict[str, NDArray[np.int32]] = {}  # (hours, BINS)
        self._learned: dict[str, Learned] = {}

    def observe(self, pipelines: list[str], which: Ints, minutes: Ints, latency_ms: Floats) -> None:
        """Count latencies, NaN aside, under the hour of their minute.

        Args:
            pipelines: names; distinct.
            which: (n,) into ``pipelines``.
            minutes: (n,) of the records.
            latency_ms: (n,).
        """
        known = ~np.isnan(latency_ms)
        which = which[known]
        places = minutes[known] // 60 % _HOURS * BINS + bins(latency_ms[known])
        for number in np.flatnonzero(np.bincount(which)).tolist():
            name = pipelines[number]
            if name not in self._counts:
                self._counts[name] = np.zeros((_HOURS, BINS), dtype=np.int32)
            np.add.at(self._counts[name].reshape(-1), places[which == number], 1)

    def thresholds_ms(self, pipelines: list[str], which: Ints, minutes: Ints) -> Floats:
        """Median and 95th percentile for each of n records; NaN where they do not hold.

        Args:
            pipelines: names.
            which: (n,) into ``pipelines``.
            minutes: (n,) of the records.
        """
        unknown = (np.nan, np.nan, np.inf)
        by_pipeline = {
            pipeline: (*EDGES_MS[[*learned[:2]]].tolist(), learned.since)
            for pipeline, learned in self._learned.items()
        }
        rows = [by_pipeline.get(pipeline, unknown) for pipeline in pipelines]
        edges_ms = np.array(rows, dtype=np.float64)[which]
        return np.where(minutes[:, None] >= edges_ms[:, 2:], edges_ms[:, :2], np.nan)

    def close_hour(self, hour: int) -> list[str]:
        """Learn at the end of an hour; returns the pipelines whose thresholds changed."""
        changed = []
        for pipeline, counts in self._counts.items():
            total = counts.sum(axis=0)
            total -= counts[(hour + 1) % _HOURS]  # what the next hour holds already
            if total.sum() >= ENOUGH and self._stale(pipeline, total):
                median, p95 = quantiles(total, (0.5, 0.95)).tolist()
                since = (hour + 1) * 60 + SETTLE
                self._learned[pipeline] = Learned(nearest_edge(median), nearest_edge(p95), since)
                changed.append(pipeline)
            counts[(hour + 2) % _HOURS] = 0
        return changed

    def log_sum(self, pipeline: str, first: int, last: int) -> tuple[float, float]:
        """Latencies of hours [first, last), at most the last day's, and the sum of their ln ms."""
        counts = self._counts.get(pipeline)
        if counts is None:
            return 0.0, 0.0
        of_hours = counts[np.arange(first, last) % _HOURS].sum(axis=0)
        return float(of_hours.sum()), float((of_hours * _LOGARITHMS).sum())

    def share_above(self, pipeline: str, ms: float) -> float:
        """Share of the last day's latencies above one, to the nearest edge of the histogram."""
        counts = self._counts.get(pipeline)
        if counts is None:
            return 0.0
        return float(share_above(counts.sum(axis=0), nearest_edge(ms)))

    def dump(self) -> bytes:
        """Everything, as bytes."""
        return msgspec.msgpack.encode(
            {
                pipeline: _SavedEdges(counts.tobytes(), self._learned.get(pipeline))
                for pipeline, counts in self._counts.items()
            }
        )

    def load(self, data: bytes) -> None:
        """Continue where ``dump`` was taken."""
        stored = msgspec.msgpack.decode(data, type=dict[str, _SavedEdges])
        for pipeline, saved in stored.items():
            counts = np.frombuffer(saved.counts, dtype=np.int32).reshape(_HOURS, BINS)
            self._counts[pipeline] = counts.copy()
            if saved.learned is not None:
                self._learned[pipeline] = saved.learned

    def _stale(self, pipeline: str, counts: Ints) -> bool:
        learned = self._learned.get(pipeline)
        if learned is None:
            return True
        shares = [float(share_above(counts, edge)) for edge in learned[:2]]
        return not all(
            low <= share <= high for share, (low, high) in zip(shares, _USABLE, strict=True)
        )
