"""The share of an answer that its chunks support, by the embedded judge and by people."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, human_score, judge_score
from ragmon.signals.facts import Facts

NAME = "faithfulness"
HELP = "Mean share of an answer that its chunks support, by judge."
KIND = "fraction"


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for the embedded judge, one for people."""
    return ({"judge": EMBEDDED_JUDGE}, {"judge": "human"})


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """Scores in [0, 1] by the embedded judge and by people; None while unjudged."""
    return judge_score(known, EMBEDDED_JUDGE), human_score(known)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, 2)."""
    return np.stack([facts.grounding, facts.faithful], axis=1)
