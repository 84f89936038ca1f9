"""What the answer says is in the chunks it was given."""

import numpy as np
from numpy.typing import NDArray

from ragmon.signals import SignalOptions
from ragmon.signals.facts import EMBEDDED_JUDGE, Facts

NAME = "faithfulness"
HELP = "Mean share of an answer that its chunks support, by who judged it."
KIND = "fraction"


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for the embedded judge, one for people."""
    return ({"judge": EMBEDDED_JUDGE}, {"judge": "human"})


def observe_batch(facts: Facts, options: SignalOptions) -> NDArray[np.float64]:
    """Scores in [0, 1]; NaN while unjudged. Shape (n, 2)."""
    return np.stack([facts.grounding, facts.faithful], axis=1)
