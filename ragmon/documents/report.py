"""Report on documents, as ``GET /v1/documents`` answers it."""

from typing import Literal

import msgspec
from msgspec import Struct

from ragmon.report import MeanEstimate

Unit = Literal["chunk", "source"]
FindingKind = Literal[
    "disliked", "unfaithful", "vanished", "appeared", "stale_twin", "loser", "hub"
]
KINDS: tuple[FindingKind, ...] = (
    "disliked",
    "unfaithful",
    "vanished",
    "appeared",
    "stale_twin",
    "loser",
    "hub",
)


class OutcomeFigures(Struct, frozen=True, kw_only=True):
    """Answers with a document that ended badly, beside answers to like questions without it."""

    answers: int  # with the document, of which the outcome is known
    bad: int
    rate: MeanEstimate  # share of them that are bad
    compared: int  # of these answers, those that have like questions without the document
    like_answers: int  # to like questions, without the document
    like_rate: float | None  # share of those that are bad, as often of each kind of question
    difference: float | None  # rate with minus rate without, among like questions
    lower: float | None  # 95 % interval of the difference
    upper: float | None
    p_value: float | None  # one-sided, of no difference
    false_discovery_rate: float | None  # at which this document would be named


class DocumentFigures(Struct, frozen=True, kw_only=True):
    """One chunk, or one source, of one pipeline."""

    pipeline: str
    id: str  # of the chunk, or the source
    source: str | None
    retrieved: int  # answers
    share: float  # of the queries of the pipeline for which chunks were recorded
    mean_rank: float | None  # from 1; null: it was never retrieved
    ranks: list[int]  # answers by rank: 1 to 9, then 10 and below
    first_seen: float | None  # unix seconds
    last_seen: float | None
    cited: MeanEstimate | None  # share of its answers that cite it; null without citations
    relevant: int  # answers in which it was cited, or a label calls it relevant
    below_k: int  # of them, those where it ranked below k
    missed: int  # of them, those where it was not retrieved at all
    disliked: OutcomeFigures | None  # null: no answer with it was rated
    unfaithful: OutcomeFigures | None  # null: none was judged
    findings: list[FindingKind] = []


class DocumentFinding(Struct, frozen=True, kw_only=True):
    """Something to do about a document."""

    kind: FindingKind
    pipeline: str
    id: str
    others: list[str] = []  # its twin, or documents that cannot be told apart from it
    at: float | None = None  # unix seconds: since when
    false_discovery_rate: float | None = None
    text: str  # one sentence


class DocumentReport(Struct, frozen=True, kw_only=True):
    """Documents of a stretch of time: those to do something about, then the others."""

    by: Unit
    k: int
    start: float = msgspec.field(name="from")  # unix seconds, as is the next
    to: float
    queries: int
    queries_with_chunks: int  # for which chunks were recorded, even if none were retrieved
    documents: int  # that were retrieved, or called relevant
    retrievals_left_out: int  # of documents beyond those that fit into memory
    without_source: int  # retrieved chunks that name no source; 0 where chunks are counted
    compared_share: float  # of the answers that were rated or judged, those that were compared
    rated: int  # answers
    judged: int
    findings: list[DocumentFinding]
    rows: list[DocumentFigures]  # as many as were asked for
    retrieved_ids: list[str] | None = None  # of all that were retrieved; null: not asked for
