"""The allowance of false alarms, shared out over everything that is watched.

Weighted Bonferroni: a stream with weight w (weights sum to one) may be wrong w times the
allowance, so its evidence must reach A = 43,200 / (allowed · w), minutes in thirty days over
false alarms in thirty days. Rates add up whatever the dependence between streams.
"""

import math

import numpy as np

from ragmon.detectors.arrays import Bools, Floats
from ragmon.detectors.core import MONTH_MINUTES
from ragmon.detectors.streams import StreamTable

SLICES_TOGETHER = 1.0  # all slices of a metric weigh as much as the whole


def weights(streams: StreamTable, active: Bools) -> Floats:
    """The share of the allowance of each stream; they sum to one over the active ones.

    Within a pipeline and metric the whole weighs one and its slices one together.
    """
    raw = np.zeros(len(streams))
    raw[active & ~streams.sliced] = 1.0
    slices = np.flatnonzero(active & streams.sliced)
    _, group, size = np.unique(streams.subject[slices], return_inverse=True, return_counts=True)
    raw[slices] = SLICES_TOGETHER / size[group]
    total = math.fsum(raw.tolist())  # the same whatever the order of the streams
    return raw / total if total else raw


def minutes_to_false_alarm(shares: Floats, allowed: float) -> Floats:
    """A of each stream; infinite where the share is zero.

    Args:
        shares: weights that sum to at most one.
        allowed: false alarms in thirty days, of all streams together.
    """
    minutes = np.full(len(shares), np.inf)
    np.divide(MONTH_MINUTES, allowed * shares, out=minutes, where=shares > 0.0)
    return minutes


def guarantee(limit: float, total: float) -> str:
    """Bound on false alarms that a threshold gives, in words."""
    months = limit / MONTH_MINUTES
    own = f"{months:,.0f} months" if months >= 1.5 else f"{limit / 1_440.0:,.0f} days"
    return (
        f"if nothing changed, this metric would raise a false alarm once in {own} on average at "
        f"most, and everything that is watched together {total:g} in 30 days"
    )
