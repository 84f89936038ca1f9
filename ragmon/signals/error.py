"""The query failed."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "error"
HELP = "Share of queries that failed with an error."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 when the record carries an error. Shape (n,)."""
    return facts.failed
