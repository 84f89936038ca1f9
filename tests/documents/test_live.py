"""Live top lists: what is kept of many documents, how wrong it may be, and when it begins anew."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.documents import live
from ragmon.documents.live import LiveDocumentCounts, TopCounts
from ragmon.records import Chunk
from tests.support.examples import record

NOON = 1_790_000_000.0 // 3_600 * 3_600


class Hour:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def first(_: int) -> int:
    return 0


def asked(documents, *, pipeline="docs", cited=()):
    chunks = [Chunk(name, 0.5, None, None) for name in documents]
    return record("q", NOON, pipeline=pipeline, chunks=chunks, citations=list(cited))


def only(counts: LiveDocumentCounts, most: int = 50):
    (pipeline,) = counts.top(None, most).pipelines
    return pipeline


@given(st.lists(st.lists(st.integers(0, 60), max_size=30), max_size=30), st.integers(2, 12))
def test_no_count_is_too_high_or_lower_than_is_told(batches, most):
    counts, truth = TopCounts(most), Counter()
    for batch in batches:
        names = [f"d{number}" for number in batch]
        counts.add(names)
        truth.update(names)
    assert len(counts.counts) <= 2 * most
    for name, number in truth.items():
        assert number - counts.too_low <= counts.counts[name] <= number
    assert counts.too_low <= sum(truth.values()) / (most + 1)


def test_documents_are_listed_by_how_often_they_are_retrieved_and_cited():
    counts = LiveDocumentCounts(Hour(), first)
    counts.observe([asked(["a", "b"], cited=["a"]), asked(["a"]), record("none", NOON)])
    pipeline = only(counts)
    assert (pipeline.queries, pipeline.retrievals, pipeline.missing_below) == (2, 3, 0)
    shown = [(one.id, one.retrieved.estimate, one.cited.estimate) for one in pipeline.documents]
    assert shown == [("a", 2, 1), ("b", 1, 0)]
    assert {(one.retrieved.lower, one.retrieved.upper) for one in pipeline.documents} == {
        (2, 2),
        (1, 1),
    }


def test_a_list_is_of_this_hour_and_the_last():
    clock = Hour()
    counts = LiveDocumentCounts(clock, first)
    counts.observe([asked(["a"])])
    clock.now += 3_600.0
    counts.observe([asked(["a", "b"])])
    assert [one.retrieved.estimate for one in only(counts).documents] == [2, 1]
    clock.now += 3_600.0
    assert [one.id for one in only(counts).documents] == ["a", "b"]
    assert only(counts).queries == 1
    clock.now += 7_200.0
    assert counts.top(None, 5).pipelines == []
    assert counts.top(None, 5).start == clock.now // 3_600 * 3_600


def test_a_clock_that_is_set_back_begins_anew():
    clock = Hour()
    counts = LiveDocumentCounts(clock, first)
    counts.observe([asked(["a"])])
    clock.now -= 86_400.0
    assert counts.top(None, 5).pipelines == []


def test_erasure_forgets_what_was_counted():
    counts = LiveDocumentCounts(Hour(), first)
    counts.observe([asked(["a"])])
    counts.clear()
    assert counts.top(None, 5).pipelines == []


def test_of_many_queries_a_sample_is_counted_whose_interval_holds_the_truth(monkeypatch):
    monkeypatch.setattr(live, "COUNTED_ALL", 1_000)
    chance = random.Random(1)
    within = told = 0
    for seed in range(10):
        counts, truth = LiveDocumentCounts(Hour(), random.Random(seed).randrange), Counter()
        for _ in range(300):
            names = [[f"d{int(chance.paretovariate(1.0))}"] for _ in range(20)]
            truth.update(name for (name,) in names)
            counts.observe([asked(one) for one in names])
        for one in only(counts, 20).documents:
            told += 1
            within += one.retrieved.lower <= truth[one.id] <= one.retrieved.upper
    assert within / told >= 0.93
    assert only(counts).queries == pytest.approx(6_000, rel=0.05)


def test_pipelines_that_may_not_be_read_are_left_out_and_further_ones_are_told(monkeypatch):
    monkeypatch.setattr(live, "MOST_PIPELINES", 2)
    counts = LiveDocumentCounts(Hour(), first)
    counts.observe([asked(["a"], pipeline=name) for name in ("one", "two", "two", "three")])
    listed = counts.top(None, 5)
    assert [one.pipeline for one in listed.pipelines] == ["two", "one"]
    assert listed.queries_left_out == 1
    assert [one.pipeline for one in counts.top(lambda name: name == "one", 5).pipelines] == ["one"]


def test_long_ids_are_cut_once_there_are_many():
    counts = TopCounts(most=2)
    counts.add(["x" * 1_000] * 3 + ["a", "b", "c", "d"])
    assert max(map(len, counts.counts)) <= 200
