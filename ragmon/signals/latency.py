"""How long each stage took."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import Facts

NAME = "latency_ms"
HELP = "Mean latency of a stage."
KIND = "amount"
METRIC = None  # the histogram gives quantiles, which say more

STAGES = ("total", "retrieval", "generation")


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each stage."""
    return tuple({"stage": stage} for stage in STAGES)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """Milliseconds; NaN when not recorded. Shape (n, stages)."""
    return np.stack([facts.total_ms, facts.retrieval_ms, facts.generation_ms], axis=1)
