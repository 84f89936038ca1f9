"""Metrics of the baseline in force: its levels are put together once, and anew for another."""

from ragmon.detectors import StreamKey
from ragmon.detectors.baselines import from_totals
from ragmon.exposition import baselines
from ragmon.exposition.baselines import BaselineMetrics


def made(name, lost):
    key = StreamKey("docs", "zero_result")
    return from_totals(name, {key: (100.0, lost, lost)}, "a run", 0.0)


def shown(metrics):
    return [
        (sample.name, tuple(sample.labels.values()), sample.value)
        for family in metrics.collect()
        for sample in family.samples
    ]


def test_levels_are_put_together_once_a_baseline(monkeypatch):
    calls = []
    real = baselines.levels
    monkeypatch.setattr(baselines, "levels", lambda each: calls.append(each) or real(each))
    active = [made("before", 5.0)]
    metrics = BaselineMetrics(lambda: active[0])
    assert shown(metrics) == [
        ("ragmon_baseline_info", ("docs", "before"), 1.0),
        ("ragmon_baseline_ratio", ("docs", "zero_result"), 0.05),
    ]
    assert shown(metrics) == shown(metrics)
    assert len(calls) == 1
    active[0] = made("after", 20.0)
    assert shown(metrics)[1][2] == 0.2
    active[0] = None
    assert shown(metrics) == []
    assert len(calls) == 2
