"""The stage that failed: one diagnosis a query."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions, low_score, negative_feedback, uncited, unfaithful
from ragmon.signals.evidence import best_score, cited_chunks, first_relevant_rank
from ragmon.signals.facts import NEVER, Facts

NAME = "failure_mode"
HELP = "Share of queries by failure mode: retrieval, ranking, generation, none or unknown."
KIND = "proportion"

FAILED = ("retrieval", "ranking", "generation")
"""The modes that are failures: which stage it was."""

MODES = (*FAILED, "none", "unknown")
RETRIEVAL, RANKING, GENERATION, NONE, UNKNOWN = range(len(MODES))


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each mode."""
    return tuple({"mode": mode} for mode in MODES)


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """One-hot over ``MODES``."""
    mode = diagnose(record, known, options)
    return tuple(mode == name for name in MODES)


def diagnose(record: QueryRecord, known: Amendments, options: SignalOptions) -> str:
    """One of ``MODES``; the earliest stage that failed counts.

    retrieval: nothing retrieved, failed before anything was, every score low, or nothing
    relevant among the chunks;
    ranking: the first relevant chunk lies below the top ``diagnosis_k``;
    generation: retrieval and ranking are not to blame, yet it failed, cites no retrieved chunk,
    is unfaithful to them, or was disliked; none: something was checked and found good.
    """
    rank = best_rank(record, options)
    failed = record.error is not None
    if record.chunks == [] or rank == NEVER or (failed and not record.chunks):
        return "retrieval"
    if low_score.observe(record, known, options):
        return "retrieval"
    if rank is not None and rank > options.diagnosis_k:
        return "ranking"
    if record.chunks and (failed or unfaithful.observe(record, known, options)):
        return "generation"
    if uncited.observe(record, known, options) or negative_feedback.observe(record, known, options):
        return "generation"
    checks = (rank, cited_chunks(record), record.feedback, best_score(known))
    return "unknown" if all(check is None for check in checks) else "none"


def best_rank(record: QueryRecord, options: SignalOptions) -> float | None:
    """First relevant rank by the best evidence: labels, else scores, else citations.

    That no chunk is cited does not prove that none is relevant.
    """
    for evidence in ("label", "score"):
        rank = first_relevant_rank(record, evidence, options)
        if rank is not None:
            return rank
    rank = first_relevant_rank(record, "citation", options)
    return None if rank == NEVER else rank


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch. Shape (n, 5)."""
    return np.eye(len(MODES))[diagnose_batch(facts, options)]


def diagnose_batch(facts: Facts, options: SignalOptions) -> NDArray[np.intp]:
    """``diagnose`` of a batch, as indices into ``MODES``. Shape (n,)."""
    rank = best_ranks(facts)
    retrieved = facts.chunks > 0
    nothing = (facts.chunks == 0) | (rank == NEVER)
    failed_early = (facts.failed == 1) & ~retrieved
    low = np.zeros(len(rank), dtype=bool)
    if options.low_score is not None:
        low = facts.top_score < options.low_score
    buried = retrieved & (rank > options.diagnosis_k)
    cites_nothing = retrieved & (facts.cited == 0)
    faithfulness = unfaithful.best_scores(facts)
    doubted = retrieved & (faithfulness < unfaithful.limits(facts, options))
    failed_late = (facts.failed == 1) & retrieved
    bad_answer = cites_nothing | doubted | failed_late | (facts.rating < 0)
    evidence = (rank, facts.cited, facts.rating, faithfulness)
    checked = np.logical_or.reduce([~np.isnan(each) for each in evidence])
    return np.select(
        [nothing | failed_early | low, buried, bad_answer, checked],
        [RETRIEVAL, RANKING, GENERATION, NONE],
        default=UNKNOWN,
    )


def best_ranks(facts: Facts) -> NDArray[np.float64]:
    """``best_rank`` of a batch; NaN without evidence. Shape (n,)."""
    cited = np.where(facts.rank_citation == NEVER, np.nan, facts.rank_citation)
    scored = np.where(np.isnan(facts.rank_score), cited, facts.rank_score)
    return np.where(np.isnan(facts.rank_label), scored, facts.rank_label)
