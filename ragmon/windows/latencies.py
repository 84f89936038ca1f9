"""Rings of the latencies' histograms, a bucket for each stretch of time."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ragmon.stats.latency import BINS
from ragmon.windows.kept_latencies import KeptLatencies
from ragmon.windows.latency_bucket import NO_COUNTS, Bucket, BucketState, Codes
from ragmon.windows.tiers import Run, Tier, split

_REST_AT_ONCE = 8  # buckets: some ten milliseconds when they are large


class LatencyRing:
    """The buckets of one tier."""

    def __init__(self, tier: Tier, stages: int) -> None:
        self.tier = tier
        self.stages = stages
        self.buckets: dict[int, Bucket] = {}
        self._awake: set[int] = set()  # numbers of the buckets that take their full memory
        self._newest = -1
        self._most_codes = 0  # above the largest code so far
        self._kept = KeptLatencies()

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
        self._most_codes = max(self._most_codes, int(codes.max(initial=-1)) + 1)
        touched = set()
        for bucket, mine in split(buckets):
            touched.add(bucket)
            stored = self.buckets.setdefault(bucket, Bucket())
            (stored.add if sign > 0 else stored.remove)(codes[mine])
        if sign > 0:
            self._kept.add(buckets, codes)
        else:
            self._kept.clear()  # rare: only what was there is taken back
        self._rest(touched)

    def put(self, bucket: int, codes: Codes, counts: Codes) -> None:
        """Set one bucket as it was saved."""
        stored = self.buckets[bucket] = Bucket(codes, counts)
        stored.rest()
        self._most_codes = max(self._most_codes, int(codes.max(initial=-1)) + 1)
        self._kept.clear()
        self._advance(bucket)

    def get(self, bucket: int) -> tuple[Codes, Codes]:
        """Codes and counts of one bucket."""
        stored = self.buckets.get(bucket)
        return stored.counted() if stored else NO_COUNTS

    def state(self, bucket: int) -> BucketState | None:
        """The counts of one bucket now; None: it has none."""
        stored = self.buckets.get(bucket)
        return stored.state() if stored else None

    def replace(self, bucket: int, state: BucketState, settled: BucketState) -> None:
        """Put the settled form of a bucket's state in its place, unless the bucket is another."""
        stored = self.buckets.get(bucket)
        if stored is not None:
            stored.replace(state, settled)

    def states(self, run: Run) -> Iterator[tuple[int, BucketState]]:
        """The state of each bucket of a run that there is, by number."""
        for number in range(run.first, run.end):
            if number in self.buckets:
                yield number, self.buckets[number].state()

    def total(self, run: Run, series: int) -> NDArray[np.int32]:
        """Counts over a run of buckets; shape (series, stages, BINS)."""
        size = series * self.stages * BINS
        total = np.zeros(max(size, self._most_codes), dtype=np.int32)
        kept = self._kept.get(run)
        if kept is None:
            self._count(run, total)
            codes = np.flatnonzero(total).astype(np.int32)
            self._kept.keep(run, codes, total[codes])
        else:
            codes, counts = kept
            total[codes] = counts
        return total[:size].reshape(series, self.stages, BINS)

    def _count(self, run: Run, total: Codes) -> None:
        """Add the counts of a run, by code, to zeros."""
        near = self._kept.take_near(run)
        if near is None:
            self._add_to(total, range(run.first, run.end))
            return
        other, codes, counts = near
        total[codes] = counts
        before, after = set(range(other.first, other.end)), set(range(run.first, run.end))
        self._add_to(total, before - after, sign=-1)
        self._add_to(total, after - before)

    def _add_to(self, total: Codes, buckets: Iterable[int], sign: int = 1) -> None:
        """Add the counts of some buckets."""
        for bucket in buckets:
            if bucket in self.buckets:
                codes, counts = self.buckets[bucket].counted()
                total[codes] += sign * counts

    def clear(self, series: list[int]) -> None:
        """Forget everything about some series."""
        self._kept.clear()
        for bucket in self.buckets.values():
            codes, _ = bucket.counted()
            bucket.keep(~np.isin(codes // (self.stages * BINS), series))
        self._awake.update(self.buckets)

    def _advance(self, bucket: int) -> None:
        if bucket <= self._newest:
            return
        self._newest = bucket
        oldest = bucket - self.tier.slots
        for stale in [number for number in self.buckets if number <= oldest]:
            del self.buckets[stale]
            self._awake.discard(stale)
            self._kept.forget(stale)

    def _rest(self, touched: set[int]) -> None:
        """Have some buckets rest that nothing was added to this time: those of the past."""
        for number in sorted(self._awake - touched)[:_REST_AT_ONCE]:
            self.buckets[number].rest()
            self._awake.discard(number)
        self._awake |= touched
