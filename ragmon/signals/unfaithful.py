"""The answer says what its chunks do not support."""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import (
    BELIEVED,
    SAMPLED_JUDGE,
    best_score,
    human_score,
    verdict_of,
)
from ragmon.signals.facts import Facts

NAME = "unfaithful"
HELP = "Share of the judged answers whose faithfulness is below judge.unfaithful_below."
KIND = "proportion"


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """1 below the limit; None while unjudged."""
    score = best_score(known)
    return None if score is None else score < limit(known, options)


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    scores = best_scores(facts)
    return np.where(np.isnan(scores), np.nan, scores < limits(facts, options))


def limit(known: Amendments, options: SignalOptions) -> float:
    """The score below which an answer is doubted; a calibration sets that of its own judge."""
    if human_score(known) is None:
        verdicts = (verdict_of(known, judge) for judge in BELIEVED)
        believed = next((each for each in verdicts if each and each.score is not None), None)
        is_calibrated = believed is not None and believed.judge != SAMPLED_JUDGE
        if believed is not None and is_calibrated and believed.doubted_below is not None:
            return believed.doubted_below
    return options.unfaithful_below


def best_scores(facts: Facts) -> NDArray[np.float64]:
    """``best_score`` of a batch; NaN while unjudged. Shape (n,)."""
    own = np.where(np.isnan(facts.local), facts.grounding, facts.local)
    judged = np.where(np.isnan(facts.sampled), own, facts.sampled)
    return np.where(np.isnan(facts.faithful), judged, facts.faithful)


def limits(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """``limit`` of a batch. Shape (n,)."""
    cut = np.where(np.isnan(facts.local), facts.doubted_below, facts.local_doubted_below)
    own = np.isnan(facts.faithful) & np.isnan(facts.sampled) & ~np.isnan(cut)
    return np.where(own, cut, options.unfaithful_below)
