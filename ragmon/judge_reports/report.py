"""Report on the judges, as ``GET /v1/judges/report`` answers it."""

from typing import Literal

import msgspec
from msgspec import Struct

from ragmon.report import AgreementEstimate, LabelAgreement, MeanEstimate

JudgeKind = Literal["embedded", "local", "llm", "custom"]
Assessment = Literal["good", "biased", "no_better_than_chance", "few_labels"]


class RocCurvePoint(Struct, frozen=True, kw_only=True):
    """One threshold: answers with a score up to it are flagged."""

    threshold: float | None  # null: nothing is flagged
    false_positive_rate: float  # of the answers that people call good, those flagged
    true_positive_rate: float  # of those that people call bad, those flagged


class RocFigures(Struct, frozen=True, kw_only=True):
    """Power of a judge's score to tell good answers from bad ones."""

    good: int  # answers by the labels of people, from 0.5 on
    bad: int
    auroc: AgreementEstimate  # 1: told apart perfectly, 0.5: not at all; null without both kinds
    points: list[RocCurvePoint]


class CalibrationBinFigures(Struct, frozen=True, kw_only=True):
    """Answers with like scores."""

    answers: int
    mean_score: float  # of the judge
    mean_label: float  # of people
    lower: float | None  # 95 % interval of the mean label
    upper: float | None


class CalibrationErrorFigures(Struct, frozen=True, kw_only=True):
    """Distance of a judge's score from the share that people call good."""

    expected_error: float  # mean distance of the two over the bins
    by_chance: float  # what a perfect judge would show with so few labels
    bins: list[CalibrationBinFigures]


class GroundedMarks(Struct, frozen=True, kw_only=True):
    """Answers marked grounded, of which at least the promised share is good."""

    promised: float  # least share of good answers among those marked
    confidence: float  # of the promise, over sets of labels
    provable_from: float | None  # score from which these labels prove it; null: from none
    provable: int  # labelled answers with that score or a higher one
    marked: int  # labelled answers that were marked before their label came
    good: AgreementEstimate  # share of these that people call good


class SliceAgreement(Struct, frozen=True, kw_only=True):
    """Agreement with people in one slice."""

    pipeline: str
    dimension: str  # empty: the whole pipeline
    value: str
    agreement: LabelAgreement
    bias: AgreementEstimate  # mean of score minus label


class JudgeDrift(Struct, frozen=True, kw_only=True):
    """Change of a judge's bias: the newer half of the labelled answers against the older."""

    split_at: float  # unix seconds
    before: AgreementEstimate  # bias
    after: AgreementEstimate
    change: AgreementEstimate
    is_more_than_chance: bool


class JudgeCost(Struct, frozen=True, kw_only=True):
    """Cost of 1,000 judged answers, measured since this process began."""

    answers: int  # that were judged, failures included
    dollars: float | None  # null: no price is known, or the judge costs none
    prompt_tokens: float | None
    completion_tokens: float | None
    cpu_seconds: float | None  # of this host; null: it judges elsewhere


class JudgeFigures(Struct, frozen=True, kw_only=True):
    """One judge."""

    judge: str
    kind: JudgeKind
    assessment: Assessment
    text: str  # the assessment, in one sentence
    labels: int  # answers that it scored and people labelled
    versions: list[str]  # of the judge, in those answers, the newest first
    agreement: LabelAgreement
    bias: AgreementEstimate  # mean of score minus label; above 0 the judge is too kind
    roc: RocFigures
    calibration: CalibrationErrorFigures | None  # null without labels
    marks: GroundedMarks
    slices: list[SliceAgreement]  # those with the most labels first
    drift: JudgeDrift | None  # null: too few labels
    anchor_drift: float | None  # mean change on fixed answers; null: none are judged
    cost: JudgeCost | None  # null: it judged nothing since this process began


class JudgePair(Struct, frozen=True, kw_only=True):
    """Two judges of faithfulness on the answers that both scored."""

    one: str
    other: str
    answers: int
    disagree: MeanEstimate  # share of them that one calls good and the other bad
    mean_distance: float  # of their scores


class JudgeDisagreement(Struct, frozen=True, kw_only=True):
    """An answer on which judges are at odds."""

    query_id: str
    pipeline: str
    version: str
    timestamp: float  # unix seconds
    scores: dict[str, float]  # by judge
    label: float | None  # of people; null: nobody labelled it
    distance: float  # of the highest and the lowest score


class JudgeReport(Struct, frozen=True, kw_only=True):
    """Judges of a stretch of time, and which of them to trust for what."""

    start: float = msgspec.field(name="from")  # unix seconds, as is the next
    to: float
    pipeline: str  # empty: all
    labelled: int  # answers that people called faithful or not
    left_out: int  # labelled answers beyond the newest that fit into memory
    trust: str  # whom to trust for what, in one sentence
    judges: list[JudgeFigures]
    pairs: list[JudgePair]
    disagreements: list[JudgeDisagreement]  # the largest first
