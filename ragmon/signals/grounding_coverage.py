"""The share of the judgeable answers that the embedded judge has read."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, is_judgeable, verdict_of
from ragmon.signals.facts import Facts

NAME = "grounding_coverage"
HELP = "Share of the answers with chunk texts that the embedded judge has scored."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 once the embedded judge has read the answer; None for what cannot be judged."""
    if not is_judgeable(record):
        return None
    return verdict_of(known, EMBEDDED_JUDGE) is not None


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(facts.judgeable == 1, facts.judged, np.nan)
