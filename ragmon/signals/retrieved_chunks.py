"""The number of chunks that retrieval returned."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "retrieved_chunks"
HELP = "Mean number of chunks retrieved for a query."
KIND = "amount"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """The number of chunks; None when not recorded."""
    return None if record.chunks is None else len(record.chunks)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.chunks
