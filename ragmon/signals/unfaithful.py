"""The answer says what its chunks do not."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "unfaithful"
HELP = "Share of the judged answers whose faithfulness lies below judge.unfaithful_below."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 below the limit; NaN while unjudged. Shape (n,)."""
    score = best_score(facts)
    return np.where(np.isnan(score), np.nan, score < options.unfaithful_below)


def best_score(facts: Facts) -> NDArray[np.float64]:
    """What people say, else what the embedded judge says; NaN while unjudged. Shape (n,)."""
    return np.where(np.isnan(facts.faithful), facts.grounding, facts.faithful)
