"""Rows that a batch adds to the rings, one a record, without the columns that repeat.

Most of a row (``RowLayout``) says nothing new: fields that nobody logs are unknown throughout,
all hits share their number of known values, and the square of a proportion is itself. What is
grouped and summed is therefore about a third as wide as what is stored.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.row_layout import RowLayout

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
_GRID = float(1 << 20)


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


class RestatedRows(NamedTuple):
    """Rows of records whose observations changed."""

    change: BatchRows  # new less old
    growth: BatchRows  # for sums that only grow; see ``restated``


def restated(
    old: Floats, new: Floats, proportions: Mask, moments: Sequence[NDArray[np.intp]] = ()
) -> RestatedRows:
    """Rows whose sum makes records count as ``new`` and no longer as ``old``.

    Totals cannot take anything back. Of a proportion, a new outcome counts beside the old one: n
    is the number of records, Σx those that were ever 1, and n - Σx² those that were ever 0. Of
    everything else, a new value counts like that of another record, so that means stay means.

    Args:
        old: observations (n, columns), NaN for unknown.
        new: of the same records.
        proportions: the columns of which every value is 0 or 1.
        moments: columns that count anew together, because their sums are divided by each other.
    """
    old_known, known = ~np.isnan(old), ~np.isnan(new)
    old_x, x = np.where(old_known, old, 0.0), np.where(known, new, 0.0)
    differs = ((x != old_x) | (known != old_known)).any(axis=0)
    for together in moments:
        differs[together] = differs[together].any()
    active = np.flatnonzero(differs)
    layout, binary = RowLayout(new.shape[1]), proportions[active]
    known, old_known = known[:, active], old_known[:, active]
    x, old_x = x[:, active], old_x[:, active]
    counts = known.astype(np.int8) - old_known
    change = _side_by_side(layout, active, (counts, x - old_x, x**2 - old_x**2), ~binary)

    fresh = known & ~old_known
    again = known & old_known & (x != old_x)
    for together in moments:
        at = np.flatnonzero(np.isin(active, together))
        again[:, at] = again[:, at].any(axis=1, keepdims=True) & known[:, at]
    gained = on_grid(np.where(fresh | again, x, 0.0))
    squares = np.where(binary, np.where(fresh, x, 0.0) - (again & (x == 0.0)), gained**2)
    growth = (fresh | (again & ~binary), gained, squares)
    return RestatedRows(change, _side_by_side(layout, active, growth, np.ones(len(active), bool)))


def on_grid(values: Floats) -> Floats:
    """Multiples of 2^-20, whose sums do not depend on their order.

    A restart adds up in another order. Were a counter less than before by its last digit,
    Prometheus would take it for a reset.
    """
    return np.round(values * _GRID) / _GRID


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
