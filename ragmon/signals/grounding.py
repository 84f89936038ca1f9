"""The embedded judge's score of every answer it read."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "grounding"
HELP = "Mean grounding of the answers in their chunks, by the embedded judge."
KIND = "fraction"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The score in [0, 1]; NaN while unjudged. Shape (n,)."""
    return facts.grounding
