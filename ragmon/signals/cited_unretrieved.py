"""The answer cites something it was never given."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "cited_unretrieved"
HELP = "Share of answers that cite a chunk which was not retrieved."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 when a citation points outside the retrieved chunks; NaN when unknown. Shape (n,)."""
    return np.where(np.isnan(facts.stray), np.nan, facts.stray > 0)
