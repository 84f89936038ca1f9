"""Cumulative sums behind the Prometheus counters and histograms; they only grow.

Records that are restated gain what ``ragmon.windows.batch_rows.restated`` says.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import latency
from ragmon.stats import exponential
from ragmon.windows.fine_histograms import FineHistograms
from ragmon.windows.row_layout import RowLayout

LATENCY_EDGES_MS = np.array(
    [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000], float
)
SCORE_EDGES = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 50, 100])
STAGES = len(latency.STAGES)


def rebin(counts: NDArray[np.int64], edges_ms: Sequence[float]) -> NDArray[np.int64]:
    """Histograms that were counted with other edges, over those of now.

    A value below one of the old edges stays below it.

    Args:
        counts: shape (..., len(edges_ms) + 1), the last bin is +Inf.
        edges_ms: in force then.

    Returns:
        Shape (..., len(LATENCY_EDGES_MS) + 1).
    """
    rebinned = np.zeros((*counts.shape[:-1], len(LATENCY_EDGES_MS) + 1), dtype=np.int64)
    for at, edge in enumerate((*edges_ms, np.inf)):
        rebinned[..., np.searchsorted(LATENCY_EDGES_MS, edge)] += counts[..., at]
    return rebinned


class TotalsCopy(Struct, frozen=True):
    """Totals as they were at one moment."""

    rows: NDArray[np.float64]  # (series, width)
    sampled: NDArray[np.float64]  # (series, scores, 2)
    places: dict[int, int]  # of the series that have histograms, in these:
    latency: NDArray[np.int64]  # (places, STAGES, edges + 1)
    fine: NDArray[np.int64]  # (places, STAGES, exponential.SIZE)
    score: NDArray[np.int64]  # (places, edges + 1)


class Totals:
    """Cumulative rows of each series, and histograms.

    The last bin of a classic one is +Inf; ``fine`` has the buckets of ``stats.exponential``.

    Args:
        capacity: series.
        layout: of their rows.
        scores: of the sampled judge.
    """

    def __init__(self, capacity: int, layout: RowLayout, scores: int) -> None:
        self.rows = np.zeros((capacity, layout.width))
        self.sums = self.rows[:, layout.sum]  # a view, (capacity, columns)
        self.queries = self.rows[:, layout.queries]  # a view, (capacity,)
        self.sampled = np.zeros((capacity, scores, 2))  # weights of the scored answers; times score
        self.latency = np.zeros((capacity, STAGES, len(LATENCY_EDGES_MS) + 1), dtype=np.int64)
        self.fine = FineHistograms(capacity, STAGES)
        self.score = np.zeros((capacity, len(SCORE_EDGES) + 1), dtype=np.int64)

    def observe(
        self, series: NDArray[np.int64], latency_ms: NDArray[np.float64], score: NDArray[np.float64]
    ) -> None:
        """Count n records, each in the histograms of one series.

        Args:
            series: (n,) series numbers.
            latency_ms: (n, STAGES); NaN is not counted.
            score: (n,); NaN is not counted.
        """
        for stage in range(STAGES):
            known = ~np.isnan(latency_ms[:, stage])
            values, of_series = latency_ms[known, stage], series[known]
            bins = np.searchsorted(LATENCY_EDGES_MS, values)
            np.add.at(self.latency[:, stage], (of_series, bins), 1)
            self.fine.add(of_series, stage, exponential.places(values / 1000))
        known = ~np.isnan(score)
        np.add.at(self.score, (series[known], np.searchsorted(SCORE_EDGES, score[known])), 1)

    def copy(self, count: int, with_histograms: Sequence[int]) -> TotalsCopy:
        """Totals of the first ``count`` series, and the histograms of some of them."""
        places = {number: place for place, number in enumerate(with_histograms)}
        at = np.array(with_histograms, dtype=np.intp)
        return TotalsCopy(
            self.rows[:count].copy(),
            self.sampled[:count].copy(),
            places,
            self.latency[at],
            self.fine.of(at),
            self.score[at],
        )

    def clear(self, series: list[int]) -> None:
        """Forget some series."""
        self.rows[series] = 0.0
        self.sampled[series] = 0.0
        self.latency[series] = 0
        self.fine.clear(series)
        self.score[series] = 0
