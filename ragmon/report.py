"""Report of one stretch of time: every figure that the windows hold, as structs with JSON names."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from ragmon.signals import Column, repeat
from ragmon.signals.latency import STAGES
from ragmon.signals.verdict_sums import JUDGES
from ragmon.stats.agreement import CONFUSION, AgreementFigure, agreement
from ragmon.windows import LATENCY, Merged
from ragmon.windows.estimates import QUANTILES, Estimates, estimate, shown
from ragmon.windows.series import SeriesKey


class MeanEstimate(Struct, frozen=True, kw_only=True):
    """A mean over the samples of a window with its 95 % interval."""

    estimate: float | None
    lower: float | None
    upper: float | None
    samples: int


class LatencyFigures(Struct, frozen=True, kw_only=True):
    """Milliseconds of one stage: the mean with its 95 % interval, and quantiles."""

    mean: float | None
    mean_lower: float | None
    mean_upper: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    samples: int


class AgreementEstimate(Struct, frozen=True, kw_only=True):
    """One measure of agreement with its 95 % interval; null where the labels are too few."""

    estimate: float | None
    lower: float | None
    upper: float | None


class ConfusionCounts(Struct, frozen=True, kw_only=True):
    """Labelled answers by who calls them good."""

    both_good: int
    judge_only: int
    label_only: int
    both_bad: int


class LabelAgreement(Struct, frozen=True, kw_only=True):
    """Agreement of a judge with human labels, over the answers that have both."""

    labels: int
    balanced_accuracy: AgreementEstimate
    kappa: AgreementEstimate
    answers: ConfusionCounts


class SeriesFigures(Struct, frozen=True, kw_only=True):
    """Figures of one series; a metric without samples is absent, never zero."""

    queries: int
    repeats: int  # of them, asked before in the same minute by the same user or session
    latency_ms: dict[str, LatencyFigures]  # by stage
    metrics: dict[str, MeanEstimate]  # by ``metric_key``
    failure_modes: dict[str, MeanEstimate]  # share of queries, by mode
    judge_agreement: dict[str, LabelAgreement]  # by judge


class SliceReport(Struct, frozen=True, kw_only=True):
    """One slice of a pipeline, for example ``version`` = ``v2``."""

    dimension: str
    value: str
    queries: int
    repeats: int
    latency_ms: dict[str, LatencyFigures]
    metrics: dict[str, MeanEstimate]
    failure_modes: dict[str, MeanEstimate]
    judge_agreement: dict[str, LabelAgreement]


class PipelineReport(Struct, frozen=True, kw_only=True):
    """One pipeline as a whole, then its slices."""

    pipeline: str
    queries: int
    repeats: int
    latency_ms: dict[str, LatencyFigures]
    metrics: dict[str, MeanEstimate]
    failure_modes: dict[str, MeanEstimate]
    judge_agreement: dict[str, LabelAgreement]
    slices: list[SliceReport]


class WindowReport(SeriesFigures, frozen=True, kw_only=True):
    """Totals over the pipelines, then each pipeline."""

    pipelines: list[PipelineReport]


def build(
    merged: Merged, keys: Mapping[SeriesKey, int], columns: Sequence[Column], pipeline: str = ""
) -> WindowReport:
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
    pipelines = [
        PipelineReport(
            pipeline=key.pipeline,
            slices=_slices(key.pipeline, chosen, estimates, columns),
            **asdict(_figures(estimates, number, columns)),
        )
        for key, number in sorted(chosen.items())
        if not key.dimension and estimates.queries[number]
    ]
    return WindowReport(pipelines=pipelines, **asdict(_figures(overall, 0, columns)))


def query_count(queries: int) -> str:
    """A number of queries, in words."""
    return "1 query" if queries == 1 else f"{queries:,} queries"


def metric_key(column: Column) -> str:
    """Name of a metric in a report: ``zero_result``, ``hit@3/label``."""
    labels = dict(column.labels)
    k = labels.pop("k", None)
    name = column.name if k is None else f"{column.name}@{k}"
    return "/".join([name, *labels.values()])


def _slices(
    pipeline: str, chosen: dict[SeriesKey, int], estimates: Estimates, columns: Sequence[Column]
) -> list[SliceReport]:
    return [
        SliceReport(
            dimension=key.dimension,
            value=key.value,
            **asdict(_figures(estimates, number, columns)),
        )
        for key, number in sorted(chosen.items())
        if key.pipeline == pipeline and key.dimension and key.value and estimates.queries[number]
    ]


def _figures(estimates: Estimates, number: int, columns: Sequence[Column]) -> SeriesFigures:
    metrics: dict[str, MeanEstimate] = {}
    modes: dict[str, MeanEstimate] = {}
    means: dict[str, MeanEstimate] = {}
    repeats = 0
    for at, column in enumerate(columns):
        if not estimates.samples[number, at]:
            continue  # no samples, no number
        mean = _mean(estimates, number, at)
        if column.name == LATENCY:
            means[dict(column.labels)["stage"]] = mean
        elif column.name == "failure_mode":
            modes[dict(column.labels)["mode"]] = mean
        elif column.name == repeat.NAME:
            repeats = mean.samples
        elif column.metric is not None:
            metrics[metric_key(column)] = mean
    return SeriesFigures(
        queries=int(estimates.queries[number]),
        repeats=repeats,
        latency_ms={
            stage: _latency(estimates, number, at, means[stage])
            for at, stage in enumerate(STAGES)
            if stage in means
        },
        metrics=metrics,
        failure_modes=modes,
        judge_agreement=_agreement(estimates, number),
    )


def _agreement(estimates: Estimates, number: int) -> dict[str, LabelAgreement]:
    """Agreement of each judge with people, where both rated some of the answers."""
    by_judge: dict[str, LabelAgreement] = {}
    for judge, counts in zip(JUDGES, estimates.confusion[number], strict=True):
        if counts.any():
            by_judge[judge] = label_agreement(counts)
    return by_judge


def label_agreement(counts: NDArray[np.float64]) -> LabelAgreement:
    """Agreement of a judge with people, from counts over ``CONFUSION``."""
    figures = agreement(counts)
    named = zip(CONFUSION, map(round, counts.tolist()), strict=True)
    return LabelAgreement(
        labels=figures.labels,
        balanced_accuracy=_interval(figures.balanced_accuracy),
        kappa=_interval(figures.kappa),
        answers=ConfusionCounts(**dict(named)),
    )


def _interval(figure: AgreementFigure) -> AgreementEstimate:
    return AgreementEstimate(
        estimate=known(figure.value), lower=known(figure.lower), upper=known(figure.upper)
    )


def _mean(estimates: Estimates, number: int, at: int) -> MeanEstimate:
    return MeanEstimate(
        estimate=known(estimates.mean[number, at]),
        lower=known(estimates.lower[number, at]),
        upper=known(estimates.upper[number, at]),
        samples=int(estimates.samples[number, at]),
    )


def _latency(estimates: Estimates, number: int, stage: int, mean: MeanEstimate) -> LatencyFigures:
    by_quantile = zip(QUANTILES, estimates.latency_ms[number, stage], strict=True)
    return LatencyFigures(
        mean=mean.estimate,
        mean_lower=mean.lower,
        mean_upper=mean.upper,
        samples=mean.samples,
        **{f"p{100 * q:g}": known(value) for q, value in by_quantile},
    )


def known(value: float) -> float | None:
    """None in place of NaN, which JSON cannot hold."""
    return None if np.isnan(value) else float(value)
