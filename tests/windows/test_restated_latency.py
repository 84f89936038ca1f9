"""Latencies and scores of queries that were mapped again, in windows and in histograms."""

import numpy as np
import pytest

from ragmon.pipeline import Pipeline
from ragmon.records import Amendments, Chunk, Latency, QueryRecord
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build
from ragmon.windows import Windows

NOW = 1_795_300_000.0


@pytest.fixture
def pipeline():
    return Pipeline(build(SignalOptions()))


def windows(pipeline):
    return Windows(pipeline.catalogue.columns, slices=(), longest_s=86_400.0, limit=10)


def record(number, total, retrieval=None, score=None):
    chunks = None if score is None else [Chunk("a", score)]
    return QueryRecord(
        query_id=f"q{number}",
        timestamp=NOW - number,
        chunks=chunks,
        latency_ms=Latency(total, retrieval),
    )


FIRST = [record(at, 10.0) for at in range(5)]
WHOLE = [record(at, 70_000.0, 500.0, 0.7) for at in range(3)]


def test_windows_are_as_if_the_whole_had_come_at_once(pipeline):
    restated, at_once = windows(pipeline), windows(pipeline)
    restated.fold(pipeline.observe(FIRST))
    restated.merge(3_600.0, NOW)
    known = [
        pipeline.revise(*pair)[0] for pair in zip(FIRST, [Amendments()] * 3, WHOLE, strict=False)
    ]
    old = pipeline.observe(FIRST[:3], [Amendments()] * 3)
    restated.restate(old, pipeline.observe(FIRST[:3], known))
    at_once.fold(pipeline.observe([*WHOLE, *FIRST[3:]]))
    for window_s in (300.0, 3_600.0, 86_400.0):
        one, other = restated.merge(window_s, NOW), at_once.merge(window_s, NOW)
        assert one.latency.sum() > 0
        np.testing.assert_array_equal(one.latency, other.latency)
        np.testing.assert_allclose(one.rows, other.rows)


def test_histograms_gain_what_is_new_and_keep_what_was(pipeline):
    counted = windows(pipeline)
    counted.fold(pipeline.observe(FIRST))
    before = counted.totals.latency.copy(), counted.totals.score.copy()
    known = [
        pipeline.revise(*pair)[0] for pair in zip(FIRST, [Amendments()] * 3, WHOLE, strict=False)
    ]
    old = pipeline.observe(FIRST[:3], [Amendments()] * 3)
    counted.restate(old, pipeline.observe(FIRST[:3], known))
    grown = counted.totals.latency - before[0]
    assert (grown >= 0).all()
    assert grown.sum() == 6  # 70 s and the retrieval, of three queries
    assert (counted.totals.score - before[1]).sum() == 3


def test_what_was_not_counted_is_not_taken_back(pipeline):
    counted = windows(pipeline)
    counted.fold(pipeline.observe(FIRST[:1]))
    other = [record(1, 99.0)]
    counted.restate(pipeline.observe(other), pipeline.observe(WHOLE[:1]))
    assert (counted.merge(3_600.0, NOW).latency >= 0).all()
