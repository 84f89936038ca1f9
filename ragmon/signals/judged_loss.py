"""The unfaithfulness that the sampled judge finds, weighted to stand for all answers.

An answer that could have been judged counts 0; one that was judged counts what it lacks over its
chance of being drawn, so that the mean is that of all answers (Horvitz and Thompson, 1952).
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import SAMPLED_JUDGE, judge_score
from ragmon.signals.facts import Facts

NAME = "judged_loss"
HELP = "Unfaithful share of an answer over its chance of being judged."
KIND = "quantity"
METRIC = None  # the estimate with its proxy says more


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """(1 - faithfulness) / probability once drawn, 0 while unjudged; None before the draw."""
    if known.draw is None:
        return None
    score = judge_score(known, SAMPLED_JUDGE)
    probability = known.draw.probability / known.draw.share
    return 0.0 if score is None else (1.0 - score) / probability


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    loss = (1.0 - facts.sampled) / facts.chance
    return np.where(np.isnan(facts.share), np.nan, np.where(np.isnan(loss), 0.0, loss))
