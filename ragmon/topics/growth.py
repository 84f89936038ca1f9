"""Topics that grow: the last of equal parts of the time, against those before.

Shares of topics scatter from day to day by more than chance draws them, so the scatter of the
parts before tells how much more is usual.
"""

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.stats.discoveries import FALSE_DISCOVERIES, false_discovery_rates
from ragmon.stats.intervals import Z95

PARTS = 7
"""Of the time; with a week each is a day."""
GROWN = 1.5
"""Times its former share from which on a topic counts as growing."""
_LEAST_PARTS = 3  # with queries, before the last
_LEAST_QUERIES = 20.0  # of a topic in the last part
_LEAST_TOTAL = 50.0  # of all topics in a part
_POOLED = 20.0  # degrees of freedom that the scatter of all topics counts for in each

Floats = NDArray[np.float64]


class TopicGrowth(Struct, frozen=True, kw_only=True):
    """Share of a topic in the last seventh of the time, over that in the six before."""

    ratio: float
    lower: float  # 95 % interval
    upper: float
    false_discovery_rate: float  # at which it is a finding
    is_growing: bool  # half as much again or more, and a finding at 5 %


def growths(queries: Floats, totals: Floats) -> list[TopicGrowth | None]:
    """The growth of each topic; None where too little was asked to tell.

    Args:
        queries: by topic and part of the time; shape (topics, PARTS).
        totals: of all topics, and of none; shape (PARTS,).

    Source: ratio of rates with a variance beyond Poisson's by the method of moments, Breslow
    (1984), Applied Statistics 33:38-44; that of a topic is shrunk to that of all.
    """
    used = totals[:-1] >= _LEAST_TOTAL
    if used.sum() < _LEAST_PARTS or totals[-1] < _LEAST_TOTAL:
        return [None] * len(queries)
    before, total = queries[:, :-1][:, used], totals[:-1][used]
    scatter = _scatter(before, total)
    last, former = queries[:, -1] + 0.5, before.sum(axis=1) + 0.5
    ratios = (last / (totals[-1] + 1.0)) / (former / (total.sum() + 1.0))
    error = np.sqrt(1.0 / last + 1.0 / former + scatter * (1.0 + 1.0 / len(total)))
    # The scatter of the last part by what was expected and by what was seen: by the latter alone a
    # small topic's chance high would seem sure.
    by_chance = np.sqrt(ratios / last + 1.0 / former + scatter * (1.0 + 1.0 / len(total)))
    score = np.abs(np.log(ratios)) / np.maximum(error, by_chance**0.5 * error**0.5)
    tested = queries[:, -1] >= _LEAST_QUERIES
    p_values = [
        math.erfc(one / math.sqrt(2.0)) if is_tested else math.nan
        for one, is_tested in zip(score.tolist(), tested.tolist(), strict=True)
    ]
    rates = false_discovery_rates(p_values)
    width = np.exp(Z95 * error)
    return [
        None
        if math.isnan(rate)
        else TopicGrowth(
            ratio=float(ratios[at]),
            lower=float(ratios[at] / width[at]),
            upper=float(ratios[at] * width[at]),
            false_discovery_rate=rate,
            is_growing=bool(rate <= FALSE_DISCOVERIES and ratios[at] >= GROWN),
        )
        for at, rate in enumerate(rates.tolist())
    ]


def _scatter(before: Floats, total: Floats) -> Floats:
    """Variance of the logarithm of each topic's share from part to part, beyond chance."""
    parts = before.shape[1]
    expected = before.sum(axis=1, keepdims=True) * (total / total.sum())
    excess = (np.square(before - expected) * parts / (parts - 1) - expected).sum(axis=1)
    weights = np.square(expected).sum(axis=1)
    pooled = max(float(excess.sum()) / max(float(weights.sum()), 1e-9), 0.0)
    own = np.maximum(excess / np.maximum(weights, 1e-9), 0.0)
    own = np.where(expected.mean(axis=1) >= _LEAST_QUERIES, own, pooled)
    return np.asarray((own * (parts - 1) + pooled * _POOLED) / (parts - 1 + _POOLED))
