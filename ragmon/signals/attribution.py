"""How much of what was retrieved the answer used."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "attribution"
HELP = "Mean share of the retrieved chunks that the answer cites."
KIND = "fraction"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """|retrieved and cited| / |retrieved|; NaN without citations or chunks. Shape (n,)."""
    return facts.cited / np.where(facts.chunks == 0, np.nan, facts.chunks)
