"""The answer says that it cannot be given."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import refuses
from ragmon.signals.facts import Facts

NAME = "refusal"
HELP = "Share of answers that decline: they open by saying that the sources do not tell."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 for an answer that declines, 0 for another; None without the text of an answer."""
    return refuses(record)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.refuses
