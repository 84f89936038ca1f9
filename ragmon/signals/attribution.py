"""The share of the retrieved chunks that the answer used."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import cited_chunks
from ragmon.signals.facts import Facts

NAME = "attribution"
HELP = "Mean share of the retrieved chunks that the answer cites."
KIND = "fraction"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """|retrieved and cited| / |retrieved|; None without citations or chunks."""
    cited = cited_chunks(record)
    return len(cited) / len(record.chunks) if cited is not None and record.chunks else None


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.cited / np.where(facts.chunks == 0, np.nan, facts.chunks)
