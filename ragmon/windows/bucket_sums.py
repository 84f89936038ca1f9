"""Rows of a batch, summed by series and bucket of time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.windows.moments import group


class BucketSums(NamedTuple):
    """Rows of distinct pairs of series and bucket."""

    series: NDArray[np.int64]
    buckets: NDArray[np.int64]
    rows: NDArray[np.float64]


NO_SUMS = BucketSums(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0)))


def by_series(
    dim_index: NDArray[np.int32],
    buckets: NDArray[np.int64],
    members: NDArray[np.int64],
    rows: NDArray[np.float64],
) -> BucketSums:
    """The rows of records, summed by series and bucket.

    First by dims, of which there are fewer than records, then by the series these belong to.
    """
    if not len(rows):
        return NO_SUMS
    first, sums = group(dim_index.astype(np.int64) << 40 | buckets, rows)
    series, pair = pairs(members[dim_index[first]])
    of_series = buckets[first][pair]
    first, sums = group(series << 40 | of_series, sums, pair)
    return BucketSums(series[first], of_series[first], sums)


def widened(sums: BucketSums, factor: int) -> BucketSums:
    """The sums over buckets that many times as wide."""
    if not len(sums.rows):
        return sums
    wider = sums.buckets // factor
    if sums.buckets.min() == sums.buckets.max():  # one row a series already
        return BucketSums(sums.series, wider, sums.rows)
    first, rows = group(sums.series << 40 | wider, sums.rows)
    return BucketSums(sums.series[first], wider[first], rows)


def joined(sums: BucketSums, more: BucketSums) -> BucketSums:
    """The sums of both, by series and bucket."""
    if not len(more.rows) or not len(sums.rows):
        return sums if len(sums.rows) else more
    parts = zip(sums, more, strict=True)
    series, buckets, rows = (np.concatenate(columns) for columns in parts)
    first, sums_of_both = group(series << 40 | buckets, rows)
    return BucketSums(series[first], buckets[first], sums_of_both)


def in_parts(sums: BucketSums, most: int) -> Iterator[BucketSums]:
    """At most so many of the sums at a time, the oldest buckets first."""
    if len(sums.series) <= most:
        if len(sums.series):
            yield sums
        return
    order = np.argsort(sums.buckets, kind="stable")
    for first in range(0, len(order), most):
        at = order[first : first + most]
        yield BucketSums(sums.series[at], sums.buckets[at], sums.rows[at])


def pairs(members: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every (series, row) pair of a table of members padded with -1."""
    row, column = np.nonzero(members >= 0)
    return members[row, column], row
