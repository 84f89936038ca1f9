"""The answer is about what the question is about, as far as embeddings tell."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "query_answer_similarity"
HELP = "Mean cosine of the embeddings of question and answer."
KIND = "quantity"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """Cosine in [-1, 1]; None without embeddings."""
    return record.query_answer_similarity


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.similarity
