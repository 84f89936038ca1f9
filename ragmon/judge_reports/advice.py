"""Sentences of the report: what a judge is worth, and which of them to trust for what."""

from collections.abc import Sequence

from ragmon.counts import counted
from ragmon.judge_reports.report import (
    Assessment,
    GroundedMarks,
    JudgeFigures,
    SliceAgreement,
)
from ragmon.report import AgreementEstimate

LEAST_LABELS = 30
"""Labelled answers from which on a judge is assessed."""

LEAST_OF_A_KIND = 5
"""Of these, answers that people call good, and answers that they call bad."""

_BIASED_FROM = 0.05  # mean distance from the labels that matters
_SINGLE_FROM = 0.75  # balanced accuracy, of the lower bound, to take a judge's word for one answer
_MOST_SLICES = 3  # that a sentence names

_NOBODY = "no judge"
_WORDS = {"embedded": "the embedded judge", "local": "the local model", "llm": "the language model"}


def assess(
    labels: int, good: int, bad: int, area: AgreementEstimate, bias: AgreementEstimate
) -> Assessment:
    """The assessment of a judge by labels.

    Args:
        labels: answers that it scored and people labelled.
        good: of them, those that people call good.
        bad: the others.
        area: under its ROC curve.
        bias: mean of score minus label.
    """
    if labels < LEAST_LABELS or min(good, bad) < LEAST_OF_A_KIND:
        return "few_labels"
    if area.lower is None or area.lower <= 0.5:
        return "no_better_than_chance"
    return "biased" if _is_biased(bias) else "good"


def sentence(
    assessment: Assessment,
    kind: str,
    labels: tuple[int, int, int],
    area: AgreementEstimate,
    bias: AgreementEstimate,
) -> str:
    """The assessment in one sentence.

    Args:
        assessment: of ``assess``.
        kind: of judge.
        labels: all, those that people call good, and those that they call bad.
        area: under its ROC curve.
        bias: mean of score minus label.
    """
    if assessment == "few_labels":
        return _few(kind, labels)
    ranking = f"AUROC {_interval(area, '.2f')}"
    if assessment == "no_better_than_chance":
        return f"It ranks answers no better than chance: {ranking}."
    if assessment == "good":
        return f"It ranks answers as people do ({ranking}) without a bias that matters."
    direction = "high" if (bias.estimate or 0.0) > 0.0 else "low"
    points = _points(bias)
    remedy = " Use its corrected mean." if kind in ("llm", "local") else ""
    return f"It ranks answers ({ranking}) but scores them {points} too {direction}.{remedy}"


def marks_sentence(marks: GroundedMarks) -> str:
    """The promise on answers marked grounded, in one sentence; empty where none can be made."""
    parts = []
    share, confidence = f"{100 * marks.promised:.0f} %", f"{100 * marks.confidence:.0f} %"
    if marks.provable_from is not None:
        parts.append(
            f"From a score of {marks.provable_from:.2f} on at least {share} are good, with "
            f"{confidence} confidence."
        )
    if marks.marked:
        parts.append(
            f"Of {counted(marks.marked, 'answer')} marked grounded before the label came "
            f"{_percent(marks.good)} good."
        )
    return " ".join(parts)


