"""Facts of a record's steps: searches, those that found nothing new, failures, and hits."""

from collections.abc import Collection, Sequence

from ragmon.records import AnswerStep, QueryRecord
from ragmon.signals import EVIDENCE, SignalOptions
from ragmon.signals.evidence import relevance

FACTS = (
    "searches",
    "redundant",
    "failed_steps",
    "step_rank_label",
    "step_rank_citation",
    "step_rank_score",
)
"""Columns of a batch, in the order of ``read``."""

_UNKNOWN = float("nan")
_NEVER = float("inf")


def searches(record: QueryRecord) -> float | None:
    """Number of retrievals; None where no steps were recorded."""
    if record.steps is None:
        return None
    return float(sum(step.kind == "retrieval" for step in record.steps))


def redundant(record: QueryRecord) -> float | None:
    """Share of the retrievals that found chunks, and none that earlier ones had not found.

    None where no retrieval recorded its chunks.
    """
    retrieved = _retrieved(record.steps or ())
    if not retrieved:
        return None
    before: set[str] = set()
    times = 0
    for ids in retrieved:
        times += bool(ids) and before.issuperset(ids)
        before.update(ids)
    return times / len(retrieved)


def failed_share(record: QueryRecord) -> float | None:
    """Share of the steps that failed; None without steps."""
    if not record.steps:
        return None
    return sum(step.failed for step in record.steps) / len(record.steps)


def first_rank(record: QueryRecord, evidence: str, options: SignalOptions) -> float | None:
    """Least rank, from 1, that a relevant chunk has within a step; infinity where none has one.

    Args:
        record: the query.
        evidence: one of ``EVIDENCE``.
        options: ``relevant_score``, without which scores are no evidence.

    Returns:
        None where no retrieval recorded its chunks, or without this evidence.
    """
    retrieved = _retrieved(record.steps or ())
    judged = relevance(record, evidence, options) if retrieved else None
    if judged is None:
        return None
    pairs = zip(record.chunks or (), judged, strict=True)
    relevant = {chunk.id for chunk, is_relevant in pairs if is_relevant}
    return min((_rank(ids, relevant) for ids in retrieved), default=_NEVER)


def read(record: QueryRecord, relevant_score: float | None) -> list[float]:
    """All of ``FACTS``, NaN for None."""
    options = SignalOptions(relevant_score=relevant_score)
    values = (
        searches(record),
        redundant(record),
        failed_share(record),
        *(first_rank(record, evidence, options) for evidence in EVIDENCE),
    )
    return [_UNKNOWN if value is None else value for value in values]


def _retrieved(steps: Sequence[AnswerStep]) -> list[list[str]]:
    """Chunks of each retrieval that recorded them."""
    return [
        step.chunk_ids for step in steps if step.kind == "retrieval" and step.chunk_ids is not None
    ]


def _rank(ids: Sequence[str], relevant: Collection[str]) -> float:
    return next((rank for rank, name in enumerate(ids, 1) if name in relevant), _NEVER)
