"""The mean of a judged score over all answers, from the few that were judged.

Every answer has a cheap proxy score f (the embedded judge); a sample, drawn with known
probabilities π, has the judge's score y too. Weighting by 1/π makes the sample speak for all,
and the proxy, known everywhere, says how far this sample happens to lie off: its bias cancels,
whatever it is worth, because it enters as a difference to itself.

Everything is computed from sums that add up over answers, buckets, replicas and restatements:
``shared_rows`` (once an answer) and ``scored_rows`` (once an answer and score) give one answer's
part in them. To restate an answer, subtract its old rows and add the new ones.

Hájek's form is used, which divides by the estimated and not the known number of answers: the
steadier one. Some judged answers have no score (an answer without claims is neither faithful nor
not), so the target is the mean over answers that have one. With z = d(y - R), where d says
whether there is a score and R is the weighted mean of y:

    estimate = R + λ (mean of f over all - weighted mean of f over the judged) / weighted mean of d
    λ        = weighted cov(z, f) / var(f), within [0, 1]; 0 below ``LEAST_FOR_PROXY`` scores

Sources: Särndal, Swensson and Wretman (1992), Model Assisted Survey Sampling, ch. 5-6; Robins,
Rotnitzky and Zhao (1994), JASA 89:846-866; Angelopoulos, Duchi and Zrnic (2023), PPI++.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragmon.stats.intervals import Z95, student_quantile

Floats = NDArray[np.float64]

SHARED = (
    "answers",  # N: all that could have been judged
    "proxy",  # Σf over them
    "judged",  # verdicts, with or without a score
    "failed",  # drawn, but the judge gave no verdict
    "failed_weight",  # Σ1/π over those
    "weight",  # w = 1/π; from here on over the judged
    "weight_f",
    "weight_ff",
    "design",  # k = (1 - π)/π², what one draw adds to the variance
    "design_f",
    "design_ff",
)
"""Sums that all scores of one judge have in common."""

SCORED = (
    "scored",  # verdicts with a score
    "weight",  # from here on over the scored
    "weight_y",
    "weight_yy",
    "weight_f",
    "weight_yf",
    "design",
    "design_y",
    "design_yy",
    "design_f",
    "design_yf",
)
"""Sums of one score."""

LEAST_FOR_PROXY = 30
"""Below so many scores the proxy is not used: its slope would be noise."""

CHOSEN_BY_HAND = 2.0**-10
"""The probability to assume for labels that were not drawn: equal weights, from many answers."""

_PRIOR = 5.0  # scores' worth of trust in the variance of a coin drawn with these weights
_NORMAL_FROM = 100.0  # effective scores from which Student's quantile is not needed
_CORRECTED_TO, _UNCORRECTED_FROM = 50.0, 100.0  # scores; see ``_wilson``
_LEAST_VARIANCE = 1e-6  # of a proxy that says something
_RELATION_PRIOR = 50.0  # scores' worth of doubt in what the proxy knows


class Estimate(NamedTuple):
    """Estimates of any one shape; NaN where nothing was scored."""

    mean: Floats
    lower: Floats  # 95 % interval
    upper: Floats
    samples: Floats  # scores, exactly
    variance: Floats  # of the mean
    proxy_weight: Floats  # λ: how much of the proxy was used
    failure_share: Floats  # of the drawn answers those without a verdict, weighted


def shared_rows(
    proxy: ArrayLike, probability: ArrayLike, judged: ArrayLike, failed: ArrayLike = False
) -> Floats:
    """Answers as addable rows over ``SHARED``.

    Args:
        proxy: f in [0, 1], shape (n,); for an answer without one any fixed number, such as the
            usual score, as long as it does not depend on the verdict.
        probability: π in (0, 1] as it was when the answer was drawn or not, shape (n,).
        judged: whether there is a verdict, shape (n,).
        failed: whether the answer was drawn and will never have a verdict, shape (n,).

    Returns:
        Shape (n, len(SHARED)).

    Raises:
        ValueError: a probability or a proxy lies outside its range.
    """
    f, p = _checked(proxy, probability)
    j, x = np.broadcast_arrays(np.asarray(judged, dtype=float), np.asarray(failed, dtype=float), f)[
        :2
    ]
    w, k = j / p, j * (1.0 - p) / (p * p)
    columns = (np.ones_like(f), f, j, x, x / p, w, w * f, w * f * f, k, k * f, k * f * f)
    return np.stack(columns, axis=-1)


def scored_rows(proxy: ArrayLike, probability: ArrayLike, score: ArrayLike) -> Floats:
    """Answers as addable rows over ``SCORED``.

    Args:
        proxy: as in ``shared_rows``.
        probability: as in ``shared_rows``.
        score: y in [0, 1], NaN where there is no verdict or no score; shape (n,).

    Returns:
        Shape (n, len(SCORED)); all zero where there is no score.

    Raises:
        ValueError: a value lies outside its range.
    """
    f, p = _checked(proxy, probability)
    y = np.asarray(score, dtype=np.float64)
    d = ~np.isnan(y)
    y = np.where(d, y, 0.0)
    if not np.all((y >= 0.0) & (y <= 1.0)):
        raise ValueError("scores lie in [0, 1]")
    w, k = d / p, d * (1.0 - p) / (p * p)
    yy, yf = y * y, y * f
    columns = (d * 1.0, w, w * y, w * yy, w * f, w * yf, k, k * y, k * yy, k * f, k * yf)
    return np.stack(columns, axis=-1)


def estimate(
    shared: Floats, scored: Floats, *, rho: float = 1.0, population: Estimate | None = None
) -> Estimate:
    """Means with 95 % intervals for one look, from sums of any leading shape.

    Args:
        shared: sums over ``SHARED``, shape (..., len(SHARED)).
        scored: sums over ``SCORED``, shape (..., len(SCORED)).
        rho: 0 asks about the very answers of this window, 1 about the process behind them, as
            every other ratio of ragmon does.
        population: where the proxy's mean over all answers is itself an estimate: with human
            labels as y and the judge's score as proxy, what ``estimate`` says of the judge.

    Returns:
        Shape (...); a failure share of s leaves 1 - s of the effective sample, since what f does
        not explain of the failures is not known.
    """
    s = _EstimateSums(shared, scored)
    rho = 0.0 if population else rho  # ``population`` has counted that part already
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 is the unknown made NaN below
        at = _moments(s)
        target, extra = _population(s, population)
        lam = np.where((s.m >= LEAST_FOR_PROXY) & ~np.isnan(target), at.slope, 0.0)
        used = lam > 0.0
        shift = np.where(used, lam * (target - at.f) / at.share, 0.0)
        mean = np.clip(at.y + shift, 0.0, 1.0)
        variance = _variance(s, at, lam, rho)
        variance = variance + np.where(used, np.square(lam / at.share) * extra, 0.0)
        lost = np.nan_to_num(s.failed_weight / (s.failed_weight + s.w))
        n = _effective(s, mean, variance, rho) * (1.0 - lost)
        lower, upper = _bounds(s, mean, n)
    known = s.m > 0.5  # what restatements leave behind is not exactly zero, except in counts
    mean, variance, lower, upper = (
        np.where(known, value, np.nan) for value in (mean, variance, lower, upper)
    )
    return Estimate(mean, lower, upper, s.m, variance, np.where(known, lam, 0.0), lost)


class Relation(NamedTuple):
    """Relation of the judge's score to the proxy so far: y is about score + slope (f - proxy)."""

    score: float = 0.5
    proxy: float = 0.5
    slope: float = 0.0  # at least 0; 0: the proxy knows nothing, or nothing is known of it


