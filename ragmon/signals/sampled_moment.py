"""How many answers the sampled judge could have been asked about, and what the proxy says of them.

An answer that was itself looked at with a probability counts for those that were not.
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "sampled_moment"
HELP = "Answers that could have been judged, and the sum of their proxy."
KIND = "quantity"
METRIC = None  # not a number that anybody reads


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """The number of answers, and the proxy."""
    return ({"of": "answers"}, {"of": "proxy"})


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """Both divided by the probability of being looked at; NaN until then. Shape (n, 2)."""
    weight = 1.0 / facts.share
    return np.stack([weight, weight * facts.proxy], axis=1)