def trust(judges: Sequence[JudgeFigures]) -> str:
    """One sentence on which judges of faithfulness to trust for what."""
    judges = [judge for judge in judges if judge.kind != "custom"]
    assessed = [judge for judge in judges if judge.assessment != "few_labels"]
    if not assessed:
        return (
            f"No judge has enough labels to be trusted for anything: label at least {LEAST_LABELS} "
            f"judged answers, {LEAST_OF_A_KIND} of them bad and {LEAST_OF_A_KIND} good."
        )
    ranking = [judge for judge in assessed if judge.assessment != "no_better_than_chance"]
    if not ranking:
        named = _listed([name_of(judge) for judge in assessed])
        return f"Trust no judge: {named} told good answers from bad ones no better than chance."
    purposes: dict[str, list[str]] = {}  # by whom to trust for them
    for name, purpose in (_first_to_read(ranking), _mean(ranking), _single(ranking)):
        purposes.setdefault(name, []).append(purpose)
    parts = [f"trust {name} {_listed(texts)}" for name, texts in purposes.items()]
    chance = [judge for judge in assessed if judge.assessment == "no_better_than_chance"]
    if chance:
        parts.append(f"do not trust {_listed([name_of(judge) for judge in chance])} for anything")
    few = _slices_with_few(judges)
    if few:
        parts.append(f"no judge has enough labels for {_listed(few)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def name_of(judge: JudgeFigures) -> str:
    """A judge in words."""
    return _WORDS.get(judge.kind, judge.judge)


def _few(kind: str, labels: tuple[int, int, int]) -> str:
    total, good, bad = labels
    if kind == "custom" and not total:
        return "No label is about its score."
    return (
        f"{counted(total, 'label')}, {good} good and {bad} bad, of at least {LEAST_LABELS} with "
        f"{LEAST_OF_A_KIND} of each: too few to assess it."
    )


def _is_biased(bias: AgreementEstimate) -> bool:
    if bias.estimate is None or bias.lower is None or bias.upper is None:
        return False
    return abs(bias.estimate) >= _BIASED_FROM and not bias.lower <= 0.0 <= bias.upper


def _first_to_read(ranking: Sequence[JudgeFigures]) -> tuple[str, str]:
    best = max(ranking, key=lambda judge: judge.roc.auroc.estimate or 0.0)
    area = best.roc.auroc.estimate or 0.0
    return name_of(best), f"for which answers to read first (AUROC {area:.2f})"


def _mean(ranking: Sequence[JudgeFigures]) -> tuple[str, str]:
    fair = [judge for judge in ranking if judge.assessment == "good"]
    if fair:
        best = min(fair, key=lambda judge: abs(judge.bias.estimate or 0.0))
        return name_of(best), f"for the mean ({_points(best.bias)} off)"
    correctable = [judge for judge in ranking if judge.kind in ("llm", "local")]
    if correctable:
        best = max(correctable, key=lambda judge: judge.roc.auroc.estimate or 0.0)
        return name_of(best), "for the mean only as corrected by labels"
    return _NOBODY, "for the mean"


def _single(ranking: Sequence[JudgeFigures]) -> tuple[str, str]:
    lower = {judge.judge: judge.agreement.balanced_accuracy.lower or 0.0 for judge in ranking}
    best = max(ranking, key=lambda judge: lower[judge.judge])
    if lower[best.judge] < _SINGLE_FROM:
        return _NOBODY, "for single answers"
    share = best.agreement.balanced_accuracy.estimate or 0.0
    return name_of(best), f"for single answers ({100 * share:.0f} % right)"


def _slices_with_few(judges: Sequence[JudgeFigures]) -> list[str]:
    """Slices in which people labelled answers, but too few for any judge."""
    most: dict[tuple[str, str, str], int] = {}
    for judge in judges:
        for one in judge.slices:
            key = one.pipeline, one.dimension, one.value
            most[key] = max(most.get(key, 0), one.agreement.labels)
    several = len({pipeline for pipeline, _, _ in most}) > 1
    few = [key for key, labels in most.items() if labels < LEAST_LABELS]
    few = [key for key in few if key[1] or several]
    names = [_slice_name(key, several) for key in few[:_MOST_SLICES]]
    more = len(few) - len(names)
    return [*names, f"{more} more"] if more else names


def slice_name(one: SliceAgreement) -> str:
    """A slice in words."""
    return _slice_name((one.pipeline, one.dimension, one.value), True)


def _slice_name(key: tuple[str, str, str], with_pipeline: bool) -> str:
    pipeline, dimension, value = key
    if not dimension:
        return pipeline
    return f"{pipeline} {dimension}={value}" if with_pipeline else f"{dimension}={value}"


def _points(bias: AgreementEstimate) -> str:
    """A bias in points, without its sign."""
    if bias.estimate is None:
        return "unknown"
    return counted(round(100 * abs(bias.estimate)), "point")


def _interval(figure: AgreementEstimate, form: str) -> str:
    if figure.estimate is None or figure.lower is None or figure.upper is None:
        return "unknown"
    return f"{figure.estimate:{form}}, {figure.lower:{form}} to {figure.upper:{form}}"


def _percent(figure: AgreementEstimate) -> str:
    share = f"{100 * (figure.estimate or 0.0):.0f} %"
    if figure.lower is None or figure.upper is None:
        return f"{share} are"
    return f"{share} ({100 * figure.lower:.0f} to {100 * figure.upper:.0f}) are"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
