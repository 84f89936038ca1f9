"""Rows of sums, computed plainly: the reference for what the windows group and pack."""

import numpy as np

from ragmon.windows.row_layout import RowLayout


def expand(values: np.ndarray) -> np.ndarray:
    """Observations (n, columns) with NaN for unknown, as rows (n, ``RowLayout.width``)."""
    known = ~np.isnan(values)
    x = np.where(known, values, 0.0)
    rows = np.concatenate([known, x, x * x, np.ones((len(values), 1))], axis=1)
    assert rows.shape[1] == RowLayout(values.shape[1]).width
    return rows
