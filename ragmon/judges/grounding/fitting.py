"""Calibration of the embedded judge from answers whose truth is known, or the reason for none.

A calibration is taken only where it can be trusted: from enough answers of both kinds, where the
score follows the truth, and where it does not read answers that it was not fitted to worse than
the shipped reading does. ``marking`` finds the score from which answers are marked grounded.
Pure: no clock, no store.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragmon.judges import grounding
from ragmon.judges.grounding import Calibration
from ragmon.stats.precision_bound import PrecisionBound, precision_bound

Floats = NDArray[np.float64]

Refusal = Literal["few", "one_kind", "unrelated", "no_gain"]

LEAST = 50
"""Examples from which on a calibration is tried."""

_LEAST_WORTH = 20.0  # equally weighted examples that the weights are worth
_LEAST_OF_A_KIND = 5  # faithful, and unfaithful
_LEAST_T = 1.0  # of the correlation of score and truth
_MOST_Z = 1.0  # standard errors by which held-out answers may be read worse
_FOLDS = 5
_EDGE = 1e-6


class CalibrationExample(NamedTuple):
    """One answer whose truth is known."""

    score: float  # of the embedded judge, uncalibrated
    truth: float
    weight: float
    traits: tuple[float, ...]
    sequence: int = 0  # of the record


def fit(
    examples: Sequence[CalibrationExample], judge: str, unfaithful_below: float
) -> Calibration | Refusal:
    """The calibration fitted to examples, or the reason why none can be trusted.

    It doubts as large a share of the examples as have a truth below the limit: what is counted as
    unfaithful by the embedded judge then compares with what the LLM judge or a person counts. The
    threshold of best balanced accuracy would doubt one answer in five where one in twenty is bad.

    Args:
        examples: at least ``LEAST``.
        judge: version of the artefact that gave the scores.
        unfaithful_below: truth from which on an answer is faithful.
    """
    score, truth, weight = (np.array(each) for each in list(zip(*examples, strict=True))[:3])
    worth = _worth(weight)
    bad = truth < unfaithful_below
    if worth < _LEAST_WORTH:
        return "few"
    if min(bad.sum(), (~bad).sum()) < _LEAST_OF_A_KIND:
        return "one_kind"
    if not _is_related(score, truth, weight):
        return "unrelated"
    if _is_worse(examples, judge):
        return "no_gain"
    fitted = _calibrated(examples, judge)
    read = _read(fitted, examples)
    share = (worth * float(weight @ bad) / float(weight.sum()) + 0.5) / (worth + 1.0)
    return replace(fitted, threshold=_cut(read, weight, share))


def marking(
    examples: Sequence[CalibrationExample], unfaithful_below: float
) -> PrecisionBound | None:
    """The uncalibrated score from which answers are marked grounded; None: none are.

    Of the answers marked, at least nine in ten are faithful, with 95 % confidence.

    Args:
        examples: of people, of equal weight.
        unfaithful_below: truth from which on an answer is faithful.
    """
    return precision_bound(
        [example.score for example in examples],
        [example.truth >= unfaithful_below for example in examples],
    )


def _worth(weight: Floats) -> float:
    """Effective sample size (Kish): equally weighted examples with as much information."""
    return float(weight.sum() ** 2 / (weight @ weight))


def _is_related(score: Floats, truth: Floats, weight: Floats) -> bool:
    """True if the truth surely rises with the score's log odds (t of the correlation)."""
    s = np.clip(score, _EDGE, 1.0 - _EDGE)
    x, y = np.log(s / (1.0 - s)), truth
    (xx, xy), (_, yy) = np.cov(x, y, aweights=weight)
    if xx * yy <= 0.0:
        return False
    r = float(np.clip(xy / np.sqrt(xx * yy), -1.0 + _EDGE, 1.0 - _EDGE))
    t = r * ((_worth(weight) - 2.0) / (1.0 - r * r)) ** 0.5
    return bool(t >= _LEAST_T)


def _is_worse(examples: Sequence[CalibrationExample], judge: str) -> bool:
    """True if examples that a calibration was not fitted to are read worse than as shipped.

    By more than the standard error of the difference of squared errors: a calibration drawn to the
    shipped one costs little where it is needless, and to refuse one that helps costs more.
    """
    ranked = sorted(examples, key=lambda example: example.score)
    losses: list[float] = []
    for fold in range(_FOLDS):
        validation = ranked[fold::_FOLDS]
        training = [example for at, example in enumerate(ranked) if at % _FOLDS != fold]
        read = _read(_calibrated(training, judge), validation)
        losses += [
            example.weight * ((value - example.truth) ** 2 - (example.score - example.truth) ** 2)
            for example, value in zip(validation, read.tolist(), strict=True)
        ]
    worse = np.array(losses)
    margin = _MOST_Z * float(worse.std()) * len(worse) ** 0.5
    return float(worse.sum()) >= margin and bool(worse.any())


def _calibrated(examples: Sequence[CalibrationExample], judge: str) -> Calibration:
    return grounding.calibrate(
        [example.score for example in examples],
        [example.truth for example in examples],
        [example.weight for example in examples],
        traits=[example.traits for example in examples],
        judge_version=judge,
    )


def _read(calibration: Calibration, examples: Sequence[CalibrationExample]) -> Floats:
    return np.array(
        [grounding.apply(calibration, example.score, example.traits) for example in examples]
    )


def _cut(read: Floats, weight: Floats, share: float) -> float:
    """The score below which nearest to that share of the weight lies; ties stay together."""
    value, at = np.unique(read, return_inverse=True)
    below = np.append(0.0, np.cumsum(np.bincount(at, weight))) / weight.sum()
    nearest = int(np.abs(below - share).argmin())
    between = np.concatenate([[value[0]], (value[:-1] + value[1:]) / 2.0, [1.0]])
    return float(between[nearest])
