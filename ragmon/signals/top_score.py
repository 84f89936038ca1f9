"""The best retrieval score, on whatever scale the retriever has."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import best_retrieval_score
from ragmon.signals.facts import Facts

NAME = "top_score"
HELP = "Mean of the best retrieval score of each query."
KIND = "quantity"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """The best score; None without scores."""
    return best_retrieval_score(record)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.top_score
