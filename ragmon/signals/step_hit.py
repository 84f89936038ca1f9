"""Some retrieval on the way to the answer has a relevant chunk among its first."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import EVIDENCE, SignalOptions, steps
from ragmon.signals.facts import Facts

NAME = "step_hit"
HELP = (
    "Share of answers with recorded steps of which any retrieval has a relevant chunk among its "
    "first retrieval.diagnosis_k, by evidence of relevance."
)
KIND = "proportion"


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each evidence."""
    return tuple({"evidence": name} for name in EVIDENCE)


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """1 when the best step ranks a relevant chunk so high; None without steps or evidence."""
    ranks = [steps.first_rank(record, evidence, options) for evidence in EVIDENCE]
    return tuple(None if rank is None else rank <= options.diagnosis_k for rank in ranks)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, evidence)."""
    by_evidence = (facts.step_rank_label, facts.step_rank_citation, facts.step_rank_score)
    ranks = np.stack(by_evidence, axis=1)
    return np.where(np.isnan(ranks), np.nan, ranks <= options.diagnosis_k)
