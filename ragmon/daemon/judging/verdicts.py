"""Cases for the sampled judge out of records, and verdicts out of its judgements."""

from ragmon.daemon.judging.session_turns import Chunks
from ragmon.judges.llm import Claim, Failure, JudgedAnswer, Judgement
from ragmon.records import Doubt, Draw, QueryRecord, Verdict
from ragmon.signals.evidence import SAMPLED_JUDGE

_MOST_DOUBTS = 20
_LONGEST_QUESTION = 500  # characters


def judgeable(record: QueryRecord) -> bool:
    """True with an answer, and a text it could rest on."""
    return bool(record.answer) and any(chunk.text for chunk in record.chunks or ())


def question_of(record: QueryRecord) -> str:
    """The question; in a conversation with what the retriever was asked, which resolves it.

    What is longer than a question is left out: some retrievers are asked with a draft of the
    answer, whose words must not count as the user's.
    """
    query, resolved = record.query or "", record.retrieval_query or ""
    if not record.session_id or len(resolved) > _LONGEST_QUESTION or resolved == query:
        return query
    return f"{query}\n{resolved}".strip()


def case_of(record: QueryRecord, earlier: Chunks = ()) -> JudgedAnswer:
    """The question, answer and texts that the judge reads.

    Args:
        record: of the answer.
        earlier: chunks of the turns before.
    """
    chunks = tuple((chunk.id, chunk.text) for chunk in record.chunks or () if chunk.text)
    return JudgedAnswer(question_of(record), record.answer or "", chunks, earlier=earlier)


def verdict_of(record: QueryRecord, draw: Draw, got: Judgement | Failure, now: float) -> Verdict:
    """The verdict of a judgement, or of a failure that is final."""
    if isinstance(got, Failure):
        return unjudged(draw, got.reason, now)
    scores = dict(got.scores)
    return Verdict(
        query_id=record.query_id,
        judge=SAMPLED_JUDGE,
        score=scores.pop("faithfulness", None),
        probability=draw.probability,
        doubts=_doubts(record.answer or "", got.claims),
        scores=scores,
        useful=got.useful,
        rationale=got.rationale,
        version=f"{got.model} {got.prompt_version}",
        timestamp=now,
    )


def custom_verdict(
    record: QueryRecord, draw: Draw, judge: str, got: Judgement | Failure, now: float
) -> Verdict:
    """The verdict of a custom judge, or of its failure."""
    if isinstance(got, Failure):
        return unjudged(draw, got.reason, now, judge)
    return Verdict(
        query_id=record.query_id,
        judge=judge,
        score=got.scores[judge],
        probability=draw.probability,
        rationale=got.rationale,
        version=f"{got.model} {got.prompt_version}",
        timestamp=now,
    )


def unjudged(draw: Draw, reason: str, now: float, judge: str = SAMPLED_JUDGE) -> Verdict:
    """The verdict of an answer that was drawn and never judged."""
    return Verdict(
        query_id=draw.query_id,
        judge=judge,
        reason=reason,
        probability=draw.probability,
        timestamp=now,
    )


def _doubts(answer: str, claims: tuple[Claim, ...]) -> tuple[Doubt, ...]:
    """The unsupported claims; one in other words than the answer's is about the whole of it."""
    doubts = []
    for claim in claims:
        if not claim.supported:
            start = answer.find(claim.text)
            end = start + len(claim.text) if start >= 0 else len(answer)
            doubts.append(Doubt(max(start, 0), end, "unsupported_claim", claim.text, 0.0))
    return tuple(doubts[:_MOST_DOUBTS])
