"""Statistics of paired scores: intervals and tests for the same cases under two systems.

Everything takes its random generator as an argument, so that the same data give the same verdict.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from math import comb, lgamma, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.stats.intervals import Interval, mean_interval

Floats = NDArray[np.float64]

RESAMPLES = 10_000
_EXACT_UP_TO = 14  # differing cases: 2^14 sign patterns are fewer than the random ones
_CELLS = 4_000_000  # of a resampling matrix held at a time
_MOST_CELLS = 400_000_000  # of all resamples; larger sets are resampled less often
_NORMAL = NormalDist()


class Tails(NamedTuple):
    """p-values of a mean difference against 0, by column."""

    lower: Floats  # that it is as low as seen or lower, if the systems were equal
    upper: Floats  # as high or higher

    @property
    def two_sided(self) -> Floats:
        """That it is as far from 0."""
        return np.minimum(1.0, 2.0 * np.minimum(self.lower, self.upper))


def paired_permutation(
    differences: Floats, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Tails:
    """Sign-flip test of mean differences: exact for few differing cases, else by random signs.

    Args:
        differences: shape (n, columns); NaN where a case is not known under both systems.
        rng: draws the signs, the same for all columns.
        resamples: random sign patterns; the smallest p-value is 1 / (resamples + 1).

    Source: Fisher (1935), The Design of Experiments, 21; Smucker, Allan & Carterette (2007), CIKM.
    """
    known = np.nan_to_num(differences)
    moving = (known != 0.0).any(axis=1)
    known = known[moving]
    seen = known.sum(axis=0)
    slack = 1e-9 * np.abs(known).sum(axis=0)  # sums in another order differ in the last bits
    counts = np.zeros((2, known.shape[1]))
    total = 0
    for signs in _signs(len(known), rng, resamples):
        sums = signs @ known
        counts += (sums <= seen + slack).sum(axis=0), (sums >= seen - slack).sum(axis=0)
        total += len(signs)
    if len(known) <= _EXACT_UP_TO:
        return Tails(counts[0] / total, counts[1] / total)
    return Tails((counts[0] + 1) / (total + 1), (counts[1] + 1) / (total + 1))


def mcnemar(lost: int, won: int) -> tuple[float, float]:
    """Exact McNemar test of paired yes-or-no outcomes, each tail by itself.

    Args:
        lost: cases that were hits and are no longer.
        won: cases that became hits.

    Returns:
        (p that losses are this many or more if both were as likely, the same of wins).

    Source: McNemar (1947), Psychometrika 12:153-157; the binomial form.
    """
    return _binomial_tail(lost, lost + won), _binomial_tail(won, lost + won)


class PairedOutcomes(Struct, frozen=True):
    """Cases that passed or failed under two systems, with an exact one-sided test of a fall."""

    worse: int  # cases that passed and fail now
    better: int
    fall: float  # in the share that passes
    p_value: float  # of a fall at least this large if nothing had changed
    provable: float  # the smallest fall that these cases could show at the level ``alpha``


def compare_outcomes(
    before: Sequence[bool], after: Sequence[bool], alpha: float = 0.05
) -> PairedOutcomes:
    """McNemar test of the same cases under two systems.

    Args:
        before: True for each case that passed in the baseline run.
        after: the same cases now.
        alpha: level of the test.

    Raises:
        ValueError: not the same cases, or none.
    """
    if len(before) != len(after) or not before:
        raise ValueError("a paired comparison needs the same cases, at least one")
    pairs = list(zip(before, after, strict=True))
    worse = sum(was and not now for was, now in pairs)
    better = sum(now and not was for was, now in pairs)
    needed = next(lost for lost in count(1) if mcnemar(lost, better)[0] <= alpha)
    return PairedOutcomes(
        worse,
        better,
        fall=(worse - better) / len(pairs),
        p_value=mcnemar(worse, better)[0],
        provable=max(needed - better, 0) / len(pairs),
    )


def bca_intervals(
    values: Floats,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    bounded: bool | NDArray[np.bool_] = True,
) -> Interval:
    """Bias-corrected and accelerated bootstrap intervals of column means.

    Args:
        values: shape (n, columns); NaN where unknown.
        rng: draws the resamples, the same for all columns.
        level: of confidence.
        resamples: bootstrap samples.
        bounded: columns whose values lie in [0, 1]. Where all of them are equal there is nothing
            to resample; such a column gets the monitor's own interval instead.

    Returns:
        Each of shape (columns,); NaN without observations, and bounds NaN below two.

    Source: Efron (1987), JASA 82:171-185. The acceleration of a mean has a closed form.
    """
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    filled = np.where(known, values, 0.0)
    mean = np.full(values.shape[1], np.nan)
    np.divide(filled.sum(axis=0), n, out=mean, where=n > 0)
    means = np.sort(_resampled_means(filled, known, mean, rng, resamples), axis=0)
    lower, upper = np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    for at in np.flatnonzero(n >= 2):
        column = values[known[:, at], at]
        lower[at], upper[at] = _bca(column, means[:, at], level)
    flat = (n >= 1) & (_spread(values, known) == 0.0) & bounded
    plain = mean_interval(n, filled.sum(axis=0), np.square(filled).sum(axis=0), binary=False)
    return Interval(mean, np.where(flat, plain.lower, lower), np.where(flat, plain.upper, upper))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that keep the chance of any false finding below the level.

    Source: Holm (1979), Scandinavian Journal of Statistics 6:65-70.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for place, at in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def provable_drop(differences: Floats, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest fall that a one-sided test over this many such cases finds four times in five.

    Args:
        differences: paired, shape (n,), without NaN; their spread is taken as it is.
        alpha: of the test.
        power: chance of finding it.

    Returns:
        NaN below two cases.
    """
    if len(differences) < 2:
        return float("nan")
    error = float(differences.std(ddof=1)) / sqrt(len(differences))
    return (_NORMAL.inv_cdf(1.0 - alpha) + _NORMAL.inv_cdf(power)) * error


