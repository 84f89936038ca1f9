"""Logarithmic histograms of every series and stage over one stretch of time.

A code names a (series, stage, bin); a bucket is the sorted distinct codes and their counts.
New codes wait uncounted in a list, because most are read only much later.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.narrow import Narrow

Codes = NDArray[np.int32]
_WAITING = 1 << 17  # codes that may wait in a bucket before they are counted
_WORTH_RESTING = 8_192  # bytes
_DENSE = 16  # below this many counters a code, counting beats sorting


NO_COUNTS: tuple[Codes, Codes] = (np.empty(0, np.int32), np.empty(0, np.int32))
"""Codes and counts of a bucket that has none."""


class BucketState(NamedTuple):
    """Counts of a bucket at one moment; its arrays never change."""

    gaps: Narrow  # between sorted distinct codes
    counts: Narrow
    waiting: tuple[Codes, ...]  # codes that are not counted yet

    def is_same(self, other: "BucketState") -> bool:
        """True for two states of one bucket that was not changed between them."""
        return self.gaps is other.gaps and len(self.waiting) == len(other.waiting)

    def counted(self) -> tuple[Codes, Codes]:
        """Sorted distinct codes, and how often each was seen."""
        codes, counts = np.cumsum(self.gaps.wide(), dtype=np.int32), self.counts.wide()
        if self.waiting:
            return _merged(codes, counts, *_distinct(np.concatenate(self.waiting)))
        return codes, counts

    def settled(self) -> "BucketState":
        """The same counts, with nothing that waits."""
        return _settled(*self.counted()) if self.waiting else self

    def rest(self) -> None:
        """Take less memory; on any thread."""
        self.gaps.rest()
        self.counts.rest()


class Bucket:
    """One stretch of time."""

    __slots__ = ("_counts", "_gaps", "_waiting", "_waiting_size")

    def __init__(self, codes: Codes | None = None, counts: Codes | None = None) -> None:
        self._waiting: list[Codes] = []
        self._waiting_size = 0
        no_codes, no_counts = NO_COUNTS
        self._gaps, self._counts, _ = _settled(
            no_codes if codes is None else codes, no_counts if counts is None else counts
        )

    @property
    def waiting(self) -> int:
        """Codes that are not counted yet."""
        return self._waiting_size

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self._gaps.nbytes + self._counts.nbytes + 4 * self._waiting_size

    def add(self, codes: Codes) -> None:
        """Count each code once more."""
        self._waiting.append(codes)
        self._waiting_size += len(codes)
        if self._waiting_size > _WAITING:
            self.counted()

    def remove(self, codes: Codes) -> None:
        """Count each code once less, where it was counted."""
        counted, counts = self.counted()
        gone, times = _distinct(codes)
        _, at, of = np.intersect1d(counted, gone, assume_unique=True, return_indices=True)
        counts = counts.copy()
        counts[at] = np.maximum(counts[at] - times[of], 0)
        self._set(counted[counts > 0], counts[counts > 0])

    def counted(self) -> tuple[Codes, Codes]:
        """Sorted distinct codes, and how often each was seen."""
        codes, counts = self.state().counted()
        if self._waiting:
            self._set(codes, counts)
            self._waiting.clear()
            self._waiting_size = 0
        return codes, counts

    def state(self) -> BucketState:
        """Its counts now, for another thread to add up."""
        return BucketState(self._gaps, self._counts, tuple(self._waiting))

    def replace(self, state: BucketState, settled: BucketState) -> None:
        """Put the settled form of a state in its place; what came after it goes on waiting."""
        if self._gaps is state.gaps and self._counts is state.counts:
            self._gaps, self._counts, _ = settled
            del self._waiting[: len(state.waiting)]
            self._waiting_size = sum(map(len, self._waiting))

    def rest(self) -> None:
        """Take as little memory as possible, unless that is hardly less."""
        loose = 0 if self._gaps.rests else self._gaps.nbytes + self._counts.nbytes
        if loose + 4 * self._waiting_size >= _WORTH_RESTING:
            self.counted()
            self.state().rest()

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop the codes for which ``kept`` is false."""
        codes, counts = self.counted()
        self._set(codes[kept], counts[kept])

    def _set(self, codes: Codes, counts: Codes) -> None:
        self._gaps, self._counts, _ = _settled(codes, counts)


def _settled(codes: Codes, counts: Codes) -> BucketState:
    return BucketState(Narrow(np.diff(codes, prepend=np.int32(0))), Narrow(counts), ())


def _merged(
    codes: Codes, counts: Codes, more_codes: Codes, more_counts: Codes
) -> tuple[Codes, Codes]:
    if not len(codes):
        return more_codes, more_counts
    both, inverse = np.unique(np.concatenate([codes, more_codes]), return_inverse=True)
    weights = np.concatenate([counts, more_counts])
    return both, np.bincount(inverse, weights=weights).astype(np.int32)


def _distinct(codes: Codes) -> tuple[Codes, Codes]:
    """Sorted distinct codes and their counts."""
    if int(codes.max()) > _DENSE * len(codes):
        distinct, counts = np.unique(codes, return_counts=True)
        return distinct, counts.astype(np.int32)
    dense = np.bincount(codes)
    seen = np.flatnonzero(dense)
    return seen.astype(np.int32), dense[seen].astype(np.int32)
