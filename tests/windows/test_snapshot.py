"""What was saved is there again, whatever was configured differently meanwhile."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.pipeline import Pipeline
from ragmon.records import Latency
from ragmon.stats.exponential import places
from ragmon.windows import Windows
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.series import OTHER, SeriesKey
from ragmon.windows.snapshot import (
    SavedBucket,
    add_saved,
    dump_totals,
    load_bucket,
    load_totals,
)
from ragmon.windows.totals import LATENCY_EDGES_MS, STAGES
from tests.support.examples import DAY_S, NOON, pipeline, query_records, record, windows

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3))
LENGTHS = (300.0, 3_600.0, DAY_S, 7 * DAY_S)
HOURS = 3  # the coarsest tier

ages = st.floats(0.0, 900.0) | st.floats(0.0, 7.9 * DAY_S)
streams = st.lists(query_records(ages.map(lambda age: NOON - age)), max_size=30)


def dump(held: Windows) -> tuple[bytes, list[SavedBucket]]:
    return dump_totals(held), list(ChangedBuckets(held).dump())


def restored(saved: tuple[bytes, list[SavedBucket]], observed_by: Pipeline, **kwargs) -> Windows:
    held = windows(observed_by, **kwargs)
    load_totals(held, saved[0])
    for bucket in saved[1]:
        load_bucket(held, bucket)
    return held


def contents(held: Windows, now: float = NOON) -> dict[tuple[float, SeriesKey], tuple]:
    """Everything a window shows, by name."""
    found = {}
    for length in LENGTHS:
        merged = held.merge(length, now)
        for key, at in held.series.keys.items():
            if merged.rows[at].any() or merged.latency[at].any():
                found[length, key] = (merged.rows[at].tolist(), merged.latency[at].tolist())
    return found


def totals(held: Windows) -> dict[SeriesKey, tuple]:
    fine = held.totals.fine.of(range(held.series.capacity))
    arrays = (held.totals.rows, held.totals.latency, fine, held.totals.score)
    return {
        key: tuple(array[at].tolist() for array in arrays)
        for key, at in held.series.keys.items()
        if held.totals.rows[at].any()
    }


def column_sums(held: Windows, observed_by: Pipeline, name: str, **labels: str) -> dict:
    at = observed_by.catalogue.index(name, **labels)
    rows = held.merge(7 * DAY_S, NOON).rows
    columns = len(observed_by.columns)
    wanted = [at, columns + at, 2 * columns + at, -1]
    return {
        key: rows[number, wanted].tolist()
        for key, number in held.series.keys.items()
        if rows[number, -1]
    }


@settings(deadline=None, max_examples=60)
@given(streams, streams)
def test_restored_windows_are_the_same_and_go_on_alike(before, after):
    held = windows(PIPELINE)
    if before:
        held.fold(PIPELINE.observe(before))
    again = restored(dump(held), PIPELINE)
    assert contents(again) == contents(held)
    assert totals(again) == totals(held)
    assert again.watermark == held.watermark
    for each in (held, again):
        if after:
            each.fold(PIPELINE.observe(after))
    assert contents(again) == contents(held)
    assert totals(again) == totals(held)


def test_counts_of_the_windows_themselves_are_restored():
    held = windows(PIPELINE, limit=1)
    queries = [record("q1"), record("q2", pipeline="support")]
    held.fold(PIPELINE.observe(queries))
    held.restate(PIPELINE.observe(queries[:1]), PIPELINE.observe([record("q1", feedback=1.0)]))
    again = restored(dump(held), PIPELINE, limit=1)
    assert (again.restatements, again.dropped) == (held.restatements, held.dropped) == (1, 2)


def test_a_store_without_fine_histograms_goes_on_with_its_classic_counts():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(f"q{ms}", latency_ms=Latency(total=ms)) for ms in (7, 90)]))
    saved = msgspec.msgpack.decode(dump_totals(held))
    again = windows(PIPELINE)
    load_totals(again, msgspec.msgpack.encode(saved[:-1]))
    at = again.series.keys[SeriesKey("default")]
    again.fold(PIPELINE.observe([record("q", latency_ms=Latency(total=20))]))
    assert again.totals.fine.of([at])[0, 0].sum() == again.totals.latency[at, 0].sum() == 3
    counters = places(np.array([0.01, 0.02, 0.1]))  # the upper bounds of the classic ones
    assert np.flatnonzero(again.totals.fine.of([at])[0, 0]).tolist() == counters.tolist()


@pytest.mark.parametrize(
    "cells",
    [np.array([-1, 5]), np.array([0, 1 << 30]), np.array([3])],
    ids=["below", "above", "few"],
)
def test_fine_histograms_of_no_series_are_refused(cells):
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record("q", latency_ms=Latency(total=7))]))
    saved = msgspec.msgpack.decode(dump_totals(held))
    saved[-1][3] = cells.astype(np.int32).tobytes()
    saved[-1][4] = np.array([1, 1]).tobytes()
    with pytest.raises(ValueError, match="in no series"):
        load_totals(windows(PIPELINE), msgspec.msgpack.encode(saved))


def test_latency_buckets_of_before_go_on_under_their_own_edges():
    held = windows(PIPELINE)
    batch = [record(f"q{ms}", latency_ms=Latency(total=ms)) for ms in (1, 7, 49, 51, 99_000)]
    held.fold(PIPELINE.observe(batch))
    saved = msgspec.msgpack.decode(dump_totals(held))
    edges = np.array([50.0, 100.0, 60_000.0])
    then = np.zeros((len(saved[1]), STAGES, 4), dtype=np.int64)
    then[:, 0] = [3, 1, 0, 1]
    saved[3], saved[8] = then.tobytes(), edges.tolist()
    again = windows(PIPELINE)
    load_totals(again, msgspec.msgpack.encode(saved))
    counts = again.totals.latency[again.series.keys[SeriesKey("default")], 0]
    upper = dict(zip([*LATENCY_EDGES_MS.tolist(), np.inf], counts.tolist(), strict=True))
    assert {edge: count for edge, count in upper.items() if count} == {50: 3, 100: 1, np.inf: 1}
    again.fold(PIPELINE.observe([record("q", latency_ms=Latency(total=7))]))
    again.settle()
    assert counts.tolist()[:4] == [0, 1, 0, 3]


def test_counts_without_their_edges_are_of_the_first_version():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record("q", latency_ms=Latency(total=70))]))
    saved = msgspec.msgpack.decode(dump_totals(held))
    then = np.zeros((len(saved[1]), STAGES, 11), dtype=np.int64)
    then[:, 0, 1] = 1
    saved[3] = then.tobytes()
    again = windows(PIPELINE)
    load_totals(again, msgspec.msgpack.encode(saved[:8]))
    counts = again.totals.latency[again.series.keys[SeriesKey("default")], 0]
    assert LATENCY_EDGES_MS[np.flatnonzero(counts)].tolist() == [100.0]


def test_only_what_changed_is_saved_again():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(at=NOON), record(at=NOON - 7_200)]))
    assert {bucket.tier for bucket in ChangedBuckets(held).dump()} == {0, 1, 2, 3}
    assert list(ChangedBuckets(held).dump()) == []
    held.fold(PIPELINE.observe([record(at=NOON)]))
    widths = [tier.width_s for tier in held.tiers]
    changed = [(bucket.tier, bucket.bucket) for bucket in ChangedBuckets(held).dump()]
    assert changed == [(tier, int(NOON) // width) for tier, width in enumerate(widths)]
    held.restate(PIPELINE.observe([record()]), PIPELINE.observe([record(feedback=1.0)]))
    assert len(list(ChangedBuckets(held).dump())) == len(held.tiers)


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_copy_stays_as_it_was_while_the_windows_go_on(is_prepared):
    held, other = windows(PIPELINE), windows(PIPELINE)
    first = [record(f"{at}", at=NOON - at, latency_ms=Latency(50.0 * at)) for at in range(1, 40)]
    for each in (held, other):
        each.fold(PIPELINE.observe(first))
    changed = ChangedBuckets(held)
    held.fold(PIPELINE.observe([record("more", at=NOON - 1, latency_ms=Latency(9.0))]))
    held.settle()
    if is_prepared:
        changed.prepare()
    assert list(changed.dump()) == list(ChangedBuckets(other).dump())
    other.fold(PIPELINE.observe([record("more", at=NOON - 1, latency_ms=Latency(9.0))]))
    assert contents(held) == contents(other)


def test_what_was_saved_no_longer_waits_to_be_counted():
    held = windows(PIPELINE)

    def waiting() -> int:
        held.settle()
        return sum(bucket.waiting for ring in held.latencies for bucket in ring.buckets.values())

    held.fold(PIPELINE.observe([record(latency_ms=Latency(50.0))]))
    of_one = waiting()
    changed = ChangedBuckets(held)
    held.fold(PIPELINE.observe([record(latency_ms=Latency(60.0))]))
    assert waiting() == 2 * of_one > 0
    list(changed.dump())
    assert waiting() == of_one
    list(ChangedBuckets(held).dump())
    assert waiting() == 0


def test_a_bucket_that_memory_has_passed_by_is_not_saved_as_empty():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(at=NOON)]))
    first = {(bucket.tier, bucket.bucket): bucket for bucket in ChangedBuckets(held).dump()}
    held.fold(PIPELINE.observe([record(at=NOON)]))
    slots = held.tiers[HOURS].slots
    held.fold(PIPELINE.observe([record(at=NOON + 3_600.0 * slots)]))  # the same slot
    second = {(bucket.tier, bucket.bucket) for bucket in ChangedBuckets(held).dump()}
    passed = (HOURS, int(NOON) // 3_600)
    assert passed in first
    assert passed not in second
    assert (HOURS, int(NOON) // 3_600 + slots) in second


def test_series_that_were_forgotten_do_not_come_back_with_their_old_buckets():
    held = windows(PIPELINE, limit=4)
    held.fold(PIPELINE.observe([record(pipeline="old")]))
    saved = list(ChangedBuckets(held).dump())
    later = NOON + 20 * DAY_S
    held.forget(later)
    held.fold(PIPELINE.observe([record(pipeline="new", at=later)]))
    saved += ChangedBuckets(held).dump()
    again = restored((dump_totals(held), sorted(saved)), PIPELINE, limit=4)
    assert SeriesKey("old") not in again.series.keys
    assert contents(again, later) == contents(held, later)


def test_restored_series_are_not_forgotten_at_once():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(at=NOON - 6 * DAY_S)]))
    again = restored(dump(held), PIPELINE)
    assert again.forget(NOON) == 0
    assert again.forget(NOON + 3 * DAY_S) == held.forget(NOON + 3 * DAY_S) == 2


# ---- configured differently -----------------------------------------------------------------

some = [
    record("a", at=NOON - 9, latency_ms=Latency(120.0, 20.0), tags={"tenant": "acme"}),
    record("b", at=NOON - 4_000, pipeline="docs", version="v2", error="E", feedback=-1.0),
    record("c", at=NOON - 3 * DAY_S, version="v1", latency_ms=Latency(7.0), relevant_ids=["x"]),
]


def saved_by(observed_by: Pipeline, limit: int = 100) -> tuple[bytes, list[SavedBucket]]:
    held = windows(observed_by, limit=limit)
    held.fold(observed_by.observe(some))
    return dump(held)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((1, 3), (1, 3, 5), id="a column more"),
        pytest.param((1, 3, 5), (3,), id="two columns less"),
        pytest.param((1,), (10,), id="another column"),
    ],
)
def test_signals_may_come_and_go(before, after):
    then, now = (pipeline(slices=("tenant",), ks=ks) for ks in (before, after))
    again = restored(saved_by(then), now)
    whole = windows(then)
    whole.fold(then.observe(some))
    assert column_sums(again, now, "error") == column_sums(whole, then, "error")
    assert column_sums(again, now, "latency_ms", stage="total") == column_sums(
        whole, then, "latency_ms", stage="total"
    )
    for k in after:
        found = column_sums(again, now, "hit", k=str(k), evidence="label")
        if k not in before:
            assert {tuple(sums[:3]) for sums in found.values()} == {(0.0, 0.0, 0.0)}
    merged = again.merge(7 * DAY_S, NOON)
    assert merged.latency.sum() == whole.merge(7 * DAY_S, NOON).latency.sum()
    again.fold(now.observe(some))
    sums = column_sums(again, now, "error")
    assert {key: value[-1] for key, value in sums.items()} == {
        key: 2 * value[-1] for key, value in column_sums(whole, then, "error").items()
    }


def test_slices_may_change():
    then, now = pipeline(slices=("tenant",), ks=(1,)), pipeline(slices=("region",), ks=(1,))
    again = restored(saved_by(then), now)
    before = windows(then)
    before.fold(then.observe(some))
    assert contents(again) == contents(before)
    again.fold(now.observe([record("d", tags={"region": "eu", "tenant": "acme"})]))
    merged = again.merge(300.0, NOON)
    keys = again.series.keys
    assert merged.rows[keys[SeriesKey("default", "region", "eu")], -1] == 1
    assert merged.rows[keys[SeriesKey("default", "tenant", "acme")], -1] == 1  # as it was


def test_series_have_other_numbers_than_before():
    again = windows(PIPELINE)
    again.fold(PIPELINE.observe([record("z", at=NOON - DAY_S, pipeline="first")]))
    for bucket in saved_by(PIPELINE)[1]:
        load_bucket(again, bucket)
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe(some))
    found, expected = contents(again), contents(held)
    assert {each: found[each] for each in expected} == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_what_fits_into_fewer_series_is_right(limit):
    again = restored(saved_by(PIPELINE), PIPELINE, limit=limit)
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe(some))
    expected = contents(held)
    found = contents(again)
    assert found
    assert found == {each: expected[each] for each in found}
    assert all(number < again.series.capacity for number in again.series.keys.values())
    assert OTHER not in {key.pipeline for _, key in found}


# ---- windows longer than memory -------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(streams, st.integers(0, 191))
def test_saved_hours_and_held_hours_make_one_window(stream, cut):
    """As when the older of them have left memory."""
    held = windows(PIPELINE)
    if stream:
        held.fold(PIPELINE.observe(stream))
        held.settle()
    everything = held.merge(7.95 * DAY_S, NOON)
    border = (int(NOON) // 3_600 - cut) * 3_600
    saved = [
        bucket.body
        for bucket in ChangedBuckets(held).dump()
        if bucket.tier == HOURS and bucket.bucket * 3_600 < border
    ]
    newer = windows(PIPELINE)
    kept = [query for query in stream if query.timestamp >= border]
    if kept:
        newer.fold(PIPELINE.observe(kept))
        newer.settle()
    merged, keys = add_saved(
        newer.merge(7.95 * DAY_S, NOON), newer.series.keys, saved, newer.columns
    )
    assert set(held.series.keys) == set(keys)
    for key, number in held.series.keys.items():
        np.testing.assert_allclose(merged.rows[keys[key]], everything.rows[number], atol=1e-9)
        np.testing.assert_array_equal(merged.latency[keys[key]], everything.latency[number])
