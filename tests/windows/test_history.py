"""A series over time: each step has the sums of its own records and of no others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.records import Latency
from ragmon.stats.latency import BINS
from ragmon.windows import Windows
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.history import Steps, add_saved_buckets, of_series, steps
from ragmon.windows.series import SeriesKey
from ragmon.windows.tiers import Tier, tiers_for
from ragmon.windows.totals import STAGES
from tests.support.examples import DAY_S, NOON, pipeline, query_records, record, windows

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3), relevant_score=0.5)
TIERS = tiers_for(7 * DAY_S)
KEYS = (SeriesKey("docs"), SeriesKey("docs", "version", "v1"), SeriesKey("support", "tenant", "a"))
streams = st.lists(
    query_records(st.floats(0.0, 3 * DAY_S).map(lambda age: NOON - age)), max_size=30
)


def counted(records) -> Windows:
    target = windows(PIPELINE)
    target.fold(PIPELINE.observe(records))
    target.settle()
    return target


@given(
    streams,
    st.sampled_from(KEYS),
    st.floats(300.0, 3 * DAY_S),
    st.floats(0.0, DAY_S),
    st.sampled_from([10, 60, 300, 3_600, 86_400]),
)
def test_each_step_has_its_own_records(records, key, span, age, step_s):
    target = counted([*records, record("newest", at=NOON, pipeline="docs")])
    over = steps(TIERS, NOON - age - span, NOON - age, max(step_s, span / 50), NOON)
    number = target.series.keys.get(key)
    merged = of_series(target, number, over, latencies=True)
    for at in range(over.length):
        start = over.start + at * over.step_s
        own = [r for r in records if start <= r.timestamp < start + over.step_s]
        if key == SeriesKey("docs") and start <= NOON < start + over.step_s:
            own.append(record("newest", at=NOON, pipeline="docs"))
        alone = counted(own)
        there = alone.series.keys.get(key)
        expected = None if there is None else alone.totals.rows[there]
        if expected is None:
            assert not merged.rows[at].any()
        else:
            np.testing.assert_allclose(merged.rows[at], expected, rtol=1e-9, atol=1e-9)
            latencies = [r.latency_ms.total for r in own if r.pipeline == key.pipeline
                         and r.latency_ms and r.latency_ms.total is not None]  # fmt: skip
            if not key.dimension:
                assert merged.latency[at, 0].sum() == len(latencies)


@given(streams, st.sampled_from(KEYS))
def test_saved_buckets_say_the_same_as_memory(records, key):
    target = counted(records)
    over = steps(TIERS, NOON - 3 * DAY_S, NOON, 3_600.0, NOON)
    saved = [b for b in ChangedBuckets(target).dump() if b.tier == over.tier]
    inside = [b for b in saved if over.first <= b.bucket < over.end]
    from_disk = of_series(target, None, over, latencies=True)
    add_saved_buckets(from_disk, key, over, inside, target.columns)
    number = target.series.keys.get(key)
    from_memory = of_series(target, number, over, latencies=True)
    np.testing.assert_allclose(from_disk.rows, from_memory.rows)
    np.testing.assert_array_equal(from_disk.latency, from_memory.latency)
    np.testing.assert_allclose(from_disk.judged, from_memory.judged)


@pytest.mark.parametrize(
    ("age", "step_s", "width", "step"),
    [
        pytest.param(600, 10, 10, 10, id="ten seconds for a quarter of an hour"),
        pytest.param(3_000, 10, 60, 60, id="a minute for the last hour"),
        pytest.param(3_000, 90, 60, 120, id="whole minutes"),
        pytest.param(20 * 3_600, 60, 600, 600, id="ten minutes for a day"),
        pytest.param(20 * 3_600, 7_200, 3_600, 7_200, id="hours where they do"),
        pytest.param(40 * DAY_S, 60, 3_600, 3_600, id="hours from disk"),
    ],
)
def test_a_step_is_made_of_buckets_that_are_kept_so_far_back(age, step_s, width, step):
    over = steps(TIERS, NOON - age, NOON, step_s, NOON)
    assert (over.width_s, over.step_s) == (width, step)
    assert over.start <= NOON - age < over.start + over.step_s
    assert over.start + over.length * over.step_s >= NOON


@given(st.floats(0, 90 * DAY_S), st.floats(1.0, 90 * DAY_S), st.floats(10.0, DAY_S))
def test_steps_cover_the_stretch_at_multiples_of_their_length(age, span, step_s):
    start, end = NOON - age - span, NOON - age
    over = steps(TIERS, start, end, step_s, NOON)
    assert over.start % over.step_s == 0
    assert over.step_s >= step_s
    assert over.start <= start
    assert over.start + over.length * over.step_s >= end
    assert over.length <= span / over.step_s + 2
    assert {over.at(b) for b in (over.first, over.end - 1)} == {0, over.length - 1}


def test_latencies_are_left_out_unless_asked_for():
    target = counted([record("q", pipeline="docs", latency_ms=Latency(total=5.0))])
    over = Steps(0, 10, int(NOON // 10), 1, 1)
    number = target.series.keys[SeriesKey("docs")]
    assert of_series(target, number, over, latencies=True).latency.sum() == 1
    left_out = of_series(target, number, over, latencies=False).latency
    assert left_out.shape == (1, STAGES, BINS)
    assert not left_out.any()


def test_one_tier_is_enough():
    over = steps((Tier(60, 100),), NOON - 600, NOON, 1.0, NOON)
    assert (over.tier, over.length) == (0, 10)
