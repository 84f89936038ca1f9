"""How much of what could be judged the embedded judge has read."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "grounding_coverage"
HELP = "Share of the answers with readable context that the embedded judge has read."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 once read; NaN for what cannot be judged. Shape (n,)."""
    return np.where(facts.judgeable == 1, facts.judged, np.nan)
