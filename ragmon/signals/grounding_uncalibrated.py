"""The embedded judge's score as its artefact gave it, which detectors watch.

A calibration that comes into force moves the level of ``grounding`` at one moment. Nothing got
worse then, so no alert may fire; and a golden run, to which traffic is compared, is scored by
the artefact alone.
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, verdict_of
from ragmon.signals.facts import Facts

NAME = "grounding_uncalibrated"
HELP = "Grounding of an answer before the pipeline's calibration."
KIND = "fraction"
METRIC = None  # `grounding` is what to look at


def observe(record: QueryRecord, known: Amendments, options: SignalOptions) -> float | None:
    """The score in [0, 1] before calibration; None while unjudged."""
    verdict = verdict_of(known, EMBEDDED_JUDGE)
    if verdict is None:
        return None
    return verdict.score if verdict.raw is None else verdict.raw


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n,)."""
    return facts.uncalibrated
