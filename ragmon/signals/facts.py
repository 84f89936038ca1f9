"""Facts of a batch of records: one column a fact, one row a record.

Reading Python objects is the expensive part of observing a record, so it is done once, here;
the batch forms of the signals are numpy expressions over the columns. NaN means *not recorded*.
A fact is added by its field in ``Facts`` and the place in ``extract`` that fills it.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.records import Amendments, Chunk, Latency, QueryRecord
from ragmon.signals import steps
from ragmon.signals.evidence import (
    EMBEDDED_JUDGE,
    LOCAL_JUDGE,
    SAMPLED_JUDGE,
    human_score,
    refuse_each,
)

Floats = NDArray[np.float64]
NAN = float("nan")
NEVER = float("inf")
"""The rank of a relevant chunk that was not retrieved."""


class Facts(Struct, frozen=True, kw_only=True):
    """Columns of shape (n,), float64; NaN where a record does not say."""

    failed: Floats  # 1 when the record carries an error, else 0
    chunks: Floats  # how many were retrieved
    top_score: Floats  # the best retrieval score
    cited: Floats  # retrieved chunks that the answer cites
    stray: Floats  # cited ids that were never retrieved
    rank_label: Floats  # of the first relevant chunk, from 1; NEVER if none
    rank_citation: Floats  # of the first cited chunk, likewise
    rank_score: Floats  # of the first chunk that scores as relevant, likewise
    total_ms: Floats
    retrieval_ms: Floats
    generation_ms: Floats
    rating: Floats  # user feedback in [-1, 1]
    repeat: Floats  # how often the question was asked before in its minute
    refuses: Floats  # 1 for an answer that declines, else 0
    judgeable: Floats  # 1 for an answer whose context is there to be read, else 0
    judged: Floats  # 1 once the embedded judge has read it, else 0
    grounding: Floats  # its score in [0, 1]
    probability: Floats  # with which it was drawn for the embedded judge
    faithful: Floats  # by the newest label, in [0, 1]
    doubted_below: Floats  # where the embedded judge's calibration cuts, if it does
    local: Floats  # the local judge's score, in [0, 1]
    local_doubted_below: Floats  # where its calibration cuts, if it does
    sampled: Floats  # the sampled judge's score of faithfulness, in [0, 1]
    share: Floats  # with which it was looked at when the sample was drawn
    chance: Floats  # with which it was drawn then, once looked at
    proxy: Floats  # the proxy score then, in [0, 1]
    searches: Floats  # retrievals on the way to the answer, where steps were recorded
    redundant: Floats  # share of them that found only what earlier ones had found
    failed_steps: Floats  # share of the steps that failed
    step_rank_label: Floats  # least rank of a relevant chunk within a step; NEVER if none
    step_rank_citation: Floats  # likewise of a cited chunk
    step_rank_score: Floats  # likewise of a chunk that scores as relevant
    similarity: Floats  # cosine of the embeddings of question and answer
    uncalibrated: Floats  # the embedded judge's score, as its artefact gave it


_OF_CHUNKS = (
    "chunks",
    "top_score",
    "cited",
    "stray",
    "rank_label",
    "rank_citation",
    "rank_score",
)
_OF_AMENDMENTS = (
    "judged",
    "grounding",
    "probability",
    "faithful",
    "doubted_below",
    "local",
    "local_doubted_below",
    "sampled",
    "share",
    "chance",
    "proxy",
    "uncalibrated",
)


def extract(
    records: Sequence[QueryRecord],
    relevant_score: float | None,
    known: Sequence[Amendments] | None = None,
) -> Facts:
    """The facts of a batch.

    Args:
        records: n records.
        relevant_score: scores from here on count as relevant; None: scores say nothing.
        known: what was learned of each record later.
    """
    latencies = [record.latency_ms or _UNTIMED for record in records]
    return Facts(
        failed=_column([record.error is not None for record in records]),
        total_ms=_column([latency.total for latency in latencies]),
        retrieval_ms=_column([latency.retrieval for latency in latencies]),
        generation_ms=_column([latency.generation for latency in latencies]),
        rating=_column([record.feedback for record in records]),
        repeat=_column([record.repeat for record in records]),
        refuses=_column(refuse_each(records)),
        judgeable=_column([_is_judgeable(record) for record in records]),
        similarity=_column([record.query_answer_similarity for record in records]),
        **_chunk_columns(records, relevant_score),
        **_step_columns(records, relevant_score),
        **_amendment_columns(len(records), known or ()),
    )


def _column(values: Sequence[float | None]) -> Floats:
    """None becomes NaN."""
    return np.array(values, dtype=np.float64)


def _amendment_columns(count: int, known: Sequence[Amendments]) -> dict[str, Floats]:
    """The columns that only verdicts, labels and draws fill."""
    columns = dict(zip(_OF_AMENDMENTS, np.full((len(_OF_AMENDMENTS), count), NAN), strict=True))
    columns["judged"][:] = 0.0
    for at, amendments in enumerate(known):
        for verdict in amendments.verdicts:
            if verdict.judge == EMBEDDED_JUDGE:
                score = NAN if verdict.score is None else verdict.score
                columns["judged"][at] = 1.0
                columns["grounding"][at] = score
                columns["probability"][at] = verdict.probability
                columns["uncalibrated"][at] = score if verdict.raw is None else verdict.raw
                if verdict.doubted_below is not None:
                    columns["doubted_below"][at] = verdict.doubted_below
            elif verdict.judge == SAMPLED_JUDGE and verdict.score is not None:
                columns["sampled"][at] = verdict.score
            elif verdict.judge == LOCAL_JUDGE and verdict.score is not None:
                columns["local"][at] = verdict.score
                if verdict.doubted_below is not None:
                    columns["local_doubted_below"][at] = verdict.doubted_below
        if amendments.labels:
            faithful = human_score(amendments)
            columns["faithful"][at] = NAN if faithful is None else faithful
        draw = amendments.draw
        if draw is not None:
            columns["share"][at] = draw.share
            columns["chance"][at] = draw.probability / draw.share
            columns["proxy"][at] = draw.proxy
    return columns


_UNTIMED = Latency()


def _is_judgeable(record: QueryRecord) -> float:
    if not record.answer or not record.chunks:
        return 0.0
    for chunk in record.chunks:  # `any` takes twice as long
        if chunk.text:
            return 1.0
    return 0.0


def _step_columns(
    records: Sequence[QueryRecord], relevant_score: float | None
) -> dict[str, Floats]:
    """The columns about steps, which most batches have none of."""
    columns = dict(zip(steps.FACTS, np.full((len(steps.FACTS), len(records)), NAN), strict=True))
    for at, record in enumerate(records):
        if record.steps is not None:
            for name, value in zip(steps.FACTS, steps.read(record, relevant_score), strict=True):
                columns[name][at] = value
    return columns


def _chunk_columns(
    records: Sequence[QueryRecord], relevant_score: float | None
) -> dict[str, Floats]:
    """The columns about chunks, which one pass over the chunks of a record fills."""
    rows = np.array([_chunk_facts(record, relevant_score) for record in records], dtype=np.float64)
    columns = np.ascontiguousarray(rows.reshape(len(records), len(_OF_CHUNKS)).T)
    return dict(zip(_OF_CHUNKS, columns, strict=True))


def _chunk_facts(record: QueryRecord, relevant_score: float | None) -> tuple[float, ...]:
    """One row over ``_OF_CHUNKS``."""
    chunks = record.chunks
    if chunks is None:
        return _UNKNOWN_CHUNKS
    scores = [chunk.score for chunk in chunks if chunk.score is not None]
    cited = stray = rank_citation = NAN
    if record.citations is not None:
        cited, stray, rank_citation = _citation_facts(chunks, record.citations)
    return (
        len(chunks),
        max(scores) if scores else NAN,
        cited,
        stray,
        _label_rank(chunks, record),
        rank_citation,
        NAN if relevant_score is None else _score_rank(chunks, relevant_score),
    )


_UNKNOWN_CHUNKS = (NAN,) * len(_OF_CHUNKS)


def _citation_facts(chunks: list[Chunk], citations: list[str]) -> tuple[float, float, float]:
    """(cited, stray, rank_citation)."""
    if not citations:
        return 0.0, 0.0, NEVER
    cited_ids = set(citations)
    retrieved_ids: set[str] = set()
    cited = 0
    first = NEVER
    for rank, chunk in enumerate(chunks, 1):
        if chunk.id in cited_ids:
            cited += 1
            retrieved_ids.add(chunk.id)
            if first == NEVER:
                first = rank
    return cited, len(cited_ids) - len(retrieved_ids), first


def _label_rank(chunks: list[Chunk], record: QueryRecord) -> float:
    """Rank of the first relevant chunk; NaN without ground truth or when nothing is relevant."""
    if record.grades is None and not record.relevant_ids:
        return NAN
    relevant = set(record.relevant_ids or ())
    relevant.update(key for key, grade in (record.grades or {}).items() if grade > 0)
    if not relevant:
        return NAN
    for rank, chunk in enumerate(chunks, 1):
        if chunk.id in relevant:
            return rank
    return NEVER


def _score_rank(chunks: list[Chunk], relevant_score: float) -> float:
    """Rank of the first chunk that scores at least ``relevant_score``; NaN without scores."""
    scored = False
    for rank, chunk in enumerate(chunks, 1):
        if chunk.score is not None:
            scored = True
            if chunk.score >= relevant_score:
                return rank
    return NEVER if scored or not chunks else NAN
