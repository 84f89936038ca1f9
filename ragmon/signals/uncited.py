"""The answer rests on nothing it was given."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "uncited"
HELP = "Share of answers that cite none of the chunks they were given."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 when no retrieved chunk is cited; NaN when none was given or citations are unknown."""
    given = (facts.chunks > 0) & ~np.isnan(facts.cited)
    return np.where(given, facts.cited == 0, np.nan)
