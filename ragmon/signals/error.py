"""The query failed."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "error"
HELP = "Share of queries that failed with an error."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float:
    """1 when the record carries an error, also an empty one."""
    return record.error is not None


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch. Shape (n,)."""
    return facts.failed
