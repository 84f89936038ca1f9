"""Metrics of the texts of chunks and answers, case by case."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ragmon.citations import without_markers
from ragmon.evaluate.cases import Case
from ragmon.evaluate.ranking import (
    facet_recall,
    keyword_ndcg,
    keyword_recall,
    keyword_reciprocal_rank,
    nugget_recall,
)
from ragmon.evaluate.ranking.blocks import Floats
from ragmon.evaluate.score import generation
from ragmon.records import QueryRecord


def columns(pairs: Sequence[tuple[Case, QueryRecord]], k: int) -> dict[str, Floats]:
    """Columns by metric, of metrics that at least one case has."""
    rows = [dict(_of_one(case, record, k)) for case, record in pairs]
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float64) for name in names
    }


def _of_one(case: Case, record: QueryRecord, k: int) -> Iterator[tuple[str, float]]:
    if record.chunks is not None:
        yield from _of_chunks(case, record, k)
    if record.answer is not None and case.ground_truth_answer is not None:
        ids = [chunk.id for chunk in record.chunks or ()]
        text = without_markers(record.answer, ids)  # reference answers have no citation markers
        for name, compare in _COMPARISONS.items():
            yield name, compare(text, case.ground_truth_answer)
    if record.chunks is not None and record.citations is not None:
        retrieved = [chunk.id for chunk in record.chunks]
        relevant = [key for key, grade in case.judgements.items() if grade > 0]
        used = generation.context_utilization(retrieved, relevant, record.citations)
        if used is not None:
            yield "context_utilization", used


_COMPARISONS: dict[str, Callable[[str, str], float]] = {
    "exact_match": generation.exact_match,
    "token_f1": generation.token_f1,
    "rouge_l": generation.rouge_l,
}


def _of_chunks(case: Case, record: QueryRecord, k: int) -> Iterator[tuple[str, float]]:
    chunks = record.chunks or []
    if case.facets:
        yield f"facet_recall@{k}", facet_recall([chunk.id for chunk in chunks], case.facets, k)
    texts = [chunk.text or "" for chunk in chunks]
    if chunks and not any(texts):
        return  # the texts were not recorded
    if case.nuggets:
        yield f"nugget_recall@{k}", nugget_recall(texts, case.nuggets, k)
    if case.keywords:
        ranks = [keyword_reciprocal_rank(texts[:k], word) for word in case.keywords]
        orders = [keyword_ndcg(texts, word, k) for word in case.keywords]
        yield f"keyword_recall@{k}", keyword_recall(texts, case.keywords, k)
        yield f"keyword_rr@{k}", sum(ranks) / len(ranks)
        yield f"keyword_ndcg@{k}", sum(orders) / len(orders)
