"""Users who rated the answer liked it."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "positive_feedback"
HELP = "Share of the rated answers that were rated above zero."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 for a rating above 0; NaN when unrated. Shape (n,)."""
    return np.where(np.isnan(facts.rating), np.nan, facts.rating > 0)