def _signs(n: int, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    """Patterns of ±1, some rows of n at a time: all there are, or random ones."""
    if n <= _EXACT_UP_TO:
        yield _plus_minus(np.arange(2**n)[:, None] >> np.arange(n) & 1)
        return
    for rows in _steps(n, resamples):
        bits = np.frombuffer(rng.bytes(-(-rows * n // 8)), dtype=np.uint8)
        yield _plus_minus(np.unpackbits(bits)[: rows * n].reshape(rows, n))


def _plus_minus(bits: NDArray[np.integer]) -> Floats:
    return bits.astype(np.float64) * 2.0 - 1.0


def _resampled_means(
    filled: Floats,
    known: NDArray[np.bool_],
    mean: Floats,
    rng: np.random.Generator,
    resamples: int,
) -> Floats:
    """Means of bootstrap samples of the rows, shape (resamples, columns)."""
    n = len(filled)
    parts = [np.zeros((0, filled.shape[1]))]
    for rows in _steps(n, resamples):
        drawn = rng.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        sizes = times @ known.astype(np.float64)
        means = np.tile(mean, (rows, 1))  # stays where a sample drew no known value
        parts.append(np.divide(times @ filled, sizes, out=means, where=sizes > 0))
    return np.concatenate(parts)


def _steps(n: int, resamples: int) -> Iterator[int]:
    """Sizes of the steps that make the resamples of n cases, bounded in memory."""
    left = min(resamples, max(1_000, _MOST_CELLS // max(n, 1))) if n else 0
    while left > 0:
        step = min(left, max(1, _CELLS // n))
        yield step
        left -= step


def _bca(column: Floats, means: Floats, level: float) -> tuple[float, float]:
    """Bounds of one mean from its values and its sorted bootstrap means."""
    deviations = column - column.mean()
    squares = float(np.square(deviations).sum())
    if squares == 0.0:
        return float(column[0]), float(column[0])
    acceleration = float((deviations**3).sum()) / (6.0 * squares**1.5)
    # Equal means differ in their last bits; of a tie, half counts as below.
    slack = 1e-9 * float(np.ptp(column))
    below, up_to = np.searchsorted(means, [column.mean() - slack, column.mean() + slack])
    half = 0.5 / len(means)
    share = np.clip(half * (below + up_to), half, 1.0 - half)
    bias = _NORMAL.inv_cdf(float(share))

    def corrected(probability: float) -> float:
        z = bias + _NORMAL.inv_cdf(probability)
        return _NORMAL.cdf(bias + z / max(1.0 - acceleration * z, 1e-3))

    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, [corrected(tail), corrected(1.0 - tail)])
    return float(low), float(high)


def _spread(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Largest minus smallest known value of each column."""
    highest = np.where(known, values, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(known, values, np.inf).min(axis=0, initial=np.inf)
    return np.where(known.any(axis=0), highest - lowest, np.inf)


def _binomial_tail(at_least: int, n: int) -> float:
    """P(X >= at_least) of n fair coins."""
    if n < 1_000:
        ways = sum(comb(n, each) for each in range(at_least, n + 1))
        return ways / (1 << n)
    logs = np.array([_log_ways(n, each) for each in range(at_least, n + 1)])
    return min(1.0, float(np.exp(logs - n * log(2.0)).sum()))


def _log_ways(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
