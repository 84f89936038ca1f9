"""Figures of one judge beside the labels of people."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.judge_reports.gathering import JudgeScore, LabelledAnswer
from ragmon.judge_reports.report import (
    CalibrationBinFigures,
    CalibrationErrorFigures,
    GroundedMarks,
    JudgeDrift,
    RocCurvePoint,
    RocFigures,
    SliceAgreement,
)
from ragmon.report import AgreementEstimate, LabelAgreement, known, label_agreement
from ragmon.stats.agreement import confusion_rows
from ragmon.stats.calibration_error import calibration_error
from ragmon.stats.differences import Interval95, difference
from ragmon.stats.intervals import unbounded_mean_interval, wilson_cc
from ragmon.stats.precision_bound import CONFIDENCE, PROMISED, precision_bound
from ragmon.stats.roc import auroc, curve

Floats = NDArray[np.float64]

_MOST_SLICES = 100
_LEAST_OF_A_HALF = 15  # labels, for drift


class LabelledScores(NamedTuple):
    """Answers that a judge scored and people labelled, the newest first; arrays of one length."""

    answers: Sequence[LabelledAnswer]
    score: Floats
    called: Floats  # 1 where the judge calls the answer good, else 0
    label: Floats
    versions: tuple[str, ...]  # of the judge, distinct
    judge: str

    @staticmethod
    def of(judge: str, answers: Sequence[LabelledAnswer]) -> "LabelledScores":
        """Those of a judge."""
        mine = [answer for answer in answers if judge in answer.labels]
        scores: list[JudgeScore] = [answer.scores[judge] for answer in mine]
        return LabelledScores(
            mine,
            np.array([score.score for score in scores], dtype=np.float64),
            np.array([score.is_good for score in scores], dtype=np.float64),
            np.array([answer.labels[judge] for answer in mine], dtype=np.float64),
            tuple(dict.fromkeys(score.version for score in scores if score.version)),
            judge,
        )

    def select(self, at: NDArray[np.intp]) -> "LabelledScores":
        """Some of the answers."""
        answers = [self.answers[place] for place in at.tolist()]
        return LabelledScores(
            answers, self.score[at], self.called[at], self.label[at], self.versions, self.judge
        )


def agreement_of(scores: LabelledScores) -> LabelAgreement:
    """Agreement of the judge's calls with those of people."""
    return label_agreement(confusion_rows(scores.called, scores.label).sum(axis=0))


def bias_of(scores: LabelledScores) -> Interval95:
    """Mean of score minus label with Student's interval; NaN below two answers."""
    distance = scores.score - scores.label
    if len(distance) < 2:
        return Interval95(np.nan, np.nan, np.nan)
    interval = unbounded_mean_interval(len(distance), distance.sum(), distance @ distance)
    return Interval95(float(interval.mean), float(interval.lower), float(interval.upper))


def shown(interval: Interval95) -> AgreementEstimate:
    """An interval as JSON holds it."""
    return AgreementEstimate(
        estimate=known(interval.value), lower=known(interval.lower), upper=known(interval.upper)
    )


def roc_of(scores: LabelledScores) -> RocFigures:
    """Ranking by the score of the answers that people call bad below those they call good."""
    is_good = scores.label >= 0.5
    return RocFigures(
        good=int(is_good.sum()),
        bad=int((~is_good).sum()),
        auroc=shown(auroc(scores.score, is_good)),
        points=[
            RocCurvePoint(
                threshold=point.threshold if np.isfinite(point.threshold) else None,
                false_positive_rate=point.false_positive_rate,
                true_positive_rate=point.true_positive_rate,
            )
            for point in curve(scores.score, is_good)
        ],
    )


def calibration_of(scores: LabelledScores) -> CalibrationErrorFigures | None:
    """Distance of the score from the share that people call good; None without labels."""
    error = calibration_error(scores.score, scores.label)
    if not error.bins:
        return None
    return CalibrationErrorFigures(
        expected_error=error.value,
        by_chance=error.by_chance,
        bins=[
            CalibrationBinFigures(
                answers=one.answers,
                mean_score=one.mean_score,
                mean_label=one.mean_truth,
                lower=known(one.lower),
                upper=known(one.upper),
            )
            for one in error.bins
        ],
    )


def marks_of(scores: LabelledScores) -> GroundedMarks:
    """The promise on answers marked grounded, and how those fared that were marked."""
    is_good = scores.label >= 0.5
    bound = precision_bound(scores.score, is_good)
    marked = np.array([answer.scores[scores.judge].is_marked for answer in scores.answers], bool)
    count, good = int(marked.sum()), int((marked & is_good).sum())
    return GroundedMarks(
        promised=PROMISED,
        confidence=CONFIDENCE,
        provable_from=None if bound is None else bound.floor,
        provable=0 if bound is None else bound.marked,
        marked=count,
        good=_share(good, count),
    )


def _share(hits: int, n: int) -> AgreementEstimate:
    if not n:
        return AgreementEstimate(estimate=None, lower=None, upper=None)
    lower, upper = wilson_cc(hits / n, n)
    return AgreementEstimate(estimate=hits / n, lower=lower, upper=upper)


def slices_of(scores: LabelledScores) -> list[SliceAgreement]:
    """Agreement in every pipeline, version and slice, those with the most labels first."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for at, answer in enumerate(scores.answers):
        pipeline, version, slices, _ = answer.place
        named = (("", ""), *((("version", version),) if version else ()), *slices)
        for dimension, value in named:
            places.setdefault((pipeline, dimension, value), []).append(at)
    largest = Counter({key: len(at) for key, at in places.items()}).most_common(_MOST_SLICES)
    return [
        SliceAgreement(
            pipeline=key[0],
            dimension=key[1],
            value=key[2],
            agreement=agreement_of(mine),
            bias=shown(bias_of(mine)),
        )
        for key, _ in largest
        for mine in (scores.select(np.array(places[key], dtype=np.intp)),)
    ]


def drift_of(scores: LabelledScores) -> JudgeDrift | None:
    """Change of the bias from the older half of the answers to the newer; None with too few."""
    times = np.array([answer.place.timestamp for answer in scores.answers], dtype=np.float64)
    if len(times) < 2 * _LEAST_OF_A_HALF:
        return None
    order = np.argsort(times, kind="stable")
    middle = len(order) // 2
    before, after = (bias_of(scores.select(half)) for half in (order[:middle], order[middle:]))
    change = difference(after, before)
    return JudgeDrift(
        split_at=float(times[order[middle]]),
        before=shown(before),
        after=shown(after),
        change=shown(Interval95(*change)),
        is_more_than_chance=change.is_more_than_chance,
    )
