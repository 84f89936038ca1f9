"""Which stage let the user down: one diagnosis a query."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import NEVER, Facts
from ragmon.signals.unfaithful import best_score, limit

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


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """One-hot over ``MODES``. Shape (n, 5)."""
    return np.eye(len(MODES))[diagnose(facts, options)]


def diagnose(facts: Facts, options: SignalOptions) -> NDArray[np.intp]:
    """Index into ``MODES`` for each record; the earliest stage that failed counts. Shape (n,).

    retrieval: nothing retrieved, failed before anything was, every score low, or nothing
    relevant among the chunks;
    ranking: the first relevant chunk lies below the top ``diagnosis_k``;
    generation: retrieval and ranking are not to blame, yet it failed, cites nothing it was
    given, says what its chunks do not, or was disliked; none: something was checked and found good.
    """
    rank = _best_evidence(facts)
    retrieved = facts.chunks > 0
    nothing = (facts.chunks == 0) | (rank == NEVER)
    failed_early = (facts.failed == 1) & ~retrieved
    low = np.zeros(len(rank), dtype=bool)
    if options.low_score is not None:
        low = facts.top_score < options.low_score
    buried = retrieved & (rank > options.diagnosis_k)
    uncited = retrieved & (facts.cited == 0)
    faithfulness = best_score(facts)
    unfaithful = retrieved & (faithfulness < limit(facts, options))
    bad_answer = uncited | unfaithful | (facts.rating < 0) | ((facts.failed == 1) & retrieved)
    evidence = (rank, facts.cited, facts.rating, faithfulness)
    checked = np.logical_or.reduce([~np.isnan(each) for each in evidence])
    return np.select(
        [nothing | failed_early | low, buried, bad_answer, checked],
        [RETRIEVAL, RANKING, GENERATION, NONE],
        default=UNKNOWN,
    )


def _best_evidence(facts: Facts) -> NDArray[np.float64]:
    """First relevant rank by the best evidence: labels, else scores, else citations. Shape (n,)."""
    cited = np.where(facts.rank_citation == NEVER, np.nan, facts.rank_citation)
    scored = np.where(np.isnan(facts.rank_score), cited, facts.rank_score)
    return np.where(np.isnan(facts.rank_label), scored, facts.rank_label)
