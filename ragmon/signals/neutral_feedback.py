"""Users who rated the answer neither liked nor disliked it."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "neutral_feedback"
HELP = "Share of the rated answers that were rated zero."
KIND = "proportion"
METRIC = None  # what the other two ratios leave


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 for a rating of 0; None when unrated."""
    return None if record.feedback is None else record.feedback == 0


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(np.isnan(facts.rating), np.nan, facts.rating == 0)
