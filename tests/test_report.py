"""The report of a window, against the queries it counts."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon import report
from ragmon.records import Latency, QueryRecord
from ragmon.signals import Column
from ragmon.signals.failure_mode import MODES
from ragmon.stats.latency import EDGES_MS
from ragmon.windows.series import dims_of
from tests.support.examples import NOON, chunks, pipeline, query_records, record, windows

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3), relevant_score=0.5)
STAGES = ("total", "retrieval", "generation")


def reported(queries: list[QueryRecord], name: str = "", at: float = NOON) -> dict:
    held = windows(PIPELINE)
    if queries:
        held.fold(PIPELINE.observe(queries))
    built = report.build(held.merge(300.0, at), held.series.keys, held.columns, name)
    return msgspec.to_builtins(built)


def assert_counts(part: dict, queries: list[QueryRecord]) -> None:
    """One part of a report holds what these queries hold, and nothing of what they do not say."""
    values = PIPELINE.observe(queries).values
    assert part["queries"] == len(queries)
    assert part["repeats"] == sum(query.repeat > 0 for query in queries)
    metrics, modes, stages = {}, {}, {}
    for at, column in enumerate(PIPELINE.catalogue.columns):
        known = values[~np.isnan(values[:, at]), at]
        if not len(known):
            continue
        if column.name == "latency_ms":
            stages[dict(column.labels)["stage"]] = known
        elif column.name == "failure_mode":
            modes[dict(column.labels)["mode"]] = known
        elif column.metric is not None:
            metrics[report.metric_key(column)] = known
    assert set(part["metrics"]) == set(metrics)
    assert set(part["failure_modes"]) == set(modes) == set(MODES)
    assert set(part["latency_ms"]) == set(stages)
    for name, known in (metrics | modes).items():
        found = part["metrics"].get(name) or part["failure_modes"][name]
        assert found["samples"] == len(known)
        assert found["estimate"] == pytest.approx(known.mean(), abs=1e-9)
        if found["lower"] is not None:
            assert found["lower"] <= found["estimate"] <= found["upper"]
    for stage, known in stages.items():
        found = part["latency_ms"][stage]
        assert found["samples"] == len(known)
        assert found["mean"] == pytest.approx(known.mean())
        exact = np.quantile(known, 0.9, method="inverted_cdf")
        inside = np.clip(exact, EDGES_MS[0], EDGES_MS[-1])
        assert found["p90"] == pytest.approx(inside, rel=0.0102)


@settings(deadline=None, max_examples=60)
@given(st.lists(query_records(), max_size=25))
def test_a_report_counts_what_its_queries_say(queries):
    found = reported(queries)
    json.dumps(found, allow_nan=False)
    if queries:
        assert_counts(found, queries)
    names = [part["pipeline"] for part in found["pipelines"]]
    assert names == sorted({query.pipeline for query in queries})
    for part in found["pipelines"]:
        mine = [query for query in queries if query.pipeline == part["pipeline"]]
        assert_counts(part, mine)
        expected: dict[tuple[str, str], list[QueryRecord]] = {}
        for query in mine:
            _, version, tenant = dims_of(query, PIPELINE.slices)
            for key in (("version", version), ("tenant", tenant)):
                expected.setdefault(key, []).append(query)
        expected = {key: held for key, held in expected.items() if key[1]}
        slices = {(each["dimension"], each["value"]): each for each in part["slices"]}
        assert list(slices) == sorted(expected)
        for key, held in expected.items():
            assert_counts(slices[key], held)


@settings(deadline=None, max_examples=30)
@given(st.lists(query_records(), min_size=1, max_size=15))
def test_a_report_of_one_pipeline_is_its_part_of_the_whole(queries):
    whole = {part["pipeline"]: part for part in reported(queries)["pipelines"]}
    for name, part in whole.items():
        found = reported(queries, name)
        assert found["pipelines"] == [part]
        assert found["queries"] == part["queries"]
        assert found["metrics"].keys() == part["metrics"].keys()


@pytest.mark.parametrize("name", ["", "nobody"])
def test_a_report_of_nothing(name):
    found = reported([] if not name else [record()], name)
    assert found == {
        "queries": 0,
        "repeats": 0,
        "latency_ms": {},
        "metrics": {},
        "failure_modes": {},
        "judge_agreement": {},
        "pipelines": [],
    }


def test_pipelines_without_queries_in_the_window_are_left_out():
    found = reported([record(pipeline="old", at=NOON - 4_000), record(pipeline="new")])
    assert [part["pipeline"] for part in found["pipelines"]] == ["new"]
    assert found["queries"] == 1


def test_by_hand():
    found = reported(
        [
            record("a", chunks=chunks("x", "y"), citations=["y"], latency_ms=Latency(100.0)),
            record("b", chunks=[], latency_ms=Latency(300.0), version="v2"),
        ]
    )
    assert found["metrics"]["zero_result"]["estimate"] == 0.5
    assert found["metrics"]["hit@1/citation"] == {
        "estimate": 0.0,
        "lower": 0.0,
        "upper": pytest.approx(0.9453, abs=1e-4),
        "samples": 1,
    }
    assert found["metrics"]["hit@3/citation"]["estimate"] == 1.0
    assert found["metrics"]["attribution"]["samples"] == 1
    assert "hit@1/label" not in found["metrics"]
    assert "positive_feedback" not in found["metrics"]
    total = found["latency_ms"]["total"]
    assert (total["mean"], total["samples"]) == (200.0, 2)
    assert total["p50"] == pytest.approx(100.0, rel=0.01)
    assert total["p99"] == pytest.approx(300.0, rel=0.01)
    assert set(total) >= {"p50", "p90", "p95", "p99", "mean_lower", "mean_upper"}
    modes = {mode: part["estimate"] for mode, part in found["failure_modes"].items()}
    assert modes == {"retrieval": 0.5, "ranking": 0, "generation": 0, "none": 0.5, "unknown": 0}
    (part,) = found["pipelines"]
    assert [(each["dimension"], each["value"]) for each in part["slices"]] == [("version", "v2")]


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("error", (), "error"),
        ("hit", (("k", "3"), ("evidence", "label")), "hit@3/label"),
        ("reciprocal_rank", (("evidence", "score"),), "reciprocal_rank/score"),
    ],
)
def test_metric_key(name, labels, expected):
    assert report.metric_key(Column(name, labels, "proportion", "", name)) == expected