def relation(shared: Floats, scored: Floats) -> Relation:
    """The relation that a pipeline's own verdicts show, cautiously.

    The slope starts at 0 and approaches the one seen as verdicts come in, so that a useless
    proxy never steers the sampling.

    Args:
        shared: sums over ``SHARED``, shape (len(SHARED),).
        scored: sums over ``SCORED``, shape (len(SCORED),).
    """
    s = _EstimateSums(shared, scored)
    if s.m < LEAST_FOR_PROXY:
        return Relation()
    variance_f = float(s.wff / s.w - (s.wf / s.w) ** 2)
    if variance_f < _LEAST_VARIANCE:
        return Relation(float(s.wy / s.wd), float(s.wf / s.w))
    slope = float((s.wyf - s.wy / s.wd * s.wdf) / s.wd) / variance_f
    trust = float(s.kish / (s.kish + _RELATION_PRIOR))
    return Relation(float(s.wy / s.wd), float(s.wf / s.w), max(slope, 0.0) * trust)


def doubt(proxy: ArrayLike, known: Relation) -> Floats:
    """Chance that each answer is bad, in [0.01, 0.99]: what sampling goes by; any shape."""
    f = np.asarray(proxy, dtype=np.float64)
    chance: Floats = np.clip(1.0 - known.score - known.slope * (f - known.proxy), 0.01, 0.99)
    return chance


class _EstimateSums:
    """The columns by name."""

    def __init__(self, shared: Floats, scored: Floats) -> None:
        self.answers, self.sum_f = shared[..., 0], shared[..., 1]
        self.failed_weight = shared[..., 4]
        self.w, self.wf, self.wff, self.k, self.kf, self.kff = np.moveaxis(shared[..., 5:], -1, 0)
        self.m, self.wd, self.wy, self.wyy, self.wdf, self.wyf = np.moveaxis(scored[..., :6], -1, 0)
        self.kd, self.ky, self.kyy, self.kdf, self.kyf = np.moveaxis(scored[..., 6:], -1, 0)

    @property
    def kish(self) -> Floats:
        """Equally weighted scores that the weights are worth; Σw² is Σk + Σw."""
        worth: Floats = self.wd * self.wd / (self.kd + self.wd)
        return worth


