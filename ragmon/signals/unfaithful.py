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
    return np.where(np.isnan(score), np.nan, score < limit(facts, options))


def best_score(facts: Facts) -> NDArray[np.float64]:
    """What people say, else the sampled judge, else the embedded one; NaN while unjudged."""
    judged = np.where(np.isnan(facts.sampled), facts.grounding, facts.sampled)
    return np.where(np.isnan(facts.faithful), judged, facts.faithful)


def limit(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """Below which the best score is doubted: a calibration cuts its own judge's. Shape (n,)."""
    own = np.isnan(facts.faithful) & np.isnan(facts.sampled) & ~np.isnan(facts.doubted_below)
    return np.where(own, facts.doubted_below, options.unfaithful_below)
