"""Retrieval answered, with nothing."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "zero_result"
HELP = "Share of queries for which retrieval returned no chunk."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 for no chunk, 0 for some; NaN when chunks were not recorded. Shape (n,)."""
    return np.where(np.isnan(facts.chunks), np.nan, facts.chunks == 0)
