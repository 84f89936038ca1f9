"""Format of numbers and names, the same in every form of the report."""

from collections.abc import Iterable, Sequence

from ragmon.evaluate.document import Evaluation, JudgeAgreement, MetricMean, Summary
from ragmon.evaluate.score.metrics import base_of, is_headline

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


def number(value: float | None) -> str:
    """Three digits behind the point for ratios, three in all for the rest."""
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """A change."""
    if value is None:
        return "–"
    return f"{round(value, 3) + 0.0:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"


def interval(mean: MetricMean) -> str:
    """``0.61 – 0.70``."""
    if mean.lower is None or mean.upper is None:
        return ""
    return f"{number(mean.lower)} – {number(mean.upper)}"


def between(lower: float | None, upper: float | None) -> str:
    """The interval of a change; empty where there is none."""
    return "" if lower is None else f"{signed(lower)} … {signed(upper)}"


def agreement(judge: JudgeAgreement) -> str:
    """Agreement of a judge with human labels, in a sentence."""
    parts = [
        f"{name} {number(figure.value)} ({number(figure.lower)} – {number(figure.upper)})"
        for name, figure in (
            ("balanced accuracy", judge.balanced_accuracy),
            ("kappa", judge.kappa),
        )
        if figure is not None
    ]
    rates = ", ".join(parts) or "unknown without both good and bad answers"
    return f"{judge.judge} against {judge.labels:,} human labels: {rates}"


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
