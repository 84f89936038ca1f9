"""A mergeable logarithmic histogram of latencies: quantiles within 1 % at any traffic.

Bin i of the middle holds [EDGES_MS[i - 1], EDGES_MS[i]), and each edge is ``GAMMA`` times the
one before. Bin 0 holds whatever is below 0.1 ms and the last bin whatever is above 600 s: both
are counted, but of their values only the edge is known. Histograms merge by addition.

After Masson, Rim and Lee (2019), DDSketch, PVLDB 12:2195-2205, with a fixed range.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

GAMMA = 1.0202  # (GAMMA - 1) / (GAMMA + 1) = 1 %, the largest error of a bin's middle
_LOWEST_MS = 0.1
_HIGHEST_MS = 600_000.0
_WIDTH = math.log(GAMMA)
_REGULAR = math.ceil(math.log(_HIGHEST_MS / _LOWEST_MS) / _WIDTH)

_AT_ONCE = 256  # histograms whose running sums are made together: 1.6 MB

BINS = _REGULAR + 2
"""Regular bins, one below and one above."""

EDGES_MS = np.array([_LOWEST_MS * GAMMA**index for index in range(_REGULAR + 1)])
"""Edges between the bins, milliseconds; shape (BINS - 1,)."""

# The harmonic mean of a bin's edges has the least relative error over the bin.
MIDDLES_MS = np.concatenate(
    [
        EDGES_MS[:1],
        2.0 * EDGES_MS[:-1] * EDGES_MS[1:] / (EDGES_MS[:-1] + EDGES_MS[1:]),
        EDGES_MS[-1:],
    ]
)
"""The value that stands for each bin, milliseconds; shape (BINS,)."""

Counts = NDArray[np.int64]


def bins(values_ms: NDArray[np.float64]) -> NDArray[np.intp]:
    """The bin of each latency; of the same shape.

    A value within rounding of an edge may fall on either side of it.

    Args:
        values_ms: milliseconds; not NaN, which has no bin.
    """
    # Half a bin beyond the edges at either end, so that the logarithm always exists.
    inside = np.clip(values_ms, _LOWEST_MS / math.sqrt(GAMMA), EDGES_MS[-1] * math.sqrt(GAMMA))
    np.log(inside, out=inside)
    inside *= 1.0 / _WIDTH
    inside += 1.0 - math.log(_LOWEST_MS) / _WIDTH
    return inside.astype(np.intp)  # all positive, so truncation is the floor


def count(values_ms: NDArray[np.float64]) -> Counts:
    """The histogram of some latencies; shape (BINS,)."""
    return np.bincount(bins(values_ms), minlength=BINS)


def quantiles(counts: NDArray[np.integer], qs: ArrayLike) -> NDArray[np.float64]:
    """Quantiles of histograms, within 1 % of the value at that rank (numpy's ``inverted_cdf``).

    Args:
        counts: shape (..., BINS).
        qs: quantiles in [0, 1]; shape (m,).

    Returns:
        Milliseconds, shape (..., m); NaN where nothing was counted. A quantile outside the
        range is its end, 0.1 ms or some 600 s.
    """
    q = np.asarray(qs, dtype=np.float64)
    rows = counts.reshape(-1, BINS)
    values = np.empty((len(rows), len(q)))
    for first in range(0, len(rows), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        values[some] = _quantiles(rows[some], q)
    return values.reshape(*counts.shape[:-1], len(q))


def _quantiles(rows: NDArray[np.integer], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles of some histograms (n, BINS), shape (n, m)."""
    # One running sum through all rows is sorted, so one search serves all of them.
    running = np.cumsum(rows, dtype=np.int64)
    ends = running[BINS - 1 :: BINS]
    totals = np.diff(ends, prepend=0)
    ranks = np.maximum(np.ceil(q * totals[:, None]), 1.0).astype(np.int64)
    places = np.searchsorted(running, (ends - totals)[:, None] + ranks)
    within = np.minimum(places - BINS * np.arange(len(rows))[:, None], BINS - 1)
    return np.where(totals[:, None] > 0, MIDDLES_MS[within], np.nan)


def nearest_edge(threshold_ms: float) -> int:
    """Index in ``EDGES_MS`` of the edge nearest to a threshold: within 1 % of it, in the range."""
    return int(np.abs(np.log(EDGES_MS / threshold_ms)).argmin())


def share_above(counts: NDArray[np.integer], edge: int) -> NDArray[np.float64]:
    """Exact share of the latencies at or above ``EDGES_MS[edge]``.

    Args:
        counts: shape (..., BINS).
        edge: index in ``EDGES_MS``.

    Returns:
        Shares, shape (...); NaN where nothing was counted.
    """
    totals = counts.sum(axis=-1)
    above = counts[..., edge + 1 :].sum(axis=-1)
    shares = np.full(totals.shape, np.nan)
    np.divide(above, totals, out=shares, where=totals > 0)
    return shares
