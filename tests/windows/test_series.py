"""Series are few: what comes after the limit counts as ``other``, what is forgotten is gone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.records import Latency
from ragmon.windows.series import OTHER, VERSION, SeriesKey, SeriesTable, dims_of, dims_of_each
from tests.support.examples import DAY_S, NOON, pipeline, record, windows

SLICES = ("tenant",)
PIPELINE = pipeline(slices=SLICES, ks=(1,))


def names(table: SeriesTable, dims: tuple[str, ...], slices=SLICES) -> list[SeriesKey]:
    numbers = table.membership(dims, slices).numbers
    by_number = {number: key for key, number in table.keys.items()}
    return [by_number[number] for number in numbers]


@pytest.mark.parametrize(
    ("fields", "slices", "expected"),
    [
        pytest.param({}, (), ("default", ""), id="defaults"),
        pytest.param({"pipeline": "docs", "version": "v2"}, (), ("docs", "v2"), id="version"),
        pytest.param({}, ("tenant",), ("default", "", ""), id="no tags"),
        pytest.param(
            {"tags": {"tenant": "acme", "user": "u1"}},
            ("region", "tenant"),
            ("default", "", "", "acme"),
            id="only the configured tags, in their order",
        ),
        pytest.param(
            {"model": "m-large", "environment": "prod", "tags": {"environment": "eu"}},
            ("model", "environment"),
            ("default", "", "m-large", "eu"),
            id="model and environment are fields where they are no tags",
        ),
        pytest.param(
            {"tags": {"model": "m"}, "user_id": "u"},
            ("model", "user_id"),
            ("default", "", "m", ""),
            id="no other field is a slice",
        ),
    ],
)
def test_dims(fields, slices, expected):
    assert dims_of(record(**fields), slices) == expected
    assert dims_of_each([record(), record(**fields)], slices)[1] == expected


def test_a_query_belongs_to_its_pipeline_its_version_and_the_tags_it_has():
    table = SeriesTable(10, SLICES)
    assert names(table, ("docs", "v1", "acme")) == [
        SeriesKey("docs"),
        SeriesKey("docs", VERSION, "v1"),
        SeriesKey("docs", "tenant", "acme"),
    ]
    assert names(table, ("docs", "", "")) == [SeriesKey("docs"), SeriesKey("docs", VERSION, "")]


@pytest.mark.parametrize(
    ("limit", "expected", "dropped"),
    [
        pytest.param(3, {VERSION: "v1", "tenant": "acme"}, 0, id="room for all"),
        pytest.param(2, {VERSION: "v1", "tenant": OTHER}, 1, id="not for the tag"),
        pytest.param(1, {VERSION: OTHER, "tenant": OTHER}, 2, id="nor for the version"),
    ],
)
def test_what_does_not_fit_is_the_other_of_its_pipeline(limit, expected, dropped):
    table = SeriesTable(limit, SLICES)
    found = names(table, ("docs", "v1", "acme"))
    assert found == [SeriesKey("docs"), *(SeriesKey("docs", *each) for each in expected.items())]
    assert table.membership(("docs", "v1", "acme"), SLICES).dropped == dropped


def test_a_pipeline_that_does_not_fit_is_other_altogether():
    table = SeriesTable(1, SLICES)
    names(table, ("docs", "", ""))
    assert names(table, ("support", "v1", "acme")) == [
        SeriesKey(OTHER),
        SeriesKey(OTHER, VERSION, OTHER),
        SeriesKey(OTHER, "tenant", OTHER),
    ]
    assert table.membership(("support", "v1", "acme"), SLICES).dropped == 1


words = st.sampled_from(["", "a", "b", "c", "d", "e", OTHER])
some_dims = st.tuples(words.filter(bool), words, words)


@settings(deadline=None)
@given(st.integers(1, 8), st.lists(some_dims, max_size=60))
def test_a_bounded_table_counts_every_query_once_in_each_dimension(limit, stream):
    held = windows(PIPELINE, limit=limit)
    queries = [
        record(at=NOON - at, pipeline=name, version=version, tags={"tenant": tenant})
        for at, (name, version, tenant) in enumerate(stream)
    ]
    if queries:
        held.fold(PIPELINE.observe(queries))
        held.settle()
    keys = held.series.keys
    assert len(set(keys.values())) == len(keys)
    assert max(keys.values()) < held.series.capacity
    catch_all = {key for key in keys if key.value == OTHER or key == SeriesKey(OTHER)}
    assert len(keys) - len(catch_all) <= limit
    counted = held.merge(300.0, NOON).rows[:, -1]
    for dimension in ("", VERSION):
        assert sum(counted[at] for key, at in keys.items() if key.dimension == dimension) == len(
            stream
        )
    tagged = sum(tenant != "" for _, _, tenant in stream)
    assert sum(counted[at] for key, at in keys.items() if key.dimension == "tenant") == tagged
    assert (held.dropped == 0) >= (len({*keys} - catch_all) < limit)


def test_dropped_observations_are_counted_once():
    held = windows(PIPELINE, limit=2)
    held.fold(PIPELINE.observe([record(pipeline="docs")]))
    assert held.dropped == 0
    late = [record(pipeline="support", at=NOON - at) for at in range(5)]
    held.fold(PIPELINE.observe(late))
    held.settle()
    assert held.dropped == 5
    held.restate(PIPELINE.observe(late), PIPELINE.observe(late))
    assert held.dropped == 5


def test_a_forgotten_series_leaves_nothing_to_the_one_that_takes_its_number():
    held = windows(PIPELINE, limit=2)
    held.fold(PIPELINE.observe([record(pipeline="old", error="E", latency_ms=Latency(9.0))]))
    before = {number for key, number in held.series.keys.items() if key.pipeline == "old"}
    later = NOON + 20 * DAY_S
    assert held.forget(later) == 2
    assert SeriesKey("old") not in held.series.keys
    held.fold(PIPELINE.observe([record(pipeline="new", at=later)]))
    assert {number for key, number in held.series.keys.items() if key.pipeline == "new"} == before
    error = len(PIPELINE.columns) + PIPELINE.catalogue.index("error")
    number = held.series.keys[SeriesKey("new")]
    assert held.totals.queries[number] == 1
    assert held.totals.rows[number, error] == 0
    assert not held.totals.latency[number].any()
    for end in (NOON + 1.0, later + 1.0):
        merged = held.merge(3_600.0, later, end)
        assert merged.rows[number, error] == 0
        assert not merged.latency[number].any()


def test_forgetting_spares_what_was_seen_within_the_longest_window():
    held = windows(PIPELINE)
    held.fold(
        PIPELINE.observe([record(pipeline="old", at=NOON - 7 * DAY_S), record(pipeline="new")])
    )
    assert held.forget(NOON) == 0
    assert held.forget(NOON + 1.5 * DAY_S) == 2
    assert SeriesKey("new") in held.series.keys
    assert SeriesKey("old") not in held.series.keys


def test_forgetting_makes_room():
    held = windows(PIPELINE, limit=2)
    held.fold(PIPELINE.observe([record(pipeline="old")]))
    later = NOON + 20 * DAY_S
    held.fold(PIPELINE.observe([record(pipeline="new", at=later)]))
    assert SeriesKey("new") not in held.series.keys
    held.forget(later)
    held.fold(PIPELINE.observe([record(pipeline="new", at=later)]))
    assert held.totals.queries[held.series.keys[SeriesKey("new")]] == 1
    assert held.totals.queries[held.series.keys[SeriesKey(OTHER)]] == 1


def test_other_is_never_forgotten():
    held = windows(PIPELINE, limit=1)
    assert held.forget(NOON) == 0
    assert SeriesKey(OTHER) in held.series.keys


def test_memory_for_who_belongs_where_is_bounded():
    table = SeriesTable(3, SLICES)
    sizes = set()
    for at in range(200):
        table.membership(("docs", f"v{at}", ""), SLICES)
        sizes.add(len(table._members))
    assert max(sizes) <= 4 * table.capacity + 1
    assert np.array(list(table.keys.values())).max() < table.capacity
