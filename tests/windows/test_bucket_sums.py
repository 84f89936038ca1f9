"""Sums by series and bucket, in parts."""

import numpy as np

from ragmon.pipeline import Pipeline
from ragmon.records import Latency, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from ragmon.windows import Windows
from ragmon.windows.bucket_sums import NO_SUMS, BucketSums, in_parts

NOW = 1_795_300_000.0
RECORDS = 7_900  # just before they would be counted anyway


def test_parts_hold_every_sum_once_the_oldest_first():
    rng = np.random.default_rng(1)
    series, buckets = np.divmod(rng.permutation(5_000), 50)
    sums = BucketSums(series, buckets, np.stack([series, buckets], axis=1).astype(float))
    parts = list(in_parts(sums, 700))
    assert [len(part.series) for part in parts] == [700] * 7 + [100]
    whole = BucketSums(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    assert (np.diff(whole.buckets) >= 0).all()
    np.testing.assert_array_equal(whole.rows, np.stack([whole.series, whole.buckets], axis=1))
    assert sorted(zip(whole.series, whole.buckets, strict=True)) == sorted(
        zip(series, buckets, strict=True)
    )


def test_few_sums_are_one_part_and_none_is_no_part():
    sums = BucketSums(np.array([1]), np.array([2]), np.ones((1, 3)))
    assert list(in_parts(sums, 1)) == [sums]
    assert list(in_parts(NO_SUMS, 1)) == []


def history(pipeline, step: int) -> list:
    """Observations over six days, in batches."""
    records = [
        QueryRecord(
            query_id=f"q{at}",
            timestamp=NOW - 6 * 86_400.0 * (1 - at / RECORDS),
            pipeline=f"p{at % 20}",
            version=f"v{at % 2}",
            tags={"tenant": f"t{at % 23}"},
            latency_ms=Latency(float(at % 900)),
        )
        for at in range(RECORDS)
    ]
    return [pipeline.observe(records[at : at + step]) for at in range(0, RECORDS, step)]


def test_history_counted_at_once_gives_the_same_windows_as_piece_by_piece():
    pipeline = Pipeline(build(SignalOptions()))
    made = [
        Windows(pipeline.catalogue.columns, slices=("tenant",), longest_s=7 * 86_400.0, limit=1_000)
        for _ in range(2)
    ]
    at_once, piecemeal = made
    for batch in history(pipeline, 100):
        piecemeal.fold(batch)
        piecemeal.settle()
    (batch,) = history(pipeline, RECORDS)
    at_once.fold(batch)
    at_once.settle()
    for window_s in (3_600.0, 86_400.0, 7 * 86_400.0):
        one, other = (each.merge(window_s, NOW) for each in made)
        np.testing.assert_allclose(one.rows, other.rows, rtol=1e-12)
        np.testing.assert_array_equal(one.latency, other.latency)