class _Moments(NamedTuple):
    y: Floats  # weighted mean of y over the scored
    variance_y: Floats
    f: Floats  # weighted mean of f over the judged
    share: Floats  # of the judged, those with a score; weighted
    slope: Floats  # of z on f, within [0, 1]


def _moments(s: _EstimateSums) -> _Moments:
    y, f = s.wy / s.wd, s.wf / s.w
    variance_f = s.wff / s.w - f * f
    covariance = (s.wyf - y * s.wdf) / s.w
    slope = np.where(variance_f > _LEAST_VARIANCE, covariance / variance_f, 0.0)
    return _Moments(
        y=y,
        variance_y=np.maximum(s.wyy / s.wd - y * y, 0.0),
        f=f,
        share=s.wd / s.w,
        slope=np.clip(np.nan_to_num(slope), 0.0, 1.0),
    )


def _population(s: _EstimateSums, known: Estimate | None) -> tuple[Floats, Floats]:
    """(mean of the proxy over all answers, variance of that mean)."""
    if known is None:
        return s.sum_f / s.answers, np.zeros_like(s.answers)
    return known.mean, known.variance


def _variance(s: _EstimateSums, at: _Moments, lam: Floats, rho: float) -> Floats:
    """Of the estimate: that of drawing, and with rho that of the answers themselves."""
    zz = s.kyy - 2.0 * at.y * s.ky + at.y * at.y * s.kd
    zf = s.kyf - at.f * s.ky - at.y * s.kdf + at.y * at.f * s.kd
    ff = s.kff - 2.0 * at.f * s.kf + at.f * at.f * s.k
    squares = np.maximum(zz - 2.0 * lam * zf + lam * lam * ff, 0.0) / np.square(s.wd)
    fitted = 1.0 + (lam > 0.0)  # the mean, and the slope
    sampling = squares * np.where(s.m > fitted, s.m / np.maximum(s.m - fitted, 1.0), 1.0)
    total: Floats = sampling + rho * at.variance_y / np.maximum(s.answers * at.share, s.m)
    return total


def _effective(s: _EstimateSums, mean: Floats, variance: Floats, rho: float) -> Floats:
    """Coins that would know the mean as well; few scores cannot claim to be much better."""
    weighting = s.m * s.kd / np.square(s.wd) + rho * s.m / np.maximum(s.answers * s.wd / s.w, s.m)
    coin = mean * (1.0 - mean)
    ratio = np.where(coin > 0.0, variance * s.m / np.maximum(coin, 1e-12), weighting)
    steadied = _PRIOR * weighting + np.maximum(s.m - 1.0, 0.0) * ratio
    n: Floats = s.m * (_PRIOR - 1.0 + s.m) / np.maximum(steadied, 1e-9)
    return n


def _bounds(s: _EstimateSums, mean: Floats, n: Floats) -> tuple[Floats, Floats]:
    kish = s.kish
    few = np.maximum(np.where(kish >= 1.0, kish, 1.0) - 1.0, 1.0)
    z = np.where(kish < _NORMAL_FROM, student_quantile(few), Z95)
    fading = (_UNCORRECTED_FROM - s.m) / (_UNCORRECTED_FROM - _CORRECTED_TO)
    correction = np.clip(fading, 0.0, 1.0)
    lower, upper = _wilson(mean, n, z, correction), _wilson(1.0 - mean, n, z, correction)
    return lower, 1.0 - upper


def _wilson(p: Floats, n: Floats, z: Floats, correction: Floats) -> Floats:
    """Lower Wilson bound with a share of the continuity correction; NaN where n is not positive.

    The whole correction is due where p moves in steps of 1/n. Here the number drawn is random and
    weights differ, so that many scores are smooth and would be covered too often with it; for few
    it makes up for the skewness. Simulated coverage in ``tests/benchmarks/bench_judged.py``.
    """
    size = np.where(n > 0.0, n, np.nan)
    at = np.clip(p - correction / (2.0 * size), 0.0, 1.0)
    zz = z * z
    root = z * np.sqrt(zz + 4.0 * size * at * (1.0 - at))
    lower = (2.0 * size * at + zz - root) / (2.0 * (size + zz))
    return np.where(2.0 * size * p <= correction, 0.0 * size, np.clip(lower, 0.0, p))


def _checked(proxy: ArrayLike, probability: ArrayLike) -> tuple[Floats, Floats]:
    f = np.asarray(proxy, dtype=np.float64)
    p = np.asarray(probability, dtype=np.float64)
    if not np.all((p > 0.0) & (p <= 1.0)):
        raise ValueError("inclusion probabilities lie in (0, 1]")
    if not np.all((f >= 0.0) & (f <= 1.0)):
        raise ValueError("proxies lie in [0, 1]")
    return np.broadcast_arrays(f, p)[0], np.broadcast_arrays(f, p)[1]
