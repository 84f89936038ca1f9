"""The report on all judges, from gathered answers and what the judges cost."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragmon.judge_reports.advice import assess, sentence, trust
from ragmon.judge_reports.figures import (
    LabelledScores,
    agreement_of,
    bias_of,
    calibration_of,
    drift_of,
    marks_of,
    roc_of,
    shown,
    slices_of,
)
from ragmon.judge_reports.gathering import AnswerAtOdds, JudgedAnswers, PairSums
from ragmon.judge_reports.report import (
    JudgeCost,
    JudgeDisagreement,
    JudgeFigures,
    JudgeKind,
    JudgePair,
    JudgeReport,
)
from ragmon.report import MeanEstimate
from ragmon.stats.intervals import wilson_cc

MOST_VERSIONS = 20


class JudgeFacts(NamedTuple):
    """A judge that runs, or ran."""

    name: str
    kind: JudgeKind
    cost: JudgeCost | None = None
    anchor_drift: float | None = None


class ReportScope(NamedTuple):
    """The time and pipeline that a report is about."""

    since: float  # unix seconds
    until: float
    pipeline: str = ""  # empty: all
    limit: int = 10  # disagreements


def report_of(
    answers: JudgedAnswers, judges: Sequence[JudgeFacts], scope: ReportScope
) -> JudgeReport:
    """The report.

    Args:
        answers: gathered in that time.
        judges: to report on, in order.
        scope: of the report.
    """
    figures = [_judge(facts, answers) for facts in judges]
    return JudgeReport(
        start=scope.since,
        to=scope.until,
        pipeline=scope.pipeline,
        labelled=len(answers.labelled),
        left_out=answers.left_out,
        trust=trust(figures),
        judges=figures,
        pairs=[_pair(names, sums) for names, sums in sorted(answers.pairs.items())],
        disagreements=[_at_odds(answer) for answer in answers.at_odds(scope.limit)],
    )


def cost_of(
    answers: float,
    *,
    dollars: float | None,
    tokens: Mapping[str, float],
    cpu_s: float | None,
) -> JudgeCost | None:
    """Cost of 1,000 answers; None where none was judged.

    Args:
        answers: judged.
        dollars: that they cost; None: unknown, or nothing.
        tokens: by ``prompt`` and ``completion``; empty where there are none.
        cpu_s: seconds that judging them took here; None: elsewhere.
    """
    if answers <= 0:
        return None
    prompt, completion = tokens.get("prompt"), tokens.get("completion")

    def per_thousand(value: float | None) -> float | None:
        return None if value is None else 1_000.0 * value / answers

    return JudgeCost(
        answers=round(answers),
        dollars=per_thousand(dollars),
        prompt_tokens=per_thousand(prompt),
        completion_tokens=per_thousand(completion),
        cpu_seconds=per_thousand(cpu_s),
    )


def _judge(facts: JudgeFacts, answers: JudgedAnswers) -> JudgeFigures:
    scores = LabelledScores.of(facts.name, answers.labelled)
    roc, bias = roc_of(scores), shown(bias_of(scores))
    labels = len(scores.answers), roc.good, roc.bad
    assessment = assess(*labels, roc.auroc, bias)
    return JudgeFigures(
        judge=facts.name,
        kind=facts.kind,
        assessment=assessment,
        text=sentence(assessment, facts.kind, labels, roc.auroc, bias),
        labels=labels[0],
        versions=list(scores.versions[:MOST_VERSIONS]),
        agreement=agreement_of(scores),
        bias=bias,
        roc=roc,
        calibration=calibration_of(scores),
        marks=marks_of(scores),
        slices=slices_of(scores),
        drift=drift_of(scores),
        anchor_drift=facts.anchor_drift,
        cost=facts.cost,
    )


def _pair(names: tuple[str, str], sums: PairSums) -> JudgePair:
    share = sums.disagreed / sums.answers
    lower, upper = wilson_cc(share, sums.answers)
    return JudgePair(
        one=names[0],
        other=names[1],
        answers=sums.answers,
        disagree=MeanEstimate(estimate=share, lower=lower, upper=upper, samples=sums.answers),
        mean_distance=sums.distance / sums.answers,
    )


def _at_odds(answer: AnswerAtOdds) -> JudgeDisagreement:
    return JudgeDisagreement(
        query_id=answer.query_id,
        pipeline=answer.place.pipeline,
        version=answer.place.version,
        timestamp=answer.timestamp,
        scores=answer.scores,
        label=answer.label,
        distance=answer.distance,
    )
