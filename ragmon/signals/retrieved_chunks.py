"""How many chunks retrieval returned."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "retrieved_chunks"
HELP = "Mean number of chunks retrieved for a query."
KIND = "amount"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The number of chunks; NaN when not recorded. Shape (n,)."""
    return facts.chunks
