"""The question was asked before in the same minute, by the same user or session."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "repeat"
HELP = "How often the question was asked before in its minute; nothing for the first time."
KIND = "amount"
METRIC = None  # its count is the number of repeats; a mean would say little


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 for the first repeat, 2 for the next; None for a question that is asked first."""
    return record.repeat or None


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(facts.repeat > 0.0, facts.repeat, np.nan)
