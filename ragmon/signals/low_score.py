"""The best chunk scores below the limit."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import best_retrieval_score
from ragmon.signals.facts import Facts

NAME = "low_score"
HELP = "Share of queries whose best retrieval score is below retrieval.low_score."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 below the limit; None without scores or without a limit."""
    best = best_retrieval_score(record)
    if best is None or options.low_score is None:
        return None
    return best < options.low_score


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    if options.low_score is None:
        return np.full(len(facts.top_score), np.nan)
    return np.where(np.isnan(facts.top_score), np.nan, facts.top_score < options.low_score)
