"""The metrics that say first whether a pipeline is well, with their words and units."""

import re
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from ragmon.charts.units import Unit
from ragmon.metric_series import QUERIES

_WATCHED_K = 5  # hits are shown, as they are watched, at the k nearest to it


class ShownMetric(NamedTuple):
    """A metric as a page shows it."""

    name: str  # as the report has it
    title: str
    unit: Unit
    better: Literal[1, 0, -1]  # 1: more is better; 0: neither is
    note: str = ""
    factor: float = 1.0  # from the value of the report to the unit


TRAFFIC = ShownMetric(QUERIES, "Queries", "count", 0)
ERRORS = ShownMetric("error", "Errors", "ratio", -1, "share of queries that failed")
LATENCY = ShownMetric("latency_ms@p95/total", "Latency p95", "seconds", -1, "total", 1e-3)

_EVIDENCE = {
    "label": "by ground truth",
    "judge": "by the language model",
    "citation": "by what answers cite",
    "score": "by retrieval score",
}
_FAITHFUL = {
    "faithfulness/llm_corrected": "by the language model, corrected by labels",
    "faithfulness/llm": "by the language model",
    "faithfulness/grounding": "by the embedded judge",
    "faithfulness/human": "by people",
}
_OTHERS = (
    ShownMetric("zero_result", "Zero results", "ratio", -1, "retrieval returned nothing"),
    ERRORS,
    LATENCY,
    ShownMetric("positive_feedback", "Liked", "ratio", 1, "of the rated answers"),
)


def headlines(names: Collection[str]) -> list[ShownMetric]:
    """The metrics to show first, of those that have samples.

    Args:
        names: of metrics with samples.
    """
    chosen = [metric for metric in (_hit(names), _faithfulness(names)) if metric is not None]
    return [*chosen, *(metric for metric in _OTHERS if metric.name in names)]


def shown_metric(name: str) -> ShownMetric:
    """Words and unit of any metric of the report."""
    for metric in (TRAFFIC, *_OTHERS):
        if metric.name == name:
            return metric
    if name in _FAITHFUL:
        return ShownMetric(name, "Faithfulness", "ratio", 1, _FAITHFUL[name])
    if match := re.fullmatch(r"hit@(\d+)/(\w+)", name):
        return _hit_rate(name, match[1], match[2])
    if match := re.fullmatch(r"latency_ms@(p\d+)/(\w+)", name):
        return ShownMetric(name, f"Latency {match[1]}", "seconds", -1, match[2], 1e-3)
    if match := re.fullmatch(r"latency_ms/(\w+)", name):
        return ShownMetric(name, "Mean latency", "seconds", -1, match[1], 1e-3)
    return _plain(name)


def _plain(name: str) -> ShownMetric:
    family, _, evidence = name.partition("/")
    title = family.replace("_", " ").capitalize()
    note = _EVIDENCE.get(evidence, evidence)
    if family in ("cited_chunks", "retrieved_chunks"):
        return ShownMetric(name, title, "count", 0, note)
    if family == "retrieval_steps":
        return ShownMetric(name, title, "count", 0, note)
    if family in ("query_answer_similarity", "reciprocal_rank"):
        return ShownMetric(name, title, "score", 1, note)
    if family == "top_score":
        return ShownMetric(name, title, "score", 0, note)
    if family == "failure_mode":
        better: Literal[1, 0, -1] = {"none": 1, "unknown": 0}.get(evidence, -1)  # type: ignore[assignment]
        return ShownMetric(name, f"Failure mode: {evidence}", "ratio", better)
    return ShownMetric(name, title, "ratio", _DIRECTIONS.get(family, 1), note)


_DIRECTIONS: dict[str, Literal[1, 0, -1]] = {
    "cited_unretrieved": -1,
    "false_refusal": -1,
    "feedback_coverage": 0,
    "grounding_coverage": 0,
    "low_score": -1,
    "missing_refusal": -1,
    "negative_feedback": -1,
    "redundant_search": -1,
    "refusal": 0,
    "slow": -1,
    "tool_error": -1,
    "uncited": -1,
    "unfaithful": -1,
}


def _hit(names: Collection[str]) -> ShownMetric | None:
    """The hit rate by the best evidence there is."""
    for evidence in _EVIDENCE:
        ks = sorted(_ks(names, evidence), key=lambda k: (abs(k - _WATCHED_K), k))
        if ks:
            return _hit_rate(f"hit@{ks[0]}/{evidence}", str(ks[0]), evidence)
    return None


def _ks(names: Collection[str], evidence: str) -> Iterator[int]:
    for name in names:
        if match := re.fullmatch(rf"hit@(\d+)/{evidence}", name):
            yield int(match[1])


def _hit_rate(name: str, k: str, evidence: str) -> ShownMetric:
    return ShownMetric(name, f"Hit rate @{k}", "ratio", 1, _EVIDENCE.get(evidence, evidence))


def _faithfulness(names: Collection[str]) -> ShownMetric | None:
    return next((shown_metric(name) for name in _FAITHFUL if name in names), None)
