"""Rows that a batch adds to the rings, one a record, without the columns that repeat.

Most of a row (``RowLayout``) says nothing new: fields that nobody logs are unknown throughout,
all hits share their number of known values, and the square of a proportion is itself. What is
grouped and summed is therefore about a third as wide as what is stored.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.row_layout import RowLayout

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class BatchRows(NamedTuple):
    """Rows over the distinct columns alone, which can be summed before they are widened."""

    rows: Floats  # (n, k)
    place: NDArray[np.intp]  # (RowLayout.width,) for each column its place in the rows; k: zero

    def widened(self, sums: Floats) -> Floats:
        """Sums of rows, shape (m, k), over all columns of ``RowLayout``."""
        padded = np.zeros((len(sums), sums.shape[1] + 1))
        padded[:, :-1] = sums
        return np.take(padded, self.place, axis=1)


def added(values: Floats, proportions: Mask) -> BatchRows:
    """Rows of new records.

    Args:
        values: observations (n, columns), NaN for unknown.
        proportions: the columns of which every value is 0 or 1.
    """
    known = ~np.isnan(values)
    active = np.flatnonzero(known.any(axis=0))
    known = known[:, active]
    x = np.where(known, values[:, active], 0.0)
    layout = RowLayout(values.shape[1])
    rows, place = _side_by_side(layout, active, (known, x, x**2), ~proportions[active])
    unknown = place == rows.shape[1]
    place[unknown] += 1
    place[layout.queries] = rows.shape[1]
    return BatchRows(np.concatenate([rows, np.ones((len(values), 1))], axis=1), place)


def changed(old: Floats, new: Floats, proportions: Mask) -> BatchRows:
    """Rows whose sum makes records count as ``new`` and no longer as ``old``."""
    old_known, known = ~np.isnan(old), ~np.isnan(new)
    old_x, x = np.where(old_known, old, 0.0), np.where(known, new, 0.0)
    active = np.flatnonzero(((x != old_x) | (known != old_known)).any(axis=0))
    counts = known[:, active].astype(np.int8) - old_known[:, active]
    x, old_x = x[:, active], old_x[:, active]
    moments = (counts, x - old_x, x**2 - old_x**2)
    return _side_by_side(RowLayout(new.shape[1]), active, moments, ~proportions[active])


def _side_by_side(
    layout: RowLayout,
    active: NDArray[np.intp],
    moments: tuple[NDArray[np.bool_] | NDArray[np.int8], Floats, Floats],
    squared: Mask,
) -> BatchRows:
    """Counts, sums and squares of the active columns, each distinct one once.

    Args:
        layout: of all columns.
        active: the columns that the moments are of.
        moments: (n, active) each.
        squared: the active columns whose squares are not their sums.
    """
    counts, x, squares = moments
    by_column = np.ascontiguousarray(counts.T)
    distinct: dict[bytes, int] = {}
    count_at = [distinct.setdefault(each.tobytes(), len(distinct)) for each in by_column]
    first = [count_at.index(number) for number in range(len(distinct))]
    sum_at = len(first) + np.arange(len(active))
    square_at = sum_at.copy()
    square_at[squared] = sum_at[-1:] + 1 + np.arange(squared.sum())
    rows = np.concatenate([counts[:, first], x, squares[:, squared]], axis=1, dtype=np.float64)
    place = np.full(layout.width, rows.shape[1])
    for part, at in zip(layout.moments, (np.array(count_at, int), sum_at, square_at), strict=True):
        place[part][active] = at
    return BatchRows(rows, place)
