"""The latency of each stage."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, Latency, QueryRecord
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


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """Milliseconds of each stage; None when not recorded."""
    latency = record.latency_ms or Latency()
    return latency.total, latency.retrieval, latency.generation


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, stages)."""
    return np.stack([facts.total_ms, facts.retrieval_ms, facts.generation_ms], axis=1)
