"""The answer declines although something relevant was retrieved, by evidence of relevance."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import first_relevant_rank, refuses
from ragmon.signals.facts import NEVER, Facts

NAME = "false_refusal"
HELP = (
    "Share of answers that decline, of those for which a relevant chunk was retrieved, by evidence "
    "of relevance."
)
KIND = "proportion"

_EVIDENCE = ("label", "score")  # what declines cites nothing, so that citations are no evidence


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each evidence."""
    return tuple({"evidence": name} for name in _EVIDENCE)


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """1 for declining, 0 for an answer; None unless a relevant chunk was retrieved."""
    ranks = (first_relevant_rank(record, evidence, options) for evidence in _EVIDENCE)
    return tuple(None if rank is None or rank == NEVER else refuses(record) for rank in ranks)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, evidence)."""
    ranks = np.stack([facts.rank_label, facts.rank_score], axis=1)
    return np.where(ranks < NEVER, facts.refuses[:, None], np.nan)
