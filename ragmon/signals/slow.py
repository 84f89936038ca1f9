"""The user waited too long."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "slow"
HELP = "Share of queries whose total latency exceeds latency.slow_ms."
KIND = "proportion"


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1 above ``slow_ms``; NaN without a total latency. Shape (n,)."""
    return np.where(np.isnan(facts.total_ms), np.nan, facts.total_ms > options.slow_ms)
