"""The answer cites a chunk that was not retrieved."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "cited_unretrieved"
HELP = "Share of answers that cite a chunk which was not retrieved."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 when a citation points outside the retrieved chunks; None without citations or chunks."""
    if record.chunks is None or record.citations is None:
        return None
    return not set(record.citations) <= {chunk.id for chunk in record.chunks}


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(np.isnan(facts.stray), np.nan, facts.stray > 0)
