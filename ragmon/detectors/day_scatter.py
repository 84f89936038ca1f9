"""Scatter of days beyond chance, and the doubt in what so few of them show.

It is shown by second differences of their levels (bends), in which a steady drift leaves no trace.
"""

from typing import NamedTuple

import numpy as np

from ragmon.detectors.arrays import Floats, Ints

_OVERLAP = 1.9  # bends that say as much as one alone


class DayScatter(NamedTuple):
    """Of some streams; (rows,)."""

    variance: Floats  # of the level of a day; less than zero where chance explains more
    bends: Ints  # that it was seen in, at least one


def of_days(daily: Floats, chance: Floats, scatter: Floats) -> DayScatter:
    """Scatter of levels by day.

    Args:
        daily: levels, NaN where not known; (rows, days).
        chance: their variances by sampling, of losses with variance one; (rows, days).
        scatter: variance of one loss, (rows,).
    """
    bends = np.diff(daily, 2, axis=1)
    known = ~np.isnan(bends)
    expected = scatter[:, None] * (chance[:, :-2] + 4.0 * chance[:, 1:-1] + chance[:, 2:]) / 6.0
    beyond = np.where(known, np.square(np.nan_to_num(bends)) / 6.0 - expected, 0.0).sum(axis=1)
    count = np.maximum(known.sum(axis=1), 1)
    return DayScatter(np.asarray(beyond / count, dtype=np.float64), count)


def doubt(errors: Floats, bends: Ints) -> Floats:
    """Factor of a variance that so many bends show, for a test against a normal quantile; (rows,).

    The square of Student's quantile over the normal one whose tail is as likely. Source: Wallace
    (1959), Bounds on normal approximations to Student's and the chi-square distributions.

    Args:
        errors: normal quantile, in standard errors; (rows,).
        bends: (rows,).
    """
    freedom = bends / _OVERLAP
    closer = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0)
    student = freedom * np.expm1(np.square(errors / closer) / freedom)
    return np.asarray(student / np.maximum(np.square(errors), 1e-9), dtype=np.float64)
