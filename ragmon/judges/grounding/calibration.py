"""Fit of the score to one pipeline from its own labels: 50 to 100 human labels or LLM verdicts.

The shipped score assumes that half of all answers are supported. A calibration turns it into
the chance of being supported here, and sets the threshold. With few labels it stays close to
the shipped one: the slope is drawn to 1, traits to 0, the threshold to the shipped threshold.

Traits (``Grounding.traits``) let a pipeline learn what holds only there, such as that long
answers are worse. They are used when cross-validation finds them better.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.judges.grounding.model import logistic

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Kind = Literal["shipped", "platt", "traits", "isotonic"]

LEAST_LABELS = 20
LEAST_LABELS_ISOTONIC = 200
_FOLDS = 20
_SLOPE_PRECISION = 4.0  # prior: slope 1 +- 0.5
_INTERCEPT_PRECISION = 1.0 / 9.0  # intercept 0 +- 3
_TRAIT_PRECISION = 20.0  # each standardised trait 0 +- 0.22
_THRESHOLD_PRIOR = 50.0  # labels' worth of trust in the shipped threshold
_ISOTONIC_PRIOR = 50.0
_GAIN = 0.01  # nats a label by which a richer kind must win
_EDGE = 1e-6


class Calibration(Struct, frozen=True):
    """Map from the score to a probability of support in one pipeline; stored by msgspec.

    log odds = slope * logit(score) + traits . trait_weights + intercept,
    then ``apply`` interpolates (log odds, probability) between ``points`` if there are any.
    """

    kind: Kind
    judge_version: str  # of the artefact whose scores it was fitted to
    labels: int  # effective number
    threshold: float  # calibrated scores below are doubted
    slope: float = 1.0
    intercept: float = 0.0
    trait_weights: tuple[float, ...] = ()
    points: tuple[tuple[float, float], ...] = ()  # ascending in both


class _Fit(Struct, frozen=True):
    """Coefficients (slope, intercept, trait weights) and the isotonic points upon them."""

    coefficients: Vector
    points: Matrix | None = None  # shape (m, 2)


def calibrate(
    scores: Sequence[float],
    labels: Sequence[float],
    weights: Sequence[float] | None = None,
    *,
    traits: Sequence[Sequence[float]] | None = None,
    judge_version: str = "",
) -> Calibration:
    """Fit to labelled answers of one pipeline; the best of four kinds by cross-validation.

    Args:
        scores: of the judge, in [0, 1], shape (n,).
        labels: 1 supported, 0 not, or a verdict in between, shape (n,).
        weights: inverse inclusion probabilities, any positive scale; equal when left out.
        traits: ``Grounding.traits`` of the same answers, shape (n, k).
        judge_version: of the judge that gave the scores.

    Returns:
        The shipped reading (kind "shipped") for fewer than ``LEAST_LABELS`` effective labels
        or labels that are all the same.

    Raises:
        ValueError: lengths differ, or a value is outside its range.
    """
    x, y, w = _checked(scores, labels, weights)
    t = np.zeros((len(x), 0)) if traits is None else np.asarray(traits, dtype=np.float64)
    if len(t) != len(x):
        raise ValueError(f"{len(t)} rows of traits for {len(x)} scores")
    effective = float(w.sum() ** 2 / max(_EDGE, (w @ w)))
    if effective < LEAST_LABELS or y.min() == y.max():
        return Calibration("shipped", judge_version, round(effective), 0.5)
    w = w * effective / w.sum()
    kind, fitted = _best_fit(x, y, w, t)
    return _calibration(kind, fitted, judge_version, effective, _threshold(fitted, y, w, t))


def apply(calibration: Calibration, score: float, traits: Sequence[float] = ()) -> float:
    """The chance in [0, 1] that an answer is supported, in this pipeline.

    Raises:
        ValueError: the calibration uses traits and their number differs.
    """
    odds = calibration.slope * _logit(score) + calibration.intercept
    if calibration.trait_weights:
        odds += sum(a * b for a, b in zip(calibration.trait_weights, traits, strict=True))
    if calibration.points:
        at, probability = zip(*calibration.points, strict=True)
        return float(np.interp(odds, at, probability))
    return logistic(odds)


def _checked(
    scores: Sequence[float], labels: Sequence[float], weights: Sequence[float] | None
) -> tuple[Vector, Vector, Vector]:
    """(log odds, labels, weights), each of shape (n,)."""
    s = np.asarray(scores, dtype=np.float64)
    y = np.asarray(labels, dtype=np.float64)
    w = np.ones(len(s)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(s) == len(y) == len(w):
        raise ValueError(f"{len(s)} scores, {len(y)} labels and {len(w)} weights")
    if not (np.all((s >= 0) & (s <= 1)) and np.all((y >= 0) & (y <= 1))):
        raise ValueError("scores and labels lie in [0, 1]")
    if not (np.all(np.isfinite(w)) and np.all(w > 0)):
        raise ValueError("weights are positive and finite")
    s = np.clip(s, _EDGE, 1 - _EDGE)
    return np.log(s / (1 - s)), y, w


def _logit(score: float) -> float:
    s = min(max(score, _EDGE), 1 - _EDGE)
    return float(np.log(s / (1 - s)))


def _best_fit(x: Vector, y: Vector, w: Vector, t: Matrix) -> tuple[Kind, _Fit]:
    """The simplest kind that no richer one beats by ``_GAIN``."""
    kinds: dict[Kind, Callable[[Vector, Vector, Vector, Matrix], _Fit]] = {"platt": _platt}
    if t.shape[1]:
        kinds["traits"] = _traits
    if len(x) >= LEAST_LABELS_ISOTONIC:
        kinds["isotonic"] = _isotonic
    best: Kind = "platt"
    least = float("inf")
    for kind, fit in kinds.items():
        loss = _held_out_loss(fit, x, y, w, t)
        if loss < least - (_GAIN if kind != "platt" else 0.0):
            best, least = kind, loss
    return best, kinds[best](x, y, w, t)


def _held_out_loss(
    fit: Callable[[Vector, Vector, Vector, Matrix], _Fit],
    x: Vector,
    y: Vector,
    w: Vector,
    t: Matrix,
) -> float:
    """Log loss in nats; folds are every ``_FOLDS``-th answer in order of the score."""
    fold = np.empty(len(x), dtype=int)
    fold[np.argsort(x, kind="stable")] = np.arange(len(x)) % min(_FOLDS, len(x))
    total = 0.0
    for out in range(fold.max() + 1):
        training, validation = fold != out, fold == out
        p = _probability(
            fit(x[training], y[training], w[training], t[training]), x[validation], t[validation]
        )
        p = np.clip(p, _EDGE, 1 - _EDGE)
        truth = y[validation]
        total -= float(w[validation] @ (truth * np.log(p) + (1 - truth) * np.log(1 - p)))
    return total / float(w.sum())


def _platt(x: Vector, y: Vector, w: Vector, t: Matrix) -> _Fit:
    coefficients = _penalised_logistic(np.column_stack([x, np.ones(len(x))]), y, w)
    return _Fit(np.append(coefficients, np.zeros(t.shape[1])))


def _traits(x: Vector, y: Vector, w: Vector, t: Matrix) -> _Fit:
    mean, spread = t.mean(axis=0), t.std(axis=0) + _EDGE
    z = (t - mean) / spread
    b = _penalised_logistic(np.column_stack([x, np.ones(len(x)), z]), y, w)
    raw = b[2:] / spread
    return _Fit(np.concatenate([[b[0], b[1] - raw @ mean], raw]))


def _isotonic(x: Vector, y: Vector, w: Vector, t: Matrix) -> _Fit:
    """Pool adjacent violators over Platt's odds, drawn to Platt by ``_ISOTONIC_PRIOR`` labels."""
    platt = _platt(x, y, w, t)
    odds = platt.coefficients[0] * x + platt.coefficients[1]
    order = np.argsort(odds, kind="stable")
    prior = _ISOTONIC_PRIOR / len(x)
    target = (y + prior / (1.0 + np.exp(-odds))) / (1.0 + prior)
    blocks: list[tuple[float, float, float]] = []  # (weight, mean odds, mean target)
    for i in order:
        block = (float(w[i]), float(odds[i]), float(target[i]))
        while blocks and blocks[-1][2] >= block[2]:
            block = _pooled(blocks.pop(), block)
        blocks.append(block)
    return _Fit(platt.coefficients, np.array([block[1:] for block in blocks]))


