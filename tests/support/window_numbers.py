"""What windows show, by name: equal for all who counted the same records."""

import numpy as np

from ragmon.windows import Windows
from ragmon.windows.series import SeriesKey
from tests.support.examples import DAY_S

_LENGTHS_S = (300.0, 3_600.0, DAY_S, 7 * DAY_S)


def integers(held: Windows, now: float) -> dict[tuple[float, SeriesKey], tuple[list[int], ...]]:
    """Whatever is a number of queries, by window and by name."""
    shown = {}
    for length in _LENGTHS_S:
        merged = held.merge(length, now)
        queries = held.queries(length, now)
        for key, at in held.series.keys.items():
            if queries[at]:
                shown[length, key] = ([int(queries[at])], merged.latency[at].ravel().tolist())
    return shown


def sums(held: Windows, now: float) -> dict[tuple[float, SeriesKey], np.ndarray]:
    """Every sum of every window, and of all time, by name."""
    shown = {}
    for length in _LENGTHS_S:
        rows = held.merge(length, now).rows
        shown |= {(length, key): rows[at] for key, at in held.series.keys.items()}
    totals = held.totals.rows
    return shown | {(float("inf"), key): totals[at] for key, at in held.series.keys.items()}
