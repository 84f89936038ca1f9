"""The answer was rated by a user."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "feedback_coverage"
HELP = "Share of the queries that a user rated."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float:
    """1 when a user rated the answer."""
    return record.feedback is not None


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch. Shape (n,)."""
    return (~np.isnan(facts.rating)).astype(np.float64)
