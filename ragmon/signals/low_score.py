"""Even the best chunk scores badly."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "low_score"
HELP = "Share of queries whose best retrieval score lies below retrieval.low_score."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 below the limit; NaN without scores or without a limit. Shape (n,)."""
    if options.low_score is None:
        return np.full(len(facts.top_score), np.nan)
    return np.where(np.isnan(facts.top_score), np.nan, facts.top_score < options.low_score)
