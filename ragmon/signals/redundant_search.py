"""A retrieval found only what earlier ones of the same answer had found."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions, steps
from ragmon.signals.facts import Facts

NAME = "redundant_search"
HELP = "Mean share of an answer's retrievals that found only chunks which earlier ones had found."
KIND = "fraction"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """Share of the retrievals that were redundant; None where none recorded its chunks."""
    return steps.redundant(record)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.redundant
