"""From sums to numbers with their uncertainty: what a window says, for every series at once."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.signals import Column
from ragmon.stats.intervals import (
    effective_n_weighted,
    mean_interval,
    unbounded_mean_interval,
    wilson_cc,
)
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
    _weigh_grounding(mean, lower, upper, merged.rows, columns)
    latency = quantiles(merged.latency, QUANTILES)
    return Estimates(mean, lower, upper, n, merged.rows[:, -1], latency)


def _weigh_grounding(
    mean: Floats, lower: Floats, upper: Floats, rows: Floats, columns: Sequence[Column]
) -> None:
    """Replace the plain mean grounding by that of all answers, drawn or not (Hajek's estimate).

    The same numbers when every answer was judged.
    """
    position = {(column.name, column.labels): at for at, column in enumerate(columns)}
    w, wy, wwy = (position["grounding_moment", (("of", of),)] for of in ("w", "wy", "wwy"))
    count = len(columns)
    n, sum_w, sum_ww = rows[:, w], rows[:, count + w], rows[:, 2 * count + w]
    judged = n > 0
    n, sum_w, sum_ww = n[judged], sum_w[judged], sum_ww[judged]
    sum_wy, sum_wwyy = rows[judged, count + wy], rows[judged, 2 * count + wy]
    center = np.clip(sum_wy / sum_w, 0.0, 1.0)
    spread = sum_wwyy - 2.0 * center * rows[judged, count + wwy] + center**2 * sum_ww
    variance = np.maximum(spread, 0.0) / sum_w**2
    n_effective = effective_n_weighted(n, sum_w**2 / sum_ww, center, variance)
    low, high = wilson_cc(center, n_effective)
    for at in (position["grounding", ()], position["faithfulness", (("judge", "grounding"),)]):
        mean[judged, at], lower[judged, at], upper[judged, at] = center, low, high
