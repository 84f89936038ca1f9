"""Samples of a table of values, of which those that did not change are kept."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.text import Sample, Series, line
from ragmon.windows.series import SeriesKey

Floats = NDArray[np.float64]


class Samples(NamedTuple):
    """Samples of one family, and their text lines."""

    samples: list[Sample]
    lines: list[str]


class SampleTable:
    """A row for each pipeline, version or slice, a column for each of its series."""

    def __init__(self, named: Callable[[SeriesKey], Sequence[Series]], width: int) -> None:
        """Make it without rows.

        Args:
            named: the series of a row, which no format escapes; called once for each new row.
            width: number of columns.
        """
        self._named = named
        self._keys: list[SeriesKey] = []
        self._series, self._samples, self._lines = (
            np.empty((0, width), dtype=object) for _ in range(3)
        )
        self._values = np.empty((0, width))
        self._known = np.empty((0, width), dtype=np.bool_)

    def update(self, keys: Sequence[SeriesKey], values: Floats) -> None:
        """Show these rows and no others.

        Args:
            keys: of the rows, distinct.
            values: shape (rows, columns), not to be changed later; NaN is not shown.
        """
        if keys != self._keys:
            self._arrange(list(keys))
        self._known = ~np.isnan(values)
        changed = self._known & (values != self._values)
        series, new = self._series[changed].tolist(), values[changed].tolist()
        samples = list(zip(series, new, strict=True))
        self._samples[changed] = np.fromiter(samples, dtype=object)
        self._lines[changed] = [line(*sample) for sample in samples]
        self._values = values

    def samples(self, begin: int, end: int) -> Samples:
        """The samples of some columns, by row."""
        known = self._known[:, begin:end]
        return Samples(
            self._samples[:, begin:end][known].tolist(), self._lines[:, begin:end][known].tolist()
        )

    def _arrange(self, keys: list[SeriesKey]) -> None:
        """Move the rows that are known to their new places, and name the others."""
        before = {key: row for row, key in enumerate(self._keys)}
        known = [row for row, key in enumerate(keys) if key in before]
        at = [before[keys[row]] for row in known]
        shape = (len(keys), self._series.shape[1])
        tables = [np.empty(shape, dtype=object) for _ in range(3)]
        for table, old in zip(tables, (self._series, self._samples, self._lines), strict=True):
            table[known] = old[at]
        values = np.full(shape, np.nan)
        values[known] = self._values[at]
        for row, key in enumerate(keys):
            if key not in before:
                tables[0][row] = np.fromiter(self._named(key), dtype=object)
        self._keys, self._values = keys, values
        self._series, self._samples, self._lines = tables
