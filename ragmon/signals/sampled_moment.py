"""The number of answers that the sampled judge could be asked about, and the sum of their proxy.

An answer that was itself looked at with a probability counts for those that were not.
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "sampled_moment"
HELP = "Answers that could have been judged, and the sum of their proxy."
KIND = "quantity"
METRIC = None  # input of an estimate, no figure of its own


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """The number of answers, and the proxy."""
    return ({"of": "answers"}, {"of": "proxy"})


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """Both divided by the probability of being looked at; None until then."""
    if known.draw is None:
        return None, None
    weight = 1.0 / known.draw.share
    return weight, weight * known.draw.proxy


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, 2)."""
    weight = 1.0 / facts.share
    return np.stack([weight, weight * facts.proxy], axis=1)
