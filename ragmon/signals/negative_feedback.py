"""Users who rated the answer disliked it."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "negative_feedback"
HELP = "Share of the rated answers that were rated below zero."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 for a rating below 0; NaN when unrated. Shape (n,)."""
    return np.where(np.isnan(facts.rating), np.nan, facts.rating < 0)
