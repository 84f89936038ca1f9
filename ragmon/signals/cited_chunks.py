"""How many of the retrieved chunks the answer cites."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "cited_chunks"
HELP = "Mean number of retrieved chunks that an answer cites."
KIND = "amount"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The number of cited chunks; NaN without citations. Shape (n,)."""
    return facts.cited
