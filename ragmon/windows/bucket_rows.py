"""Rows of one bucket of time: open to be added to, or packed once it rests."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.packed_rows import PackedRows, column, pack, row, unpack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FEWEST = 16  # rows that an open bucket has room for
_NO_ROWS: Floats = np.empty((0, 0))
_NO_PLACES: NDArray[np.int32] = np.empty(0, dtype=np.int32)


class Rows(NamedTuple):
    """Rows of some series."""

    series: Ints  # (n,) distinct
    rows: Floats  # (n, width)


class BucketRowsState(NamedTuple):
    """Rows of a bucket at one moment; nothing of it is changed in place."""

    series: NDArray[np.int32]  # (n,) distinct
    rows: Floats | PackedRows  # (n, width)

    def get(self) -> Rows:
        """Every row, by series ascending."""
        rows = unpack(self.rows) if isinstance(self.rows, PackedRows) else self.rows
        order = np.argsort(self.series, kind="stable")
        return Rows(self.series[order].astype(np.int64), rows[order])


class BucketRows:
    """The series that have something in a bucket, a row each."""

    __slots__ = ("_packed", "_places", "_rows", "_series", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._series = _NO_PLACES
        self._packed: PackedRows | None = None
        self._rows = _NO_ROWS  # with room for more; none while packed
        self._places = _NO_PLACES  # by series, -1: none; empty while packed

    @property
    def open_rows(self) -> int:
        """Rows that take their full room in memory."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = self._series.nbytes + self._rows.nbytes + self._places.nbytes
        return arrays + (0 if self._packed is None else self._packed.nbytes)

    def add(self, series: Ints, rows: Floats) -> None:
        """Add a row to each of some distinct series."""
        self._open()
        places = self._find(series)
        if (places < 0).any():
            self._append(series[places < 0])
            places = self._find(series)
        self._rows[places] += rows

    def put(self, series: Ints, rows: Floats) -> None:
        """Have these rows and no others."""
        self._series, self._packed = series.astype(np.int32), pack(rows)
        self._rows, self._places = _NO_ROWS, _NO_PLACES

    def get(self) -> Rows:
        """Every row, by series ascending; not to be changed."""
        return BucketRowsState(self._series, self._packed or self._open_rows()).get()

    def state(self) -> BucketRowsState:
        """Its rows now, for another thread to read."""
        return BucketRowsState(self._series, self._packed or self._open_rows().copy())

    def row(self, series: int) -> Floats | None:
        """The row of one series; None when it has none."""
        at = np.flatnonzero(self._series == series)
        if not len(at):
            return None
        if self._packed is not None:
            return row(self._packed, int(at[0]))
        open_row: Floats = self._rows[int(at[0])]
        return open_row

    def has(self, series: Ints, at: int) -> NDArray[np.bool_]:
        """True for the series whose row is above zero in column ``at``."""
        if self._packed is not None:
            values = column(self._packed, at)
        else:
            values = self._rows[: len(self._series), at]
        return np.isin(series, self._series[values > 0.0])

    def drop(self, series: Ints) -> None:
        """Forget some series."""
        if np.isin(self._series, series).any():
            mine = self.get()
            kept = ~np.isin(mine.series, series)
            self.put(mine.series[kept], mine.rows[kept])

    def rest(self) -> None:
        """Take as little memory as possible, until something is added."""
        if self._packed is None:
            self.put(*self.get())

    def _open_rows(self) -> Floats:
        return self._rows[: len(self._series)].reshape(-1, self._width)

    def _open(self) -> None:
        if self._packed is None:
            return
        rows, series = unpack(self._packed), self._series
        self._packed, self._series = None, _NO_PLACES
        self._append(series.astype(np.int64))
        self._rows[: len(series)] = rows

    def _find(self, series: Ints) -> NDArray[np.int32]:
        """The place of each series' row; -1 for none."""
        places = np.full(len(series), -1, dtype=np.int32)
        within = series < len(self._places)
        places[within] = self._places[series[within]]
        return places

    def _append(self, series: Ints) -> None:
        """Make rows of zeros for distinct series that have none."""
        before, count = len(self._series), len(self._series) + len(series)
        if count > len(self._rows):
            room = np.zeros((max(_FEWEST, count, 3 * before // 2), self._width))
            if before:
                room[:before] = self._rows[:before]
            self._rows = room
        highest = int(series.max(initial=-1))
        if highest >= len(self._places):
            places = np.full(highest + 1, -1, dtype=np.int32)
            places[: len(self._places)] = self._places
            self._places = places
        self._places[series] = np.arange(before, count)
        self._series = np.concatenate([self._series, series.astype(np.int32)])
