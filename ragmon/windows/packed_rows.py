"""Lossless small form of a table of sums, for buckets of time that rarely change any more.

Most columns of a bucket are counts, many are equal (the hits at every k share their number of
known values), and whole numbers below 256 fit in a byte: a row takes a sixth of its float64s.
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WIDTHS = (np.uint8, np.uint16, np.uint32, np.float64)
_LARGEST = np.array([np.iinfo(width).max for width in _WIDTHS[:-1]], dtype=np.float64)
_ODD = np.uint64(0x9E3779B97F4A7C15)


class PackedRows(Struct, frozen=True):
    """Rows as ``pack`` stores them; ``unpack`` gives them back."""

    place: NDArray[np.uint16]  # (width,) for each column, the stored column that equals it
    parts: tuple[NDArray[np.generic], ...]  # (columns, rows) each, from narrow to wide

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.place.nbytes + sum(part.nbytes for part in self.parts)


def pack(rows: Floats) -> PackedRows:
    """The small form of rows (n, width), whatever they hold."""
    first, place = _distinct(rows)
    columns = np.ascontiguousarray(rows.T[first])
    narrowest = _narrowest(columns)
    order = np.argsort(narrowest, kind="stable")
    stored_at = np.empty(len(order), dtype=np.uint16)
    stored_at[order] = np.arange(len(order))
    parts = (columns[narrowest == at].astype(width) for at, width in enumerate(_WIDTHS))
    return PackedRows(stored_at[place], tuple(parts))


def unpack(packed: PackedRows) -> Floats:
    """The rows, shape (n, width)."""
    columns = np.concatenate(packed.parts, dtype=np.float64)
    return np.ascontiguousarray(columns[packed.place].T)


def column(packed: PackedRows, index: int) -> Floats:
    """One column of the rows, shape (n,)."""
    at = int(packed.place[index])
    for part in packed.parts:
        if at < len(part):
            break
        at -= len(part)
    values: Floats = part[at].astype(np.float64)
    return values


def row(packed: PackedRows, index: int) -> Floats:
    """One row, shape (width,)."""
    stored = [part[:, index].astype(np.float64) for part in packed.parts]
    return np.concatenate(stored)[packed.place]


def _distinct(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the distinct columns, and for each column which of these it equals."""
    weights = (2 * np.arange(len(rows), dtype=np.uint64) + np.uint64(1)) * _ODD
    digests = (np.ascontiguousarray(rows).view(np.uint64) * weights[:, None]).sum(axis=0)
    _, first, place = np.unique(digests, return_index=True, return_inverse=True)
    if (rows[:, first[place]] == rows).all():
        return first, place
    every = np.arange(rows.shape[1])  # two columns that differ have one digest
    return every, every


def _narrowest(columns: Floats) -> NDArray[np.intp]:
    """For each column, the first of ``_WIDTHS`` that holds its values exactly."""
    if not columns.shape[1]:
        return np.zeros(len(columns), dtype=np.intp)
    whole = (columns == np.floor(columns)).all(axis=1) & (columns.min(axis=1) >= 0.0)
    return np.where(whole, np.searchsorted(_LARGEST, columns.max(axis=1)), len(_LARGEST))
