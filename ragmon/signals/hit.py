"""A relevant chunk is among the first k."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import EVIDENCE, SignalOptions
from ragmon.signals.evidence import first_relevant_rank
from ragmon.signals.facts import Facts

NAME = "hit"
HELP = "Share of queries with a relevant chunk among the first k, by evidence of relevance."
KIND = "proportion"


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each evidence and k."""
    return tuple({"k": str(k), "evidence": name} for name in EVIDENCE for k in options.ks)


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """1 when the first relevant rank is at most k; None without evidence."""
    ranks = [first_relevant_rank(record, evidence, options) for evidence in EVIDENCE]
    return tuple(None if rank is None else rank <= k for rank in ranks for k in options.ks)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, variants)."""
    ranks = np.stack([facts.rank_label, facts.rank_citation, facts.rank_score], axis=1)
    hits = ranks[:, :, None] <= np.asarray(options.ks, dtype=np.float64)
    observed = np.where(np.isnan(ranks)[:, :, None], np.nan, hits)
    return observed.reshape(len(ranks), ranks.shape[1] * len(options.ks))
