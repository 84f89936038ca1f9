"""The user waited too long."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "slow"
HELP = "Share of queries whose total latency exceeds latency.slow_ms."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 above ``slow_ms``; None without a total latency."""
    if record.latency_ms is None or record.latency_ms.total is None:
        return None
    return record.latency_ms.total > options.slow_ms


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(np.isnan(facts.total_ms), np.nan, facts.total_ms > options.slow_ms)
