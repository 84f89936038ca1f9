"""Feedback and evaluations in traces, as changes to the query they are about.

An evaluation by a person, or without an annotator, is feedback. A model's score for faithfulness
is a label by that evaluator; its other scores have no place in a record and are only counted.
"""

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ragmon.event_time import Bounds, event_time
from ragmon.records import MAX_FEEDBACK_TEXT, MAX_ID, Feedback, Label
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.traces.tree import Node, everything

_GOOD = frozenset(
    {"thumbs_up", "thumbs up", "thumbsup", "up", "positive", "good", "like", "liked", "helpful",
     "correct", "yes", "true", "pass", "passed", "relevant", "accurate", "satisfied"}
)  # fmt: skip
_BAD = frozenset(
    {"thumbs_down", "thumbs down", "thumbsdown", "down", "negative", "bad", "dislike", "disliked",
     "unhelpful", "not_helpful", "incorrect", "no", "false", "fail", "failed", "irrelevant",
     "inaccurate", "unsatisfied", "wrong"}
)  # fmt: skip
_FAITHFUL = ("faithful", "grounded", "grounding", "attribution", "factual")
_UNFAITHFUL = ("hallucinat",)
_SCALES = ((1.0, 0.0), (5.0, 1.0), (10.0, 1.0), (100.0, 0.0))  # (most, least) by convention


OURS = "ragmon"
"""The instrumentation scope of what ragmon exports."""


class TargetedEvaluation(NamedTuple):
    """An evaluation, and the span it is about."""

    evaluation: SpanEvaluation
    trace_id: bytes
    span_id: bytes
    is_limited: bool = False  # its sender may not write every pipeline


def targeted_evaluations(
    tops: Sequence[Node], seen: Container[bytes] = ()
) -> list[TargetedEvaluation]:
    """Every evaluation in a trace, each once.

    A link names the target; without one it is the span itself. An evaluation of a trace may be
    repeated on each of its spans.

    Args:
        tops: of the trace.
        seen: ids of spans whose evaluations are left out.
    """
    by_target: dict[tuple[str, bytes, bytes, str, str], TargetedEvaluation] = {}
    for node in everything(tops):
        if node.span.scope == OURS or node.span.span_id in seen:
            continue  # our own verdicts, come back by way of a tracing tool
        for evaluation in node.facts.evaluations:
            link = node.span.links[0] if node.span.links else None
            target = link or node.span
            key = (
                evaluation.scope,
                target.trace_id,
                target.span_id if evaluation.scope == "span" else b"",
                evaluation.name,
                evaluation.identifier,
            )
            by_target.setdefault(
                key,
                TargetedEvaluation(
                    evaluation, target.trace_id, target.span_id, bool(node.span.sender_pipelines)
                ),
            )
    return list(by_target.values())


def stamped(evaluation: SpanEvaluation, now: float, bounds: Bounds) -> SpanEvaluation:
    """The evaluation with the time that it is stored with.

    Raises:
        RecordError: it has a time that is not accepted.
    """
    timestamp = event_time(evaluation.timestamp, now, bounds, may_be_old=True)
    return replace(evaluation, timestamp=timestamp)


def changes_for(query_id: str, evaluations: Sequence[SpanEvaluation]) -> list[Feedback | Label]:
    """Feedback and labels from the evaluations of one query; those by people are preferred.

    Args:
        query_id: the query.
        evaluations: of it, ``stamped``, in the order in which they were made.
    """
    people = [evaluation for evaluation in evaluations if evaluation.annotator == "HUMAN"]
    ratings = people or [
        evaluation for evaluation in evaluations if evaluation.annotator not in ("LLM", "CODE")
    ]
    changes: list[Feedback | Label] = []
    for evaluation in ratings:
        if _measures(evaluation) is None and (rating := rating_of(evaluation)) is not None:
            comment = _comment(evaluation)
            changes.append(
                Feedback(
                    query_id=query_id,
                    rating=rating,
                    comment=comment,
                    timestamp=evaluation.timestamp,
                )
            )
    for evaluation in evaluations:
        faithful = _faithful(evaluation)
        if faithful is not None:
            labeller = f"{evaluation.annotator.lower() or 'otlp'}:{evaluation.name}"[:MAX_ID]
            changes.append(
                Label(
                    query_id=query_id,
                    labeller=labeller,
                    faithful=faithful,
                    timestamp=evaluation.timestamp,
                )
            )
    return changes


def all_changes(by_query: Mapping[str, Sequence[SpanEvaluation]]) -> list[Feedback | Label]:
    """Feedback and labels from the evaluations of several queries, by their ids."""
    return [
        change
        for query_id, evaluations in by_query.items()
        for change in changes_for(query_id, evaluations)
    ]


def rating_of(evaluation: SpanEvaluation) -> float | None:
    """In [-1, 1]: a score of 0 to 1, 1 to 5, 1 to 10 or 0 to 100, or a word."""
    word = (evaluation.label or "").strip().lower()
    by_word = 1.0 if word in _GOOD else -1.0 if word in _BAD else None
    score = evaluation.score
    if score is None:
        return by_word
    if score < 0:
        return max(-1.0, score)
    if score in (0, 1):  # the ends of the commonest scale; a word decides for stars
        return by_word if by_word is not None else 2.0 * score - 1.0
    for most, least in _SCALES:
        if score <= most:
            return 2.0 * (score - least) / (most - least) - 1.0
    return None


def _measures(evaluation: SpanEvaluation) -> bool | None:
    """True when it measures faithfulness, False when the opposite."""
    name = evaluation.name.lower()
    if any(part in name for part in _FAITHFUL):
        return True
    return False if any(part in name for part in _UNFAITHFUL) else None


def _faithful(evaluation: SpanEvaluation) -> float | None:
    """Faithfulness in [0, 1]; None when it is about something else, or has no value."""
    measures = _measures(evaluation)
    if measures is None:
        return None
    word = (evaluation.label or "").strip().lower()
    if evaluation.score is None and word.startswith(("hallucinat", "unfaithful", "unground")):
        return 0.0
    if evaluation.score is None and word in ("factual", "faithful", "grounded"):
        return 1.0
    rating = rating_of(evaluation)
    if rating is None:
        return None
    share = (rating + 1.0) / 2.0
    return share if measures else 1.0 - share


def _comment(evaluation: SpanEvaluation) -> str | None:
    parts = (evaluation.label, evaluation.explanation)
    text = ": ".join(part for part in parts if part)
    return text[:MAX_FEEDBACK_TEXT] or None
