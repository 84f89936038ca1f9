"""Confidence intervals for one look at a window; alerts must not be built on them.

Ratios get Wilson's interval with continuity correction at an *effective* sample size: the
number of plain 0/1 observations that would know the mean equally well. Its coverage at a
nominal 95 % stays above 94.8 % down to five observations, where plain Wilson, Agresti-Coull
and Jeffreys fall to 83 to 90 %.

Unknown is NaN here, and an absent series when it is exposed: without observations a mean has
no value and no bounds.
"""

import math
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z95 = 1.959963984540054
"""Normal quantile of a two-sided 95 % interval."""

_PRIOR = 20.0  # pseudo-observations with binary variance that steady the estimated design effect

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """Estimates with their bounds, all of one shape; NaN where unknown."""

    mean: Floats
    lower: Floats
    upper: Floats


@overload
def wilson_cc(mean: float, n_effective: float, z: float | Floats = Z95) -> tuple[float, float]: ...
@overload
def wilson_cc(
    mean: Floats, n_effective: ArrayLike, z: float | Floats = Z95
) -> tuple[Floats, Floats]: ...
def wilson_cc(
    mean: float | Floats, n_effective: ArrayLike, z: float | Floats = Z95
) -> tuple[float | Floats, float | Floats]:
    """Continuity-corrected Wilson interval; everything broadcasts.

    Args:
        mean: estimated ratio in [0, 1].
        n_effective: effective observations, any positive number; 0 gives NaN.
        z: normal quantile, or a Student quantile for few weighted observations.

    Returns:
        (lower, upper) with 0 <= lower <= mean <= upper <= 1; floats when all three are scalars.

    Source: Newcombe (1998), Statistics in Medicine 17:857-872, method 4.
    """
    if isinstance(mean, float) and isinstance(n_effective, int | float) and isinstance(z, float):
        return _lower_scalar(mean, n_effective, z), 1.0 - _lower_scalar(1.0 - mean, n_effective, z)
    p, n, quantile = (np.asarray(value, dtype=np.float64) for value in (mean, n_effective, z))
    return _lower(p, n, quantile), 1.0 - _lower(1.0 - p, n, quantile)


