"""Retrieval returned no chunk."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "zero_result"
HELP = "Share of queries for which retrieval returned no chunk."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 for no chunk, 0 for some; None when chunks were not recorded."""
    return None if record.chunks is None else not record.chunks


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(np.isnan(facts.chunks), np.nan, facts.chunks == 0)
