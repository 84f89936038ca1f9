"""How many answers were rated at all."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "feedback_coverage"
HELP = "Share of the queries that a user rated."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 when rated. Shape (n,)."""
    return (~np.isnan(facts.rating)).astype(np.float64)
