"""Buckets of several widths that together cover a stretch of time.

Every observation is counted once in each tier. A window is then covered by wide buckets in
its middle and narrow ones at its edges, so a week costs about two hundred cells a series.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400


class Tier(NamedTuple):
    """A ring of ``slots`` buckets, each ``width_s`` seconds wide."""

    width_s: int
    slots: int


class Run(NamedTuple):
    """``length`` consecutive buckets of one tier, from bucket number ``first``."""

    tier: int
    first: int
    length: int

    @property
    def end(self) -> int:
        """The bucket after the last."""
        return self.first + self.length


def tiers_for(longest_window_s: float) -> tuple[Tier, ...]:
    """10 s for 15 minutes, 1 minute for 100, 10 minutes for 25 hours, then hours.

    A window's start is thus exact to less than 1 % of its length or 10 s.
    """
    hours = max(8 * DAY_S, int(longest_window_s) + DAY_S) // HOUR_S
    return (Tier(10, 90), Tier(MINUTE_S, 100), Tier(10 * MINUTE_S, 150), Tier(HOUR_S, hours))


def split(buckets: NDArray[np.int64]) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
    """Each distinct bucket, ascending, and where it stands among the buckets."""
    if not len(buckets):
        return
    if buckets.min() == buckets.max():
        yield int(buckets[0]), slice(None)
        return
    order = np.argsort(buckets, kind="stable")
    distinct, starts = np.unique(buckets[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)


def cover(tiers: Sequence[Tier], start: float, end: float, now: float) -> list[Run]:
    """Disjoint runs of buckets that together cover [start, end).

    ``end`` is rounded up and ``start`` down to the finest width still kept at that age.

    Args:
        tiers: from fine to coarse, each width a multiple of the one before.
        start: unix seconds.
        end: unix seconds, at most ``now`` plus one finest bucket.
        now: unix seconds; rings have forgotten what lies further back than their length.
    """
    first = tiers[_finest(tiers, start, now)].width_s
    last = _last_width(tiers, end, now)
    stop = -int(-end // last) * last
    cursor = int(start) // first * first
    runs: list[Run] = []
    while cursor < stop:
        tier, length = _widest(tiers, cursor, stop)
        runs.append(Run(tier, cursor // tiers[tier].width_s, length))
        cursor += length * tiers[tier].width_s
    return runs


def _finest(tiers: Sequence[Tier], moment: float, now: float) -> int:
    """The finest tier that still holds a moment."""
    for index, tier in enumerate(tiers):
        if moment > now - tier.width_s * (tier.slots - 1):
            return index
    return len(tiers) - 1


def _last_width(tiers: Sequence[Tier], end: float, now: float) -> int:
    """The finest width whose tier still holds the wider bucket that the end lies in."""
    for index, coarser in enumerate(tiers[1:]):
        if _finest(tiers, end // coarser.width_s * coarser.width_s, now) <= index:
            return tiers[index].width_s
    return tiers[-1].width_s


def _widest(tiers: Sequence[Tier], cursor: int, stop: int) -> tuple[int, int]:
    """The coarsest tier that starts at ``cursor``, and how many of its buckets to take."""
    for index in range(len(tiers) - 1, -1, -1):
        width = tiers[index].width_s
        if cursor % width == 0 and cursor + width <= stop:
            if index == len(tiers) - 1:
                return index, (stop - cursor) // width
            up_to = min(
                stop, -(-(cursor + width) // tiers[index + 1].width_s) * tiers[index + 1].width_s
            )
            return index, (up_to - cursor) // width
    raise AssertionError("the finest tier always fits")  # pragma: no cover
