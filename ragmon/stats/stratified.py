"""Rates with and without something, compared within strata of what is alike.

Many comparisons at once: each row is one stratum of one of them. A stratum where all or none have
it tells nothing, so it does not count; how hard a stratum is cancels out.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.stats.intervals import Z95

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_CLEAR = 1.5  # standard deviations from which on a tail is computed exactly
_LEAST_TERM = 1e-18  # of a tail, relative to its sum


class Strata(NamedTuple):
    """Rows, all of shape (rows,)."""

    comparison: Integers  # of each row
    n_with: Floats
    events_with: Floats
    n_without: Floats
    events_without: Floats


class StratifiedComparisons(NamedTuple):
    """A rate with minus the rate without, for each comparison; shape (comparisons,)."""

    difference: Floats  # NaN where no stratum has both
    lower: Floats  # 95 % interval
    upper: Floats
    p_value: Floats  # one-sided: of as many events or more, if it made no difference
    n_with: Floats  # in strata that have both
    n_without: Floats


def compare_strata(strata: Strata, comparisons: int) -> StratifiedComparisons:
    """Compare rates within strata.

    Args:
        strata: rows.
        comparisons: number of them; rows name them from 0.

    Source: Mantel and Haenszel (1959), JNCI 22:719-748; the interval is that of Sato (1989),
    Biometrics 45:1323-1324, which holds for few large and for many small strata. The tail is that
    of the binomial with the mean and variance of the sum of hypergeometrics.
    """
    n1, y1, n0, y0 = (np.asarray(part, dtype=np.float64) for part in strata[1:])
    total, events = n1 + n0, y1 + y0
    both = (n1 > 0.0) & (n0 > 0.0)
    n1, y1, n0, y0, total, events = (part[both] for part in (n1, y1, n0, y0, total, events))
    to = strata.comparison[both]

    def summed(rows: Floats) -> Floats:
        return np.bincount(to, rows, minlength=comparisons).astype(np.float64)

    weight = summed(n1 * n0 / total)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = summed((y1 * n0 - y0 * n1) / total) / weight
        first = summed((n1 * n1 * y0 - n0 * n0 * y1 + n1 * n0 * (n0 - n1) / 2) / total**2)
        second = summed((y1 * (n0 - y0) + y0 * (n1 - y1)) / (2 * total))
        margin = Z95 * np.sqrt(np.maximum(difference * first + second, 0.0)) / weight
    expected = summed(n1 * events / total)
    spread = n1 * n0 * events * (total - events) / (total**2 * np.maximum(total - 1.0, 1.0))
    p_values = _tails(summed(y1), expected, summed(spread))
    return StratifiedComparisons(
        difference,
        np.maximum(difference - margin, -1.0),
        np.minimum(difference + margin, 1.0),
        np.where(weight > 0.0, p_values, np.nan),
        summed(n1),
        summed(n0),
    )


def _tails(seen: Floats, expected: Floats, variance: Floats) -> Floats:
    """Chances of as many events as seen or more."""
    tails = np.ones(len(seen))
    for at in np.flatnonzero((variance > 0.0) & (seen > expected)):
        distance = (seen[at] - 0.5 - expected[at]) / math.sqrt(variance[at])
        if distance < _CLEAR:
            tails[at] = 0.5 * math.erfc(distance / math.sqrt(2.0))
        else:
            tails[at] = _matched_tail(float(seen[at]), float(expected[at]), float(variance[at]))
    return tails


def _matched_tail(seen: float, mean: float, variance: float) -> float:
    """Upper tail of the binomial with this mean and variance; its size need not be whole."""
    share = 1.0 - variance / mean
    if share <= 1e-6:
        return _poisson_tail(seen, mean)
    return upper_tail(seen, mean / share, share)


def upper_tail(at_least: float, n: float, share: float) -> float:
    """P(X >= at_least) of a binomial; ``n`` need not be whole.

    Args:
        at_least: events, above the mean.
        n: trials, any positive number.
        share: chance of each, in (0, 1).
    """
    if at_least > n:  # fewer trials than events: the last possible term is all there is
        at_least = math.floor(n)
    log_odds = math.log(share) - math.log1p(-share)
    log_term = (
        math.lgamma(n + 1.0)
        - math.lgamma(at_least + 1.0)
        - math.lgamma(n - at_least + 1.0)
        + at_least * math.log(share)
        + (n - at_least) * math.log1p(-share)
    )
    ratio, sum_of_ratios, events = 1.0, 1.0, at_least
    while events + 1.0 <= n and ratio > _LEAST_TERM * sum_of_ratios:
        ratio *= (n - events) / (events + 1.0) * math.exp(log_odds)
        events += 1.0
        sum_of_ratios += ratio
    return min(1.0, math.exp(log_term) * sum_of_ratios)


def _poisson_tail(at_least: float, mean: float) -> float:
    log_term = at_least * math.log(mean) - mean - math.lgamma(at_least + 1.0)
    ratio, sum_of_ratios, events = 1.0, 1.0, at_least
    while ratio > _LEAST_TERM * sum_of_ratios:
        events += 1.0
        ratio *= mean / events
        sum_of_ratios += ratio
    return min(1.0, math.exp(log_term) * sum_of_ratios)
