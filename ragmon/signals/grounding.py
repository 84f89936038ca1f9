"""The embedded judge's score of every answer it read."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, judge_score
from ragmon.signals.facts import Facts

NAME = "grounding"
HELP = "Mean grounding score of the answers in their chunks, by the embedded judge (0 to 1)."
KIND = "fraction"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """The score in [0, 1]; None while unjudged."""
    return judge_score(known, EMBEDDED_JUDGE)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.grounding
