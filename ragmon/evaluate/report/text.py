"""Format of numbers and names, the same in every form of the report."""

from collections.abc import Iterable, Sequence

from ragmon.evaluate.document import Evaluation, JudgeAgreement, ReportFigure, Summary
from ragmon.evaluate.score.metric_text import change_text, is_share, number
from ragmon.evaluate.score.metrics import base_of, is_headline
from ragmon.percentages import percent_range, precise_percent

GROUPS = ("Retrieval", "Answers", "Behaviour")
_ANSWERS = frozenset(
    {
        *("faithfulness", "answer_relevance", "completeness", "conciseness", "exact_match"),
        "claim_recall",
        *("token_f1", "rouge_l", "semantic_similarity", "query_similarity", "context_utilization"),
        *("attribution", "uncited", "cited_unretrieved", "noise_sensitivity"),
    }
)
_BEHAVIOUR = frozenset(
    {
        *("error", "zero_result", "slow", "low_score", "latency_ms", "failure_mode", "top_score"),
        *("retrieved_chunks", "cited_chunks"),
    }
)


def interval(metric: Summary) -> str:
    """``61.0 – 70.2 %``; empty where there is none."""
    if metric.lower is None or metric.upper is None:
        return ""
    if is_share(metric.name):
        return percent_range(metric.lower, metric.upper, metric.mean)
    return f"{number(metric.lower)} – {number(metric.upper)}"


def between(name: str, lower: float | None, upper: float | None) -> str:
    """The interval of a change, ``-5.0 … +1.8 points``; empty where there is none."""
    if lower is None or upper is None:
        return ""
    return f"{change_text(name, lower).removesuffix(' points')} … {change_text(name, upper)}"


def agreement(judge: JudgeAgreement) -> str:
    """Agreement of a judge with human labels, in a sentence."""
    parts = [
        f"{name} {figure_text}"
        for name, figure_text in (
            ("balanced accuracy", _accuracy(judge.balanced_accuracy)),
            ("kappa", _kappa(judge.kappa)),
        )
        if figure_text
    ]
    rates = ", ".join(parts) or "unknown without both good and bad answers"
    return f"{judge.judge} against {judge.labels:,} human labels: {rates}"


def _accuracy(figure: ReportFigure | None) -> str:
    if figure is None:
        return ""
    bounds = percent_range(figure.lower, figure.upper, figure.value)
    return f"{precise_percent(figure.value)} ({bounds})"


def _kappa(figure: ReportFigure | None) -> str:
    if figure is None:
        return ""
    return f"{number(figure.value)} ({number(figure.lower)} – {number(figure.upper)})"


def group_of(name: str) -> str:
    """Section of the report that a metric belongs to."""
    base = base_of(name)
    if base in _ANSWERS or name.endswith("/citation"):
        return "Answers"
    return "Behaviour" if base in _BEHAVIOUR else "Retrieval"


def grouped(metrics: Iterable[Summary]) -> dict[str, list[Summary]]:
    """Metrics by part of the report; parts without any are left out."""
    parts: dict[str, list[Summary]] = {name: [] for name in GROUPS}
    for metric in metrics:
        parts[group_of(metric.name)].append(metric)
    return {name: members for name, members in parts.items() if members}


def headlines(evaluation: Evaluation) -> Sequence[Summary]:
    """The metrics that matter most; the first five where none of those is known."""
    chosen = [metric for metric in evaluation.metrics if is_headline(metric.name)]
    return chosen or evaluation.metrics[:5]
