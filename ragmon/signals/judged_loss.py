"""What the sampled judge finds missing, weighed to stand for all answers: what detectors watch.

An answer that could have been judged counts 0; one that was judged counts what it lacks over its
chance of being drawn, so that the mean is that of all answers (Horvitz and Thompson, 1952).
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "judged_loss"
HELP = "Unfaithful share of an answer over its chance of being judged."
KIND = "quantity"
METRIC = None  # the estimate with its proxy says more


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """(1 - faithfulness) / probability once looked at, 0 while unjudged; NaN before. Shape (n,)."""
    loss = (1.0 - facts.sampled) / facts.chance
    return np.where(np.isnan(facts.share), np.nan, np.where(np.isnan(loss), 0.0, loss))
