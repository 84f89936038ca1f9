"""The rank of the first relevant chunk, as its reciprocal."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import EVIDENCE, SignalOptions
from ragmon.signals.evidence import first_relevant_rank
from ragmon.signals.facts import Facts

NAME = "reciprocal_rank"
HELP = "Mean of 1/rank of the first relevant chunk (0 when none was retrieved), by evidence."
KIND = "fraction"
METRIC = "reciprocal_rank"


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each evidence."""
    return tuple({"evidence": name} for name in EVIDENCE)


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """1/rank of the first relevant chunk, 0 when none was retrieved; None without evidence."""
    ranks = [first_relevant_rank(record, evidence, options) for evidence in EVIDENCE]
    return tuple(None if rank is None else 1.0 / rank for rank in ranks)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, evidences)."""
    return 1.0 / np.stack([facts.rank_label, facts.rank_citation, facts.rank_score], axis=1)
