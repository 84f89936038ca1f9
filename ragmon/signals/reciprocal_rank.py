"""How far down the first relevant chunk stands."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import EVIDENCE, SignalOptions
from ragmon.signals.facts import Facts

NAME = "reciprocal_rank"
HELP = "Mean of 1/rank of the first relevant chunk (0 when none was retrieved), by evidence."
KIND = "fraction"
METRIC = "reciprocal_rank"


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each evidence."""
    return tuple({"evidence": name} for name in EVIDENCE)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """1/rank, 0 for never, NaN without evidence. Shape (n, evidences)."""
    return 1.0 / np.stack([facts.rank_label, facts.rank_citation, facts.rank_score], axis=1)
