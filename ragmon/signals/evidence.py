"""Evidence about one query, in plain Python: relevant chunks, citations, verdicts and labels.

The record forms of the signals are made of it; ``facts`` holds the same of a whole batch.
"""

import math
from collections.abc import Sequence

from ragmon.records import Amendments, Chunk, QueryRecord, Verdict
from ragmon.signals import SignalOptions
from ragmon.signals.refusal_phrases import decline_each

EMBEDDED_JUDGE = "grounding"
SAMPLED_JUDGE = "llm"
LOCAL_JUDGE = "local"

BELIEVED = (SAMPLED_JUDGE, LOCAL_JUDGE, EMBEDDED_JUDGE)
"""The judges, the one first whose score of an answer counts before those of the others."""


def cited_chunks(record: QueryRecord) -> list[Chunk] | None:
    """The retrieved chunks that the answer cites; None without chunks or citations."""
    if record.chunks is None or record.citations is None:
        return None
    cited = set(record.citations)
    return [chunk for chunk in record.chunks if chunk.id in cited]


def best_retrieval_score(record: QueryRecord) -> float | None:
    """The highest score of a retrieved chunk; None without scores."""
    return max(
        (chunk.score for chunk in record.chunks or () if chunk.score is not None), default=None
    )


def relevance(record: QueryRecord, evidence: str, options: SignalOptions) -> list[bool] | None:
    """Relevance of each retrieved chunk, best rank first.

    Args:
        record: the query.
        evidence: one of ``EVIDENCE``.
        options: ``relevant_score``, without which scores are no evidence.

    Returns:
        None where chunks or this evidence were not recorded.
    """
    chunks = record.chunks
    if chunks is None:
        return None
    if evidence == "citation":
        cited = record.citations
        return None if cited is None else [chunk.id in cited for chunk in chunks]
    if evidence == "score":
        threshold = options.relevant_score
        if threshold is None or (chunks and all(chunk.score is None for chunk in chunks)):
            return None
        return [chunk.score is not None and chunk.score >= threshold for chunk in chunks]
    relevant = set(record.relevant_ids or ())
    relevant |= {chunk_id for chunk_id, grade in (record.grades or {}).items() if grade > 0}
    return [chunk.id in relevant for chunk in chunks] if relevant else None


def first_relevant_rank(record: QueryRecord, evidence: str, options: SignalOptions) -> float | None:
    """Rank of the first relevant chunk from 1; infinity when none is, None without evidence."""
    relevant = relevance(record, evidence, options)
    if relevant is None:
        return None
    return next((rank for rank, hit in enumerate(relevant, 1) if hit), math.inf)


def is_judgeable(record: QueryRecord) -> bool:
    """There is an answer, and the text of a chunk to compare it with."""
    return bool(record.answer) and any(chunk.text for chunk in record.chunks or ())


def refuses(record: QueryRecord) -> float | None:
    """1 for an answer that declines, 0 for another; None without text, or where it failed."""
    return refuse_each([record])[0]


def refuse_each(records: Sequence[QueryRecord]) -> list[float | None]:
    """``refuses`` of many records."""
    answers = ["" if record.error is not None else record.answer or "" for record in records]
    declined = decline_each(answers)
    return [
        float(is_declined) if answer else None
        for answer, is_declined in zip(answers, declined, strict=True)
    ]


def verdict_of(known: Amendments, judge: str) -> Verdict | None:
    """The verdict of a judge, also a failed one."""
    return next((verdict for verdict in known.verdicts if verdict.judge == judge), None)


def judge_score(known: Amendments, judge: str) -> float | None:
    """Faithfulness in [0, 1] by a judge; None while it has no score."""
    verdict = verdict_of(known, judge)
    return None if verdict is None else verdict.score


def human_score(known: Amendments) -> float | None:
    """Faithfulness in [0, 1] by the newest label that speaks of it; None without one."""
    labels = (label for label in known.labels if label.faithful is not None)
    newest = max(labels, key=lambda label: label.timestamp, default=None)
    return None if newest is None else newest.faithful


def people_score(known: Amendments, judge: str) -> float | None:
    """The label that a judge's score can be compared with; None without one."""
    if judge in BELIEVED:
        return human_score(known)
    labels = (label for label in known.labels if judge in label.scores)
    newest = max(labels, key=lambda label: label.timestamp, default=None)
    return None if newest is None else newest.scores[judge]


def best_score(known: Amendments) -> float | None:
    """Faithfulness in [0, 1]: the label, else the first judge of ``BELIEVED`` that has a score."""
    human = human_score(known)
    if human is not None:
        return human
    scores = (judge_score(known, judge) for judge in BELIEVED)
    return next((score for score in scores if score is not None), None)