def effective_n_fraction(n: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Floats:
    """Effective size of n observations in [0, 1] that need not be 0 or 1.

    The design effect is their variance over that of a coin with the same mean, drawn towards 1
    by ``_PRIOR`` pseudo-observations; 0/1 data give n exactly.

    Args:
        n: observations; 0 gives 0.
        mean: their mean, in [0, 1].
        variance: their variance with divisor n.
    """
    n, mean, variance = _floats(n, mean, variance)
    ratio = _ratio(variance, mean * (1.0 - mean), otherwise=1.0)
    return n * (_PRIOR - 1.0 + n) / (_PRIOR + np.maximum(n - 1.0, 0.0) * ratio)


def effective_n_weighted(
    n: ArrayLike, kish: ArrayLike, mean: ArrayLike, variance_of_mean: ArrayLike
) -> Floats:
    """Effective size of n observations with unequal weights, as of a risk-sampled judge.

    Args:
        n: observations.
        kish: (Σw)² / Σw², at most n.
        mean: weighted mean, in [0, 1].
        variance_of_mean: Hajek's Σw²(x - mean)² / (Σw)².

    Source: Kish (1965), Survey Sampling; Hajek (1971), Foundations of Statistical Inference.
    """
    n, kish, mean, variance_of_mean = _floats(n, kish, mean, variance_of_mean)
    weighting = _ratio(n, kish, otherwise=1.0)
    ratio = _ratio(variance_of_mean * n, mean * (1.0 - mean), otherwise=weighting)
    return n * (_PRIOR - 1.0 + n) / (_PRIOR * weighting + np.maximum(n - 1.0, 0.0) * ratio)


def mean_interval(
    n: ArrayLike, sum_x: ArrayLike, sum_xx: ArrayLike, *, binary: bool | NDArray[np.bool_]
) -> Interval:
    """Interval of means of observations in [0, 1], from moments of any one shape.

    Args:
        n: observations; NaN comes back where it is 0.
        sum_x: Σx.
        sum_xx: Σx².
        binary: whether every observation is 0 or 1; Σx² is then not looked at.
    """
    n, sum_x, sum_xx = _floats(n, sum_x, sum_xx)
    mean = np.clip(_ratio(sum_x, n), 0.0, 1.0)
    variance = np.maximum(_ratio(sum_xx, n) - mean * mean, 0.0)
    n_effective = np.where(binary, n, effective_n_fraction(n, mean, variance))
    lower, upper = wilson_cc(mean, n_effective)
    return Interval(mean, lower, upper)


def unbounded_mean_interval(
    n: ArrayLike, sum_x: ArrayLike, sum_xx: ArrayLike, z: float = Z95
) -> Interval:
    """Student's interval of means without known limits, such as a latency, from moments.

    Bounds are NaN below two observations. They are not clipped: the lower one may be negative.
    """
    n, sum_x, sum_xx = _floats(n, sum_x, sum_xx)
    mean = _ratio(sum_x, n)
    variance = np.maximum(_ratio(sum_xx - n * mean * mean, n - 1.0), 0.0)
    margin = student_quantile(n - 1.0, z) * np.sqrt(_ratio(variance, n))
    margin = np.where(n >= 2.0, margin, np.nan)
    return Interval(mean, mean - margin, mean + margin)


def student_quantile(degrees: ArrayLike, z: float = Z95) -> Floats:
    """Student quantile with the tail of the normal quantile z; NaN below one degree.

    Exact at one and two degrees of freedom (also used for the fractions above them), then at
    most 1.2 % too wide at 95 %, never too narrow.

    Source: Wallace (1959), Annals of Mathematical Statistics 30:1121-1130.
    """
    degrees = np.asarray(degrees, dtype=np.float64)
    tails = math.erfc(z / math.sqrt(2.0))
    many = np.maximum(degrees, 3.0)
    wallace = np.sqrt(many * np.expm1(np.square(z * (8 * many + 3) / (8 * many + 1)) / many))
    one, two = 1.0 / math.tan(math.pi * tails / 2), math.sqrt(2.0 / (tails * (2.0 - tails)) - 2.0)
    return np.select([degrees >= 3.0, degrees >= 2.0, degrees >= 1.0], [wallace, two, one], np.nan)


def _lower(p: Floats, n: Floats, z: Floats) -> Floats:
    """Lower Wilson bound.

    Where p is within the correction 1/2n of zero nothing can be excluded below it: that is the
    whole case p = 0 of whole counts, and keeps the root real for n < 1.
    """
    zz = z * z
    root = np.sqrt(np.maximum(zz - 2.0 - _ratio(1.0, n) + 4.0 * p * (n * (1.0 - p) + 1.0), 0.0))
    lower = (2.0 * n * p + zz - 1.0 - z * root) / (2.0 * (n + zz))
    lower = np.where(2.0 * n * p <= 1.0, 0.0, np.clip(lower, 0.0, p))
    return np.where((n > 0.0) & ~np.isnan(p), lower, np.nan)


def _lower_scalar(p: float, n: float, z: float) -> float:
    """``_lower`` of plain floats, some twenty times faster."""
    if not n > 0.0 or math.isnan(p):
        return math.nan
    if 2.0 * n * p <= 1.0:
        return 0.0
    zz = z * z
    root = math.sqrt(zz - 2.0 - 1.0 / n + 4.0 * p * (n * (1.0 - p) + 1.0))
    return min(max((2.0 * n * p + zz - 1.0 - z * root) / (2.0 * (n + zz)), 0.0), p)


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _ratio(numerator: ArrayLike, denominator: ArrayLike, otherwise: ArrayLike = np.nan) -> Floats:
    """Quotients, ``otherwise`` where the denominator is not positive."""
    above, below = np.broadcast_arrays(*_floats(numerator, denominator))
    out = np.array(np.broadcast_to(otherwise, above.shape), dtype=np.float64)
    np.divide(above, below, out=out, where=below > 0.0)
    return out
