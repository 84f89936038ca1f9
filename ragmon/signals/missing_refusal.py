"""Nothing was retrieved, and the answer does not decline: it rests on nothing that was given."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import refuses
from ragmon.signals.facts import Facts

NAME = "missing_refusal"
HELP = "Share of answers that do not decline, of those for which no chunk was retrieved."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """0 for declining, 1 for another answer; None where chunks were retrieved or not recorded."""
    declined = refuses(record)
    return None if record.chunks != [] or declined is None else 1.0 - declined


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return np.where(facts.chunks == 0, 1.0 - facts.refuses, np.nan)
