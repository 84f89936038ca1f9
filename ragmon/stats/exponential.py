"""Exponential buckets of latencies, as native histograms and OTLP have them.

The bucket of index i holds the latencies in (2^((i-1)/32), 2^(i/32)] seconds, so one is 2.2 % wide,
as near as powers of two come to the 2 % of ``ragmon.stats.latency``. A quantile read from it is off
by less than 2.2 %, by at most 1.1 % at the geometric middle of its bucket. Each latency is counted
by its own value: nothing is converted from the other histogram. One within rounding of a bound may
fall on either side of it.
"""

import numpy as np
from numpy.typing import NDArray

SCHEMA = 5
"""Each power of two has 2^5 buckets."""

ZERO_S = 2.0**-14
"""Latencies up to this, 61 µs, are counted as zero."""

LONGEST_S = 2.0**13
"""Longer ones, over two hours, are counted in the last bucket."""

FIRST = -14 * 2**SCHEMA + 1
"""Index of the first bucket."""

SIZE = 1 + (13 + 14) * 2**SCHEMA
"""Counters of a histogram: zero, then the buckets."""

_PER_OCTAVE = 2.0**SCHEMA


def places(values_s: NDArray[np.float64]) -> NDArray[np.intp]:
    """The counter of each latency: 0 for zero, 1 for the first bucket; of the same shape.

    Args:
        values_s: seconds; not NaN, which has none.
    """
    inside = np.log2(np.clip(values_s, ZERO_S, LONGEST_S))
    inside *= _PER_OCTAVE
    np.ceil(inside, out=inside)
    counters: NDArray[np.intp] = inside.astype(np.intp) - (FIRST - 1)
    return counters


def from_classic(counts: NDArray[np.int64], edges_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Histograms of which only classic buckets are known: each at its upper bound.

    So a store of an earlier release goes on with the same number of observations.

    Args:
        counts: shape (..., len(edges_s) + 1), the last bin is +Inf.
        edges_s: upper bounds.

    Returns:
        Shape (..., SIZE).
    """
    spread = np.zeros((*counts.shape[:-1], SIZE), dtype=np.int64)
    for at, place in enumerate(places(np.append(edges_s, edges_s[-1] * 2.0))):
        spread[..., place] += counts[..., at]
    return spread
