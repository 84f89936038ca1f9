"""Numbers and names as every form of the report writes them."""

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


def agreement(found: JudgeAgreement) -> str:
    """How a judge agrees with people, in a sentence."""
    parts = [
        f"{name} {number(each.value)} ({number(each.lower)} – {number(each.upper)})"
        for name, each in (
            ("balanced accuracy", found.balanced_accuracy),
            ("kappa", found.kappa),
        )
        if each is not None
    ]
    told = ", ".join(parts) or "unknown without both good and bad answers"
    return f"{found.judge} against {found.labels:,} human labels: {told}"


def group_of(name: str) -> str:
    """Which part of the report a metric belongs to."""
    base = base_of(name)
    if base in _ANSWERS or name.endswith("/citation"):
        return "Answers"
    return "Behaviour" if base in _BEHAVIOUR else "Retrieval"


def grouped(metrics: Iterable[Summary]) -> dict[str, list[Summary]]:
    """Metrics by part of the report; parts without any are left out."""
    parts: dict[str, list[Summary]] = {name: [] for name in GROUPS}
    for each in metrics:
        parts[group_of(each.name)].append(each)
    return {name: found for name, found in parts.items() if found}


def headlines(evaluation: Evaluation) -> Sequence[Summary]:
    """The metrics that matter most; the first five where none of those is known."""
    chosen = [each for each in evaluation.metrics if is_headline(each.name)]
    return chosen or evaluation.metrics[:5]
