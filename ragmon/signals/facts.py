"""What the signals look at: one column a fact, one row a record.

Reading Python objects is the expensive part of observing a record, so it is done once, here;
the signals are then numpy expressions over the columns. NaN means *not recorded*.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.records import Amendments, Chunk, Latency, QueryRecord

EMBEDDED_JUDGE = "grounding"
SAMPLED_JUDGE = "llm"
NAN = float("nan")
NEVER = float("inf")
"""The rank of something that was looked for and not found."""

_LATER = 10  # columns that only verdicts and labels fill


class Facts(Struct, frozen=True):
    """Columns of shape (n,), float64; NaN where a record does not say."""

    failed: NDArray[np.float64]  # 1 when the record carries an error, else 0
    chunks: NDArray[np.float64]  # how many were retrieved
    top_score: NDArray[np.float64]  # the best retrieval score
    cited: NDArray[np.float64]  # retrieved chunks that the answer cites
    stray: NDArray[np.float64]  # cited ids that were never retrieved
    rank_label: NDArray[np.float64]  # of the first relevant chunk, from 1; NEVER if none
    rank_citation: NDArray[np.float64]  # of the first cited chunk, likewise
    rank_score: NDArray[np.float64]  # of the first chunk that scores as relevant, likewise
    total_ms: NDArray[np.float64]
    retrieval_ms: NDArray[np.float64]
    generation_ms: NDArray[np.float64]
    rating: NDArray[np.float64]  # user feedback in [-1, 1]
    judgeable: NDArray[np.float64]  # 1 for an answer whose context is there to be read, else 0
    judged: NDArray[np.float64]  # 1 once the embedded judge has read it, else 0
    grounding: NDArray[np.float64]  # its score in [0, 1]
    probability: NDArray[np.float64]  # with which it was drawn for the embedded judge
    faithful: NDArray[np.float64]  # what people say of it, in [0, 1]
    doubted_below: NDArray[np.float64]  # where the embedded judge's calibration cuts, if it does
    sampled: NDArray[np.float64]  # the sampled judge's score of faithfulness, in [0, 1]
    share: NDArray[np.float64]  # with which it was looked at when the sample was drawn
    chance: NDArray[np.float64]  # with which it was drawn then, once looked at
    proxy: NDArray[np.float64]  # what the proxy said then, in [0, 1]
    uncalibrated: NDArray[np.float64]  # the embedded judge's score, as its artefact gave it


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
    chunks = [_chunk_facts(record, relevant_score) for record in records]
    latencies = [record.latency_ms or _UNTIMED for record in records]
    plain = (
        [each.total for each in latencies],
        [each.retrieval for each in latencies],
        [each.generation for each in latencies],
        [record.feedback for record in records],
        [_is_judgeable(record) for record in records],
    )
    failed = np.array([record.error is not None for record in records], dtype=np.float64)
    of_chunks = np.array(chunks, dtype=np.float64).reshape(len(records), len(_UNKNOWN_CHUNKS)).T
    verdicts = _unjudged(len(records)) if known is None else _verdict_facts(known)
    # None becomes NaN.
    return Facts(
        failed, *np.ascontiguousarray(of_chunks), *np.array(plain, dtype=np.float64), *verdicts
    )


def _unjudged(count: int) -> NDArray[np.float64]:
    """The last columns of ``Facts`` of records that nobody has judged yet."""
    facts = np.full((_LATER, count), NAN)
    facts[0] = 0.0
    return facts


def _verdict_facts(known: Sequence[Amendments]) -> NDArray[np.float64]:
    """From ``judged`` on; shape (_LATER, n)."""
    facts = _unjudged(len(known))
    for at, each in enumerate(known):
        for verdict in each.verdicts:
            if verdict.judge == EMBEDDED_JUDGE:
                score = NAN if verdict.score is None else verdict.score
                facts[:3, at] = 1.0, score, verdict.probability
                facts[9, at] = score if verdict.raw is None else verdict.raw
                if verdict.doubted_below is not None:
                    facts[4, at] = verdict.doubted_below
            elif verdict.judge == SAMPLED_JUDGE and verdict.score is not None:
                facts[5, at] = verdict.score
        said = [label for label in each.labels if label.faithful is not None]
        if said:
            facts[3, at] = max(said, key=lambda label: label.timestamp).faithful
        if each.draw is not None:
            draw = each.draw
            facts[6:9, at] = draw.share, draw.probability / draw.share, draw.proxy
    return facts


def _is_judgeable(record: QueryRecord) -> float:
    if not record.answer or not record.chunks:
        return 0.0
    for chunk in record.chunks:
        if chunk.text:
            return 1.0
    return 0.0


_UNTIMED = Latency()


def _chunk_facts(record: QueryRecord, relevant_score: float | None) -> tuple[float, ...]:
    """chunks, top_score, cited, stray, rank_label, rank_citation, rank_score."""
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


_UNKNOWN_CHUNKS = (NAN,) * 7


def _citation_facts(chunks: list[Chunk], citations: list[str]) -> tuple[float, float, float]:
    if not citations:
        return 0.0, 0.0, NEVER
    wanted = set(citations)
    found: set[str] = set()
    cited = 0
    first = NEVER
    for rank, chunk in enumerate(chunks, 1):
        if chunk.id in wanted:
            cited += 1
            found.add(chunk.id)
            if first == NEVER:
                first = rank
    return cited, len(wanted) - len(found), first


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
