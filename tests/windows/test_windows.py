"""Windows against a plain list of everything they were given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragmon.pipeline import Pipeline
from ragmon.records import Latency, QueryRecord
from ragmon.stats.latency import BINS, count, quantiles
from ragmon.windows import Merged, Windows
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.observations import Observations
from ragmon.windows.series import SeriesKey, dims_of
from ragmon.windows.tiers import cover
from ragmon.windows.totals import STAGES
from tests.support.examples import DAY_S, NOON, chunks, pipeline, query_records, record, windows
from tests.support.rows import expand

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3), relevant_score=0.5)
LENGTHS = (10.0, 37.0, 300.0, 600.0, 850.0, 3_600.0, 20_000.0, DAY_S, 7 * DAY_S)
SKEW_S = 300.0

ages = st.one_of(
    st.floats(-SKEW_S, 900.0), st.floats(0.0, 6_000.0), st.floats(0.0, 8 * DAY_S), st.just(0.0)
)
stamped = query_records(ages.map(lambda age: NOON - age))
streams = st.lists(st.tuples(stamped, st.booleans()), max_size=40)
moments = st.floats(NOON, NOON + 25.0)


class Reference:
    """Every query in a list, and one pass over it."""

    def __init__(self, observed_by: Pipeline) -> None:
        self.pipeline = observed_by
        self.queries: list[QueryRecord] = []

    def window(self, start: float, end: float) -> dict[SeriesKey, tuple[np.ndarray, np.ndarray]]:
        """Sums and latency histograms of each series over [start, end)."""
        within = [query for query in self.queries if start <= query.timestamp < end]
        found: dict[SeriesKey, list[np.ndarray]] = {}
        for query in within:
            row = self.pipeline.catalogue.observe([query])[0]
            for key in self.keys(query):
                found.setdefault(key, []).append(row)
        return {key: self._summed(np.array(rows)) for key, rows in found.items()}

    def keys(self, query: QueryRecord) -> list[SeriesKey]:
        slices = self.pipeline.slices
        values = dict(zip(slices, dims_of(query, slices)[2:], strict=True))
        tagged = [SeriesKey(query.pipeline, name, value) for name, value in values.items() if value]
        whole = SeriesKey(query.pipeline)
        return [whole, SeriesKey(query.pipeline, "version", query.version), *tagged]

    def _summed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stages = [
            rows[:, self.pipeline.catalogue.index("latency_ms", stage=stage)]
            for stage in ("total", "retrieval", "generation")
        ]
        histograms = [count(values[~np.isnan(values)]) for values in stages]
        return expand(rows).sum(axis=0), np.array(histograms)


def batches(stream: list[tuple[QueryRecord, bool]]) -> list[list[QueryRecord]]:
    """The stream cut after each record that is marked."""
    found: list[list[QueryRecord]] = [[]]
    for query, last in stream:
        found[-1].append(query)
        if last:
            found.append([])
    return [batch for batch in found if batch]


def edges(held: Windows, length: float, now: float, end: float | None) -> tuple[float, float]:
    """Where a window really begins and ends, since it is made of buckets."""
    stop = (now // 10 + 1) * 10 if end is None else end
    start = (now if end is None else end) - length
    runs = cover(held.tiers, start, stop, max(now, held.watermark))
    width, last = held.tiers[runs[0].tier].width_s, held.tiers[runs[-1].tier].width_s
    assert runs[0].first * width <= start
    return runs[0].first * width, (runs[-1].first + runs[-1].length) * last


def by_key(held: Windows, merged: Merged) -> dict[SeriesKey, tuple[np.ndarray, np.ndarray]]:
    """Series with queries in a window."""
    return {
        key: (merged.rows[at], merged.latency[at])
        for key, at in held.series.keys.items()
        if merged.rows[at, -1]
    }


def assert_same(found: dict, expected: dict) -> None:
    assert set(found) == set(expected)
    for key, (rows, latency) in expected.items():
        np.testing.assert_allclose(found[key][0], rows, rtol=1e-9, atol=1e-9, err_msg=str(key))
        np.testing.assert_array_equal(found[key][1], latency, err_msg=str(key))


@settings(deadline=None, max_examples=150)
@given(streams, st.sampled_from(LENGTHS), moments, st.none() | st.floats(0.0, 3e5))
def test_windows_hold_what_a_list_of_the_queries_holds(stream, length, now, ago):
    end = None if ago is None else now - ago
    if ago is not None:
        length = min(length, 7.9 * DAY_S - ago)
    held, reference = windows(PIPELINE), Reference(PIPELINE)
    for batch in batches(stream):
        held.fold(PIPELINE.observe(batch))
        reference.queries += batch
    expected = reference.window(*edges(held, length, now, end))
    assert_same(by_key(held, held.merge(length, now, end)), expected)
    assert held.watermark == max((query.timestamp for query, _ in stream), default=0.0)


@settings(deadline=None, max_examples=50)
@given(streams, st.randoms(use_true_random=False), moments)
def test_neither_order_nor_batches_matter(stream, random, now):
    first, second = windows(PIPELINE), windows(PIPELINE)
    for batch in batches(stream):
        first.fold(PIPELINE.observe(batch))
    shuffled = [query for query, _ in stream]
    random.shuffle(shuffled)
    cut = random.randint(0, len(shuffled))
    for batch in (shuffled[:cut], shuffled[cut:]):
        if batch:
            second.fold(PIPELINE.observe(batch))
    for length in LENGTHS:
        assert_same(
            by_key(first, first.merge(length, now)), by_key(second, second.merge(length, now))
        )
    named = [
        {key: held.totals.rows[at] for key, at in held.series.keys.items()}
        for held in (first, second)
    ]
    assert named[0].keys() == named[1].keys()
    for key, rows in named[0].items():
        np.testing.assert_allclose(rows, named[1][key], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("now", [NOON, NOON + 0.5, NOON + 9.999, NOON + 3_599.9])
def test_a_window_is_never_shorter_than_asked_for(length, now):
    held = windows(PIPELINE)
    ages = np.linspace(0.0, length, 41)
    held.fold(PIPELINE.observe([record(at=now - age) for age in ages]))
    assert held.merge(length, now).rows[:, -1].max() == len(ages)


@pytest.mark.parametrize("length", [600.0, 720.0, 850.0])
def test_a_sender_whose_clock_runs_ahead_pushes_nothing_out_of_the_window(length):
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(at=NOON - age) for age in np.linspace(0, length, 50)]))
    held.fold(PIPELINE.observe([record(at=NOON + age, pipeline="ahead") for age in range(301)]))
    merged = held.merge(length, NOON)
    assert merged.rows[held.series.keys[SeriesKey("default")], -1] == 50


def test_a_day_filled_backwards_is_a_day():
    forwards, backwards = windows(PIPELINE), windows(PIPELINE)
    day = [
        record(at=NOON - 60.0 * minute, latency_ms=Latency(float(minute)))
        for minute in range(1_440)
    ]
    forwards.fold(PIPELINE.observe(day[::-1]))
    for start in range(0, len(day), 100):
        backwards.fold(PIPELINE.observe(day[start : start + 100]))
    for length in LENGTHS:
        found, expected = (by_key(held, held.merge(length, NOON)) for held in (backwards, forwards))
        assert_same(found, expected)
    assert by_key(backwards, backwards.merge(DAY_S, NOON))[SeriesKey("default")][0][-1] == 1_440


@pytest.mark.parametrize(
    ("age", "seen_by"),
    [
        pytest.param(200.0, {300.0, 6_000.0, DAY_S, 7 * DAY_S}, id="minutes late"),
        pytest.param(5_000.0, {6_000.0, DAY_S, 7 * DAY_S}, id="an hour late"),
        pytest.param(80_000.0, {DAY_S, 7 * DAY_S}, id="most of a day late"),
        pytest.param(6.9 * DAY_S, {7 * DAY_S}, id="a week late"),
        pytest.param(30 * DAY_S, set(), id="too late for every window"),
    ],
)
def test_a_late_query_is_counted_in_every_window_that_still_holds_its_time(age, seen_by):
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(at=NOON, pipeline="now")]))
    held.fold(PIPELINE.observe([record(at=NOON - age, pipeline="late")]))
    late = held.series.keys[SeriesKey("late")]
    lengths = {300.0, 6_000.0, DAY_S, 7 * DAY_S}
    assert {length for length in lengths if held.merge(length, NOON).rows[late, -1]} == seen_by
    assert held.totals.queries[late] == 1
    assert held.watermark == NOON


def test_what_lies_behind_every_ring_is_counted_in_the_totals_alone():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(at=NOON), record(at=NOON - 30 * DAY_S, error="E")]))
    error = PIPELINE.catalogue.index("error")
    whole = held.series.keys[SeriesKey("default")]
    assert held.totals.queries[whole] == 2
    assert held.totals.sums[whole, error] == 1
    assert held.merge(7 * DAY_S, NOON).rows[whole, -1] == 1


# ---- restating ------------------------------------------------------------------------------

ratings = st.none() | st.sampled_from([-1.0, 0.0, 1.0])
restated = st.lists(st.tuples(stamped, ratings, st.booleans()), min_size=1, max_size=20)


@settings(deadline=None, max_examples=80)
@given(restated, st.sampled_from(LENGTHS), moments)
def test_restating_is_as_if_it_had_been_known_from_the_beginning(changes, length, now):
    old = [query for query, _, _ in changes]
    new = [replace(query, feedback=to, relevant_ids=["a"]) for query, to, _ in changes]
    late, early = windows(PIPELINE), windows(PIPELINE)
    late.fold(PIPELINE.observe(old))
    for batch in batches([(at, last) for at, (_, _, last) in enumerate(changes)]):
        late.restate(
            PIPELINE.observe([old[at] for at in batch]), PIPELINE.observe([new[at] for at in batch])
        )
    early.fold(PIPELINE.observe(new))
    assert_same(by_key(late, late.merge(length, now)), by_key(early, early.merge(length, now)))
    assert late.restatements == len(changes)
    assert early.restatements == 0


lives = st.lists(
    st.tuples(
        st.lists(stamped, max_size=4),
        st.lists(st.tuples(st.integers(0, 30), ratings), max_size=2),
        st.sampled_from([0.0, 7.0, 600.0, 3_600.0, 90_000.0]),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(lives)
def test_windows_that_were_looked_at_before_are_as_if_they_had_not_been(life):
    """Totals of long runs are kept between two looks, and must follow everything."""
    held, now = windows(PIPELINE), NOON
    counted: list[QueryRecord] = []
    for fresh, changes, later in life:
        if fresh:
            held.fold(PIPELINE.observe(fresh))
            counted += fresh
        for at, rating in changes:
            if at < len(counted):
                old, counted[at] = counted[at], replace(counted[at], feedback=rating)
                held.restate(PIPELINE.observe([old]), PIPELINE.observe([counted[at]]))
        now += later
        anew = windows(PIPELINE)
        if counted:
            anew.fold(PIPELINE.observe(counted))
        for length in LENGTHS:
            found, expected = (by_key(each, each.merge(length, now)) for each in (held, anew))
            assert_same(found, expected)


def test_windows_that_move_on_drop_what_leaves_them_and_gain_what_enters():
    hours = [
        record(at=NOON - 1_800.0 * at, pipeline=f"p{at % 3}", latency_ms=Latency(10.0 + at))
        for at in range(-24, 2 * 24 * 8)
    ]
    held, anew = windows(PIPELINE), windows(PIPELINE)
    held.fold(PIPELINE.observe(hours))
    anew.fold(PIPELINE.observe(hours))
    anew.settle()
    for step in range(70):
        now = NOON + 600.0 * step
        for length in LENGTHS:
            found = by_key(held, held.merge(length, now))
            for ring in (*anew.rings, *anew.latencies):
                ring._kept.clear()
            assert_same(found, by_key(anew, anew.merge(length, now)))


def test_what_was_kept_of_a_forgotten_series_is_forgotten():
    held = windows(PIPELINE, limit=2)
    held.fold(PIPELINE.observe([record(at=NOON - DAY_S, pipeline="old", latency_ms=Latency(9.0))]))
    held.merge(7 * DAY_S, NOON)
    held.series._last_seen[:] = 0.0  # as after a long time
    held.forget(NOON)
    held.fold(PIPELINE.observe([record(at=NOON, pipeline="new")]))
    merged = held.merge(7 * DAY_S, NOON)
    number = held.series.keys[SeriesKey("new")]
    assert merged.rows[number, -1] == 1
    assert not merged.latency[number].any()


def test_counters_keep_what_was_counted_and_gain_what_is_new():
    held = windows(PIPELINE)
    disliked, liked = record(feedback=-1.0), record(feedback=1.0)
    held.fold(PIPELINE.observe([disliked]))
    held.restate(PIPELINE.observe([disliked]), PIPELINE.observe([liked]))
    columns = len(PIPELINE.columns)
    whole = held.series.keys[SeriesKey("default")]
    for name in ("positive_feedback", "negative_feedback"):
        assert held.totals.sums[whole, PIPELINE.catalogue.index(name)] == 1
    assert held.totals.queries[whole] == 1
    row = held.merge(300.0, NOON).rows[whole]
    assert row[columns + PIPELINE.catalogue.index("positive_feedback")] == 1
    assert row[columns + PIPELINE.catalogue.index("negative_feedback")] == 0


def test_restating_leaves_alone_what_never_counted_the_query():
    """Its slice may have been configured, or its series made room for, only afterwards."""
    before, after = pipeline(), pipeline(slices=("tenant",))
    held = windows(after)
    query = record(tags={"tenant": "acme"}, chunks=chunks("a"), citations=["a"])
    disliked = record(tags={"tenant": "acme"}, chunks=chunks("a"), citations=["a"], feedback=-1.0)
    held.fold(before.observe([query]))
    held.restate(after.observe([query]), after.observe([disliked]))
    tenant = held.series.keys.get(SeriesKey("default", "tenant", "acme"))
    assert tenant is None or not held.merge(300.0, NOON).rows[tenant].any()
    whole = held.merge(300.0, NOON).rows[held.series.keys[SeriesKey("default")]]
    negative = after.catalogue.index("negative_feedback")
    assert whole[negative] == 1


def test_rings_take_memory_for_what_is_stored_and_pack_what_rests():
    held = windows(PIPELINE, limit=2_000)
    every_minute = [record(at=NOON - 60.0 * minute) for minute in range(1_500)]
    held.fold(PIPELINE.observe(every_minute))
    list(ChangedBuckets(held).dump())  # touched until now,
    list(ChangedBuckets(held).dump())  # and no longer
    cells = sum(tier.slots for tier in held.tiers) * len(held.series)
    assert sum(ring.nbytes for ring in held.rings) < cells * 8 * held.row_layout.width / 10


def test_windows_that_wait_to_be_counted_are_counted_before_they_are_read():
    at_once, waiting = windows(PIPELINE), windows(PIPELINE)
    logged = PIPELINE.observe([record(at=NOON - 60.0 * minute) for minute in range(50)])
    liked = PIPELINE.observe(
        [record(at=NOON - 60.0 * minute, feedback=1.0) for minute in range(50)]
    )
    for held in (at_once, waiting):
        for at in range(50):
            one = np.array([at])
            held.fold(logged.select(one))
            held.restate(logged.select(one), liked.select(one))
            if held is at_once:
                held.settle()
    assert_same(
        by_key(waiting, waiting.merge(DAY_S, NOON)), by_key(at_once, at_once.merge(DAY_S, NOON))
    )
    np.testing.assert_allclose(waiting.totals.rows, at_once.totals.rows, rtol=1e-12)


def test_nothing_to_fold_and_nothing_to_restate():
    held = windows(PIPELINE)
    nothing = Observations(
        ("tenant",), [], np.empty(0, np.int32), np.empty(0), np.empty((0, len(PIPELINE.columns)))
    )
    held.fold(nothing)
    held.restate(nothing, nothing)
    assert held.watermark == 0.0
    assert held.restatements == 0
    assert not held.merge(300.0, NOON).rows.any()


# ---- latency --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0, 7 * DAY_S), st.floats(0.11, 590_000.0)), min_size=1, max_size=200
    )
)
def test_latency_quantiles_across_buckets_are_within_one_percent(values):
    held = windows(PIPELINE)
    held.fold(
        PIPELINE.observe([record(at=NOON - age, latency_ms=Latency(ms)) for age, ms in values])
    )
    merged = held.merge(7 * DAY_S, NOON)
    qs = [0.5, 0.9, 0.95, 0.99]
    found = quantiles(merged.latency, qs)[held.series.keys[SeriesKey("default")], 0]
    exact = np.quantile([ms for _, ms in values], qs, method="inverted_cdf")
    np.testing.assert_allclose(found, exact, rtol=0.0101)


def test_latency_has_a_histogram_for_each_stage():
    held = windows(PIPELINE)
    held.fold(PIPELINE.observe([record(latency_ms=Latency(None, 5.0, 20.0)), record()]))
    latency = held.merge(300.0, NOON).latency
    assert latency.shape == (len(held.series), STAGES, BINS)
    assert latency[held.series.keys[SeriesKey("default")]].sum(axis=1).tolist() == [0, 1, 1]


@settings(deadline=None)
@given(st.lists(st.integers(1, 60_000), min_size=1, max_size=300))
def test_a_latency_bucket_counts_codes(codes):
    """Whatever share of it is counted at once."""
    from ragmon.windows.latency_bucket import Bucket

    bucket = Bucket()
    for start in range(0, len(codes), 7):
        bucket.add(np.array(codes[start : start + 7], dtype=np.int32))
        if start % 3 == 0:
            bucket.counted()
    found, counts = bucket.counted()
    expected = dict(sorted((code, codes.count(code)) for code in codes))
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == expected
    assert found.tolist() == list(expected)
