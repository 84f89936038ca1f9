"""A step on the way to an answer failed."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions, steps
from ragmon.signals.facts import Facts

NAME = "tool_error"
HELP = "Mean share of an answer's steps, retrievals and calls of tools, that failed."
KIND = "fraction"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """Share of the steps that failed; None without steps."""
    return steps.failed_share(record)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.failed_steps