def _pooled(
    a: tuple[float, float, float], b: tuple[float, float, float]
) -> tuple[float, float, float]:
    weight = a[0] + b[0]
    return weight, (a[0] * a[1] + b[0] * b[1]) / weight, (a[0] * a[2] + b[0] * b[2]) / weight


def _penalised_logistic(z: Matrix, y: Vector, w: Vector) -> Vector:
    """Newton's method for the posterior mode; columns are (log odds, 1, standardised traits)."""
    k = z.shape[1]
    centre = np.append([1.0, 0.0], np.zeros(k - 2))
    precision = np.append(
        [_SLOPE_PRECISION, _INTERCEPT_PRECISION], np.full(k - 2, _TRAIT_PRECISION)
    )
    b = centre
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(z @ b, -50, 50)))
        gradient = z.T @ (w * (p - y)) + precision * (b - centre)
        hessian = (z * (w * p * (1 - p))[:, None]).T @ z + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        b = b - step / max(1.0, float(np.abs(step).max()))  # at most 1, so that it cannot escape
        if np.abs(step).max() < 1e-9:
            break
    b[0] = max(b[0], 0.05)  # never upside down, whatever a few labels say
    return b


def _probability(fitted: _Fit, x: Vector, t: Matrix) -> Vector:
    b = fitted.coefficients
    odds: Vector = b[0] * x + b[1] + t @ b[2:]
    if fitted.points is not None:
        return np.interp(odds, *fitted.points.T)
    probability: Vector = 1.0 / (1.0 + np.exp(-odds))
    return probability


def _threshold(fitted: _Fit, y: Vector, w: Vector, t: Matrix) -> float:
    """Cut of best balanced accuracy if the fit is true (the share supported), drawn to 0.5.

    On draws of 50 labels this beats the best cut seen by 0.01 of balanced accuracy.
    """
    share = float(np.clip(w @ y / w.sum(), 0.01, 0.99))
    n = float(w.sum())
    shipped = float(fitted.coefficients[1] + t.mean(axis=0) @ fitted.coefficients[2:])
    odds = (n * _logit(share) + _THRESHOLD_PRIOR * shipped) / (n + _THRESHOLD_PRIOR)
    if fitted.points is not None:
        return float(np.interp(odds, fitted.points[:, 0], fitted.points[:, 1]))
    return logistic(odds)


def _calibration(
    kind: Kind, fitted: _Fit, judge_version: str, labels: float, threshold: float
) -> Calibration:
    slope, intercept, *traits = fitted.coefficients.tolist()
    points = () if fitted.points is None else tuple(map(tuple, fitted.points.tolist()))
    return Calibration(
        kind=kind,
        judge_version=judge_version,
        labels=round(labels),
        threshold=threshold,
        slope=slope,
        intercept=intercept,
        trait_weights=tuple(traits) if kind == "traits" else (),
        points=points,
    )
