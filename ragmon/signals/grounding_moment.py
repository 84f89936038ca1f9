"""The sums behind the mean grounding of a sample: each answer counts for those not drawn.

With w = 1 / probability, the moments w, w y and w^2 y (their sums and sums of squares) give the
weighted mean, its variance and Kish's effective sample size (``ragmon.windows.estimates``).
"""

import numpy as np
from numpy.typing import NDArray

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, verdict_of
from ragmon.signals.facts import Facts

NAME = "grounding_moment"
HELP = "Inverse-probability moments of the grounding scores."
KIND = "quantity"
METRIC = None  # input of an estimate, no figure of its own


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """w, w y, w^2 y."""
    return ({"of": "w"}, {"of": "wy"}, {"of": "wwy"})


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """The moments of ``variants``; None while unjudged."""
    verdict = verdict_of(known, EMBEDDED_JUDGE)
    if verdict is None or verdict.score is None:
        return None, None, None
    weight = 1.0 / verdict.probability
    return weight, weight * verdict.score, weight**2 * verdict.score


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """The same of a batch, NaN for None. Shape (n, 3)."""
    weight = np.where(np.isnan(facts.grounding), np.nan, 1.0 / facts.probability)
    return np.stack([weight, weight * facts.grounding, weight**2 * facts.grounding], axis=1)
