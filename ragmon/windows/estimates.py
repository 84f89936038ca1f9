"""From sums to numbers with their uncertainty: what a window says, for every series at once."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import Column
from ragmon.stats.intervals import mean_interval, unbounded_mean_interval
from ragmon.stats.latency import quantiles
from ragmon.windows import Merged

Floats = NDArray[np.float64]

QUANTILES = (0.5, 0.9, 0.95, 0.99)


class Estimates(Struct, frozen=True):
    """Shapes (series, columns) unless said otherwise; NaN where there are no samples."""

    mean: Floats
    lower: Floats  # 95 % interval
    upper: Floats
    samples: Floats
    queries: Floats  # (series,)
    latency_ms: Floats  # (series, stages, QUANTILES)


def estimate(merged: Merged, columns: Sequence[Column]) -> Estimates:
    """Means with 95 % intervals, and latency quantiles."""
    count = len(columns)
    n, x, xx = (merged.rows[:, part * count : (part + 1) * count] for part in range(3))
    kinds = np.array([column.kind for column in columns])
    bounded = kinds != "quantity"
    mean, lower, upper = (np.full(n.shape, np.nan) for _ in range(3))
    mean[:, bounded], lower[:, bounded], upper[:, bounded] = mean_interval(
        n[:, bounded], x[:, bounded], xx[:, bounded], binary=kinds[bounded] == "proportion"
    )
    mean[:, ~bounded], lower[:, ~bounded], upper[:, ~bounded] = unbounded_mean_interval(
        n[:, ~bounded], x[:, ~bounded], xx[:, ~bounded]
    )
    latency = quantiles(merged.latency, QUANTILES)
    return Estimates(mean, lower, upper, n, merged.rows[:, -1], latency)
