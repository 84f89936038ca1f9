"""The best retrieval score, on whatever scale the retriever has."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "top_score"
HELP = "Mean of the best retrieval score of each query."
KIND = "quantity"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The best score; NaN without scores. Shape (n,)."""
    return facts.top_score
