"""Number of retrievals on the way to an answer."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions, steps
from ragmon.signals.facts import Facts

NAME = "retrieval_steps"
HELP = "Mean number of retrievals of an answer, of those whose steps were recorded."
KIND = "amount"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """Number of retrievals; None where no steps were recorded."""
    return steps.searches(record)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.searches
