"""The number of retrieved chunks that the answer cites."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import cited_chunks
from ragmon.signals.facts import Facts

NAME = "cited_chunks"
HELP = "Mean number of retrieved chunks that an answer cites."
KIND = "amount"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """The number of retrieved chunks that are cited; None without citations or chunks."""
    cited = cited_chunks(record)
    return None if cited is None else len(cited)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.cited
