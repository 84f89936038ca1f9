"""Sparse rings of logarithmic histograms: one bucket of time holds every series and stage.

A code names a (series, stage, bin); a bucket is the sorted distinct codes and their counts.
New codes wait uncounted in a list, because most are read only much later.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.stats.latency import BINS
from ragmon.windows.kept import KeptTotals
from ragmon.windows.tiers import Run, Tier, split

Codes = NDArray[np.int32]
_WAITING = 1 << 17  # codes that may wait in a bucket before they are counted
_LARGE = 255
_DENSE = 16  # below this many counters a code, counting beats sorting


class _Narrow(NamedTuple):
    """Integers that are mostly small: a byte each, and the others apart."""

    small: NDArray[np.uint8]  # 255: the next of the large ones
    large: Codes


class BucketState(NamedTuple):
    """Counts of a bucket at one moment; its arrays never change."""

    gaps: _Narrow  # between sorted distinct codes
    counts: _Narrow
    waiting: tuple[Codes, ...]  # codes that are not counted yet

    def is_same(self, other: "BucketState") -> bool:
        """True for two states of one bucket that was not changed between them."""
        return self.gaps is other.gaps and len(self.waiting) == len(other.waiting)

    def counted(self) -> tuple[Codes, Codes]:
        """Sorted distinct codes, and how often each was seen."""
        codes, counts = np.cumsum(_wide(self.gaps), dtype=np.int32), _wide(self.counts)
        if self.waiting:
            return _merged(codes, counts, *_distinct(np.concatenate(self.waiting)))
        return codes, counts


class Bucket:
    """One stretch of time."""

    __slots__ = ("_counts", "_gaps", "_waiting", "_waiting_size")

    def __init__(self, codes: Codes | None = None, counts: Codes | None = None) -> None:
        self._waiting: list[Codes] = []
        self._waiting_size = 0
        nothing = np.empty(0, dtype=np.int32)
        self._set(nothing if codes is None else codes, nothing if counts is None else counts)

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

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop the codes for which ``kept`` is false."""
        codes, counts = self.counted()
        self._set(codes[kept], counts[kept])

    def _set(self, codes: Codes, counts: Codes) -> None:
        self._gaps = _narrow(np.diff(codes, prepend=np.int32(0)))
        self._counts = _narrow(counts)


def _narrow(values: Codes) -> _Narrow:
    """The small form of integers of zero or more."""
    return _Narrow(np.minimum(values, _LARGE).astype(np.uint8), values[values >= _LARGE])


def _wide(values: _Narrow) -> Codes:
    """The integers again."""
    wide = values.small.astype(np.int32)
    wide[values.small == _LARGE] = values.large
    return wide


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


class LatencyRing:
    """The buckets of one tier."""

    def __init__(self, tier: Tier, stages: int) -> None:
        self.tier = tier
        self.stages = stages
        self.buckets: dict[int, Bucket] = {}
        self._newest = -1
        self._kept: KeptTotals[np.int32] = KeptTotals()

    def add(self, buckets: NDArray[np.int64], codes: Codes, sign: int = 1) -> None:
        """Count each code in its bucket, unless the ring has moved past that.

        Args:
            buckets: (n,) by number.
            codes: (n,).
            sign: -1 takes back what was counted.
        """
        self._advance(int(buckets.max()))
        kept = buckets > self._newest - self.tier.slots
        if not kept.all():
            buckets, codes = buckets[kept], codes[kept]
        for bucket, mine in split(buckets):
            stored = self.buckets.setdefault(bucket, Bucket())
            (stored.add if sign > 0 else stored.remove)(codes[mine])
        if sign > 0:
            self._kept.add(buckets, codes, 1)
        else:
            self._kept.clear()  # rare: only what was there is taken back

    def put(self, bucket: int, codes: Codes, counts: Codes) -> None:
        """Set one bucket as it was saved."""
        self.buckets[bucket] = Bucket(codes, counts)
        self._kept.clear()
        self._advance(bucket)

    def get(self, bucket: int) -> tuple[Codes, Codes]:
        """Codes and counts of one bucket."""
        stored = self.buckets.get(bucket)
        return stored.counted() if stored else (np.empty(0, np.int32), np.empty(0, np.int32))

    def states(self, run: Run) -> Iterator[tuple[int, BucketState]]:
        """The state of each bucket of a run that there is, by number."""
        for number in range(run.first, run.end):
            if number in self.buckets:
                yield number, self.buckets[number].state()

    def total(self, run: Run, series: int) -> NDArray[np.int32]:
        """Counts over a run of buckets; shape (series, stages, BINS)."""
        size = series * self.stages * BINS
        kept = self._kept.get(run, size)
        if kept is None:
            kept = self._count(run, size)
            self._kept.keep(run, kept)
        return kept.reshape(series, self.stages, BINS)

    def _count(self, run: Run, size: int) -> Codes:
        near = self._kept.near(run, size)
        if near is None:
            return self._counted_in(range(run.first, run.end), np.zeros(size, dtype=np.int32))
        other, total = near
        before, after = set(range(other.first, other.end)), set(range(run.first, run.end))
        self._counted_in(before - after, total, sign=-1)
        return self._counted_in(after - before, total)

    def _counted_in(self, buckets: Iterable[int], total: Codes, sign: int = 1) -> Codes:
        """The total with the counts of some buckets added, in place."""
        for bucket in buckets:
            if bucket in self.buckets:
                codes, counts = self.buckets[bucket].counted()
                within = codes < len(total)
                total[codes[within]] += sign * counts[within]
        return total

    def clear(self, series: list[int]) -> None:
        """Forget everything about some series."""
        self._kept.clear()
        for bucket in self.buckets.values():
            codes, _ = bucket.counted()
            bucket.keep(~np.isin(codes // (self.stages * BINS), series))

    def _advance(self, bucket: int) -> None:
        if bucket <= self._newest:
            return
        self._newest = bucket
        oldest = bucket - self.tier.slots
        for stale in [number for number in self.buckets if number <= oldest]:
            del self.buckets[stale]
            self._kept.forget(stale)
