"""Everything the windows know of one stretch of time, as plain data."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragmon.signals import Column
from ragmon.signals.latency import STAGES
from ragmon.signals.verdict_sums import JUDGES
from ragmon.stats.agreement import CONFUSION, AgreementFigure, agreement
from ragmon.windows import LATENCY, Merged
from ragmon.windows.estimates import QUANTILES, Estimates, estimate, shown
from ragmon.windows.series import SeriesKey


def build(
    merged: Merged, keys: Mapping[SeriesKey, int], columns: Sequence[Column], pipeline: str = ""
) -> dict[str, Any]:
    """The report of one window: totals over the pipelines, then each with its slices.

    Args:
        merged: the window.
        keys: its series by number.
        columns: of the observations.
        pipeline: only this one; empty for all.
    """
    chosen = {key: number for key, number in keys.items() if pipeline in ("", key.pipeline)}
    whole = [number for key, number in chosen.items() if not key.dimension]
    over_all = Merged(
        merged.rows[whole].sum(axis=0, keepdims=True),
        merged.latency[whole].sum(axis=0, keepdims=True),
        None if merged.judged is None else merged.judged[whole].sum(axis=0, keepdims=True),
    )
    overall = estimate(over_all, columns)
    estimates = estimate(merged, columns)
    columns = shown(columns)
    pipelines = []
    for key, number in sorted(chosen.items()):
        if key.dimension or not estimates.queries[number]:
            continue
        slices = _slices(key.pipeline, chosen, estimates, columns)
        pipelines.append(
            {"pipeline": key.pipeline, **_series(estimates, number, columns), "slices": slices}
        )
    return {**_series(overall, 0, columns), "pipelines": pipelines}


def metric_key(column: Column) -> str:
    """How a metric is called in a report: ``zero_result``, ``hit@3/label``."""
    labels = dict(column.labels)
    k = labels.pop("k", None)
    name = column.name if k is None else f"{column.name}@{k}"
    return "/".join([name, *labels.values()])


def _slices(
    pipeline: str, chosen: dict[SeriesKey, int], estimates: Estimates, columns: Sequence[Column]
) -> list[dict[str, Any]]:
    return [
        {"dimension": key.dimension, "value": key.value, **_series(estimates, number, columns)}
        for key, number in sorted(chosen.items())
        if key.pipeline == pipeline and key.dimension and key.value and estimates.queries[number]
    ]


def _series(estimates: Estimates, number: int, columns: Sequence[Column]) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    modes: dict[str, Any] = {}
    means: dict[str, Any] = {}
    for at, column in enumerate(columns):
        if not estimates.samples[number, at]:
            continue  # no samples, no number
        found = _estimate(estimates, number, at)
        if column.name == LATENCY:
            means[dict(column.labels)["stage"]] = found
        elif column.name == "failure_mode":
            modes[dict(column.labels)["mode"]] = found
        elif column.metric is not None:
            metrics[metric_key(column)] = found
    return {
        "queries": int(estimates.queries[number]),
        "latency_ms": {
            stage: _latency(estimates, number, at, means[stage])
            for at, stage in enumerate(STAGES)
            if stage in means
        },
        "metrics": metrics,
        "failure_modes": modes,
        "judge_agreement": _agreement(estimates, number),
    }


def _agreement(estimates: Estimates, number: int) -> dict[str, Any]:
    """How each judge agrees with people, where both said something."""
    found: dict[str, Any] = {}
    for judge, counts in zip(JUDGES, estimates.confusion[number], strict=True):
        if not counts.any():
            continue
        figures = agreement(counts)
        called = zip(CONFUSION, counts.tolist(), strict=True)
        found[judge] = {
            "labels": figures.labels,
            "balanced_accuracy": _figure(figures.balanced_accuracy),
            "kappa": _figure(figures.kappa),
            "answers": {name: round(count) for name, count in called},
        }
    return found


def _figure(figure: AgreementFigure) -> dict[str, float | None]:
    return {
        "estimate": _plain(figure.value),
        "lower": _plain(figure.lower),
        "upper": _plain(figure.upper),
    }


def _estimate(estimates: Estimates, number: int, at: int) -> dict[str, Any]:
    return {
        "estimate": _plain(estimates.mean[number, at]),
        "lower": _plain(estimates.lower[number, at]),
        "upper": _plain(estimates.upper[number, at]),
        "samples": int(estimates.samples[number, at]),
    }


def _latency(estimates: Estimates, number: int, stage: int, mean: dict[str, Any]) -> dict[str, Any]:
    by_quantile = zip(QUANTILES, estimates.latency_ms[number, stage], strict=True)
    return {
        "mean": mean["estimate"],
        "mean_lower": mean["lower"],
        "mean_upper": mean["upper"],
        **{f"p{100 * q:g}": _plain(value) for q, value in by_quantile},
        "samples": mean["samples"],
    }


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
