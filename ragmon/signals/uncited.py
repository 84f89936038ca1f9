"""The answer cites no retrieved chunk."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import cited_chunks
from ragmon.signals.facts import Facts

NAME = "uncited"
HELP = "Share of answers that cite none of the retrieved chunks."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 when no retrieved chunk is cited; None without chunks or citations."""
    if not record.chunks:
        return None
    cited = cited_chunks(record)
    return None if cited is None else not cited


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    can_cite = (facts.chunks > 0) & ~np.isnan(facts.cited)
    return np.where(can_cite, facts.cited == 0, np.nan)
