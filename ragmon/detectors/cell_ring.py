"""Cells of every stream by bucket of time, in a ring of buckets.

A cell is (n, Σ loss, Σ loss²). Of most streams every loss is 0 or 1: whole numbers, of which the
last two are equal. They take 8 bytes; a stream that was ever given another cell takes 24 more.

Cells are answered in the shape (streams, 3), and lie in memory part by part: what is asked of
them is asked of one part of all streams.
"""

import numpy as np

from ragmon.detectors.arrays import Bools, Floats, Ints, grown
from ragmon.detectors.kept_sums import KeptSums

_DENSE = 8  # buckets by streams for each cell to be added, up to which a table of all is filled
_LARGEST = 2.0**31  # of whole numbers; a bucket would need millions of records a second
_PARTS = (0, 1, 1)  # of the counts, that make a cell


class CellRing:
    """Buckets by number, each with a cell a stream."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.epochs: Ints = np.full(slots, -1, dtype=np.int64)
        self.dirty: set[int] = set()
        self._counts = np.zeros((2, slots, 0), dtype=np.int32)  # n and Σ loss; not of wide streams
        self._wide: Ints = np.zeros(0, dtype=np.int64)  # streams that need whole cells
        self._cells: Floats = np.zeros((3, slots, 0))  # theirs
        self._is_wide: Bools = np.zeros(0, dtype=np.bool_)
        self._kept = KeptSums()

    @property
    def streams(self) -> int:
        """Number of streams that there is room for."""
        return len(self._is_wide)

    @property
    def nbytes(self) -> int:
        """Memory of the buckets."""
        return self._counts.nbytes + self._cells.nbytes

    def grow(self, streams: int) -> None:
        """Make room for that many streams."""
        more = streams - self.streams
        if more > 0:
            room = np.zeros((2, self.slots, more), dtype=np.int32)
            self._counts = np.concatenate([self._counts, room], axis=2)
            self._is_wide = grown(self._is_wide, streams)
            self._kept.grow(streams)

    def add(self, buckets: Ints, streams: Ints, cells: Floats) -> None:
        """Add cells (m, 3), leaving out what the ring has overwritten."""
        if not len(buckets):
            return
        distinct = _distinct(buckets)
        for bucket in distinct:
            self.open(bucket)
        current = [bucket for bucket in distinct if self.epochs[bucket % self.slots] == bucket]
        self.dirty.update(current)
        if len(current) < len(distinct):
            kept = self.epochs[buckets % self.slots] == buckets
            buckets, streams, cells = buckets[kept], streams[kept], cells[kept]
        if len(buckets):
            self._add(buckets, streams, np.ascontiguousarray(cells.T))
            self._kept.add(buckets, streams, cells)

    def open(self, bucket: int) -> int:
        """The slot of a bucket, emptied if it held an older one."""
        slot = bucket % self.slots
        if self.epochs[slot] < bucket:
            self._kept.forget(int(self.epochs[slot]))
            self.epochs[slot] = bucket
            self._counts[:, slot] = 0
            self._cells[:, slot] = 0.0
        return slot

    def clear(self, streams: Ints | list[int]) -> None:
        """Forget some streams; what was saved of them is outdated."""
        cleared: Bools = np.zeros(self.streams, dtype=np.bool_)
        cleared[streams] = True
        left = ~cleared[self._wide]
        used = (self._counts[:, :, streams] != 0).any(axis=(0, 2))
        used |= (self._cells[:, :, ~left] != 0.0).any(axis=(0, 2))
        self.dirty.update(self.epochs[used].tolist())
        self._counts[:, :, streams] = 0
        self._wide, self._cells = self._wide[left], self._cells[:, :, left]
        self._is_wide[streams] = False
        self._kept.clear()

    def put(self, bucket: int, cells: Floats) -> None:
        """Set one bucket as it was saved."""
        slot = self.open(bucket)
        self._counts[:, slot] = 0
        self._cells[:, slot] = 0.0
        streams = np.arange(len(cells))
        self._add(np.full(len(cells), bucket), streams, np.ascontiguousarray(cells.T))
        self._kept.clear()

    def body(self, bucket: int) -> bytes:
        """One bucket as bytes, for ``load``."""
        return self.bucket(bucket).tobytes()

    def load(self, bucket: int, body: bytes) -> None:
        """Set one bucket as it was saved."""
        self.put(bucket, np.frombuffer(body).reshape(-1, 3))

    def bucket(self, bucket: int) -> Floats:
        """The cells of a bucket, (streams, 3); zeros where it is not held."""
        slot = bucket % self.slots
        if self.epochs[slot] != bucket:
            return np.zeros((3, self.streams)).T
        counts = self._counts[:, slot]
        cells: Floats = np.empty((3, self.streams))
        cells[:2] = counts
        cells[2] = counts[1]
        cells[:, self._wide] = self._cells[:, slot]
        return cells.T

    def read(self, buckets: Ints, rows: slice = slice(None)) -> Floats:
        """Cells of some buckets, (m, streams, 3); zeros where they are not held."""
        numbers = np.arange(self.streams)[rows]
        streams = np.broadcast_to(numbers, (len(buckets), len(numbers)))
        cells = self.cells_of(np.repeat(buckets, len(numbers)), streams.reshape(-1))
        return cells.reshape(len(buckets), len(numbers), 3)

    def cells_of(self, buckets: Ints, streams: Ints) -> Floats:
        """Cells of m pairs of bucket and stream, (m, 3); zeros where they are not held."""
        slots = buckets % self.slots
        cells: Floats = np.empty((len(slots), 3))
        for part, counts in enumerate(_PARTS):
            cells[:, part] = self._counts[counts, slots, streams]
        wide = np.flatnonzero(self._is_wide[streams])
        if len(wide):
            at = self._places()[streams[wide]]
            cells[wide] = self._cells[:, slots[wide], at].T
        cells[self.epochs[slots] != buckets] = 0.0
        return cells

    def counts(self, buckets: Ints, streams: Ints) -> Floats:
        """Observations n of some streams in some buckets, (m, streams); zeros as above."""
        slots = buckets % self.slots
        counts: Floats = self._counts[0][slots[:, None], streams].astype(np.float64)
        wide = np.flatnonzero(self._is_wide[streams])
        if len(wide):
            counts[:, wide] = self._cells[0][slots[:, None], self._places()[streams[wide]]]
        counts[self.epochs[slots] != buckets] = 0.0
        return counts

    def total(self, first: int, last: int, streams: Ints | None = None) -> Floats:
        """Sum over [first, last), (streams, 3); not to be changed."""
        first = max(first, last - self.slots)
        if first >= last:
            total = np.zeros((3, self.streams)).T
        else:
            total = self._kept.get(first, last, self.summed)
        return total if streams is None else total[streams]

    def summed(self, first: int, last: int) -> Floats:
        """The same made anew, for all streams."""
        if last - first == 1:
            return self.bucket(first)
        numbers = np.arange(first, last)
        slots = numbers % self.slots
        slots = slots[self.epochs[slots] == numbers]
        total: Floats = np.empty((3, self.streams))
        total[:2] = self._counts[:, slots].sum(axis=1)
        total[2] = total[1]
        total[:, self._wide] = self._cells[:, slots].sum(axis=1)
        return total.T

    def _add(self, buckets: Ints, streams: Ints, parts: Floats) -> None:
        """Add cells, by part (3, m), to buckets that are held."""
        first = int(buckets.min())
        rows, width = int(buckets.max()) - first + 1, self.streams
        if rows > self.slots or rows * width > _DENSE * len(buckets):
            self._add_few(buckets % self.slots, streams, parts)
            return
        keys = (buckets - first) * width + streams
        sums: Floats = np.empty((3, rows, width))
        for part, values in zip(sums, parts, strict=True):
            part[:] = np.bincount(keys, values, rows * width).reshape(rows, width)
        self._widen(np.flatnonzero(_needs_room(sums).any(axis=0)))
        slots = np.arange(first, first + rows) % self.slots
        self._cells[:, slots] += sums[:, :, self._wide]
        sums[:, :, self._wide] = 0.0
        self._counts[:, slots] += sums[:2].astype(np.int32)

    def _add_few(self, slots: Ints, streams: Ints, parts: Floats) -> None:
        """The same for cells that are far apart."""
        self._widen(np.unique(streams[_needs_room(parts)]))
        wide = self._is_wide[streams]
        if wide.any():
            at = self._places()[streams[wide]]
            for cells, values in zip(self._cells, parts, strict=True):
                np.add.at(cells, (slots[wide], at), values[wide])
        for counts, values in zip(self._counts, parts[:2], strict=True):
            np.add.at(counts, (slots, streams), np.where(wide, 0.0, values).astype(np.int32))

    def _widen(self, streams: Ints) -> None:
        """Give whole cells to distinct streams; what they have is kept."""
        more = streams[~self._is_wide[streams]]
        if len(more):
            cells = self._counts[:, :, more][[*_PARTS]].astype(np.float64)
            self._cells = np.concatenate([self._cells, cells], axis=2)
            self._counts[:, :, more] = 0
            self._wide = np.concatenate([self._wide, more])
            self._is_wide[more] = True

    def _places(self) -> Ints:
        """Of each stream its place among the wide ones, (streams,)."""
        places: Ints = np.zeros(self.streams, dtype=np.int64)
        places[self._wide] = np.arange(len(self._wide))
        return places


def _needs_room(parts: Floats) -> Bools:
    """Mask of the cells, (3, …), that are not two whole numbers, of which one comes twice."""
    n, total, squares = parts
    fractions: Bools = (total != squares) | (n != np.rint(n)) | (total != np.rint(total))
    mask: Bools = fractions | (np.abs(n) >= _LARGEST) | (np.abs(total) >= _LARGEST)
    return mask


def _distinct(buckets: Ints) -> list[int]:
    """The distinct buckets, ascending."""
    first, last = int(buckets.min()), int(buckets.max())
    if last - first > len(buckets):
        distinct: list[int] = np.unique(buckets).tolist()
        return distinct
    return (first + np.flatnonzero(np.bincount(buckets - first))).tolist()
