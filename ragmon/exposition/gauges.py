"""The rolling windows as gauges, each ratio with its interval and its number of samples."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.text import Family, Labels, Sample, Series, series
from ragmon.signals import Column
from ragmon.signals.latency import STAGES
from ragmon.signals.verdict_sums import JUDGES
from ragmon.stats.agreement import CONFUSION, agreement
from ragmon.windows.estimates import QUANTILES, Estimates, shown
from ragmon.windows.series import SeriesKey

Samples = dict[str, list[Sample]]
"""By the name of their family."""

_Bounds = tuple[Series, Series, Series, Series]  # value, lower, upper, samples

_AGREEMENT = {
    "balanced_accuracy": "Mean share of the good and of the bad answers that a judge recognises",
    "kappa": "Cohen's kappa of a judge and the human labels (1: always agree, 0: no better than "
    "chance)",
}


class Gauges:
    """Makes samples of estimates; the text of a series is put together once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = shown(columns)
        self._bounds: dict[tuple[SeriesKey, str], list[_Bounds | None]] = {}

    def families(
        self, keys: dict[SeriesKey, int], windows: Sequence[tuple[str, Estimates]]
    ) -> Iterator[Family]:
        """Families over all windows.

        Args:
            keys: series by number.
            windows: (name as configured, estimates).
        """
        samples: Samples = {}
        for name, estimates in windows:
            for key, at in keys.items():
                if at < len(estimates.queries) and _is_shown(key):
                    self._series(samples, key, name, estimates, at)
        for slice_ in ("", "slice_"):
            yield from self._ordered(samples, slice_)

    def forget(self, keys: dict[SeriesKey, int]) -> None:
        """Drop what was kept for series that are gone."""
        gone = [kept for kept in self._bounds if kept[0] not in keys]
        for kept in gone:
            del self._bounds[kept]

    def _series(
        self, samples: Samples, key: SeriesKey, window: str, estimates: Estimates, at: int
    ) -> None:
        stem = _stem(key)
        labels = _labels(key, window)
        _append(samples, f"{stem}window_queries", labels, float(estimates.queries[at]))
        self._ratios(samples, key, window, estimates, at)
        if estimates.confusion[at].any():
            _agreement(samples, stem, labels, estimates.confusion[at])
        for stage, values in zip(STAGES, estimates.latency_ms[at], strict=True):
            for quantile, value in zip(QUANTILES, values.tolist(), strict=True):
                if not math.isnan(value):
                    own = (*labels, ("stage", stage), ("quantile", str(quantile)))
                    seconds = float(f"{value / 1000:.9g}")  # known to 1 %, so digits are noise
                    _append(samples, f"{stem}latency_seconds", own, seconds)

    def _ratios(
        self, samples: Samples, key: SeriesKey, window: str, estimates: Estimates, at: int
    ) -> None:
        bounds = self._bounds.get((key, window))
        if bounds is None:
            bounds = self._bounds[key, window] = [
                _bounds(key, window, column) for column in self._columns
            ]
        counts = estimates.samples[at]
        mean, lower, upper = (
            values[at].tolist() for values in (estimates.mean, estimates.lower, estimates.upper)
        )
        for column in np.flatnonzero(counts).tolist():
            of_column = bounds[column]
            if of_column is None:
                continue
            figures = (mean[column], lower[column], upper[column], float(counts[column]))
            for sample in zip(of_column, figures, strict=True):
                samples.setdefault(sample[0].name, []).append(sample)

    def _ordered(self, samples: Samples, slice_: str) -> Iterator[Family]:
        of = "by slice, over" if slice_ else "over"
        stem = f"ragmon_{slice_}"
        name = f"{stem}window_queries"
        yield Family(name, "gauge", f"Queries counted {of} the window.", samples.get(name, ()))
        for metric, text in {c.metric: c.help for c in self._columns if c.metric}.items():
            name = f"{stem}{metric}"
            helps = {
                "": f"{text[:-1]}, {of} the window.",
                "_lower": f"Lower end of the 95 % interval of {name}.",
                "_upper": f"Upper end of the 95 % interval of {name}.",
                "_samples": f"Samples behind {name}.",
            }
            for suffix, help_ in helps.items():
                yield Family(name + suffix, "gauge", help_, samples.get(name + suffix, ()))
        yield from _agreement_families(samples, stem, of)
        name = f"{stem}latency_seconds"
        help_ = f"Latency quantile by stage, {of} the window; within 1 %."
        # A summary is what may carry `quantile`; its sum and count are of the window, left out.
        yield Family(name, "summary", help_, samples.get(name, ()))


def _is_shown(key: SeriesKey) -> bool:
    return not key.dimension or bool(key.value)


def _stem(key: SeriesKey) -> str:
    return "ragmon_slice_" if key.dimension else "ragmon_"


def _labels(key: SeriesKey, window: str) -> Labels:
    if not key.dimension:
        return (("pipeline", key.pipeline), ("window", window))
    return (
        ("pipeline", key.pipeline),
        ("dimension", key.dimension),
        ("value", key.value),
        ("window", window),
    )


def _bounds(key: SeriesKey, window: str, column: Column) -> _Bounds | None:
    if column.metric is None:
        return None
    name = f"{_stem(key)}{column.metric}"
    labels = (*_labels(key, window), *column.labels)
    return (
        series(name, labels),
        series(f"{name}_lower", labels),
        series(f"{name}_upper", labels),
        series(f"{name}_samples", labels),
    )


def _agreement(samples: Samples, stem: str, labels: Labels, confusion: NDArray[np.float64]) -> None:
    """Agreement of each judge with human labels."""
    for judge, counts in zip(JUDGES, confusion, strict=True):
        if not counts.any():
            continue
        own = (*labels, ("judge", judge))
        answers = f"{stem}judge_agreement_answers"
        for call, count in zip(CONFUSION, counts.tolist(), strict=True):
            _append(samples, answers, (*own, ("call", call)), float(round(count)))
        figures = agreement(counts)
        for measure in _AGREEMENT:
            figure = getattr(figures, measure)
            for suffix, value in zip(("", "_lower", "_upper"), figure, strict=True):
                if not math.isnan(value):
                    name = f"{stem}judge_agreement_{measure}{suffix}"
                    _append(samples, name, own, value)


def _agreement_families(samples: Samples, stem: str, of: str) -> Iterator[Family]:
    name = f"{stem}judge_agreement_answers"
    text = (
        "Labelled answers by who calls them good: both, judge only, label only, neither; "
        f"{of} the window."
    )
    yield Family(name, "gauge", text, samples.get(name, ()))
    for measure, text in _AGREEMENT.items():
        name = f"{stem}judge_agreement_{measure}"
        yield Family(name, "gauge", f"{text}, {of} the window.", samples.get(name, ()))
        for suffix, end in (("_lower", "Lower"), ("_upper", "Upper")):
            bound = f"{end} end of the 95 % interval of {name}."
            yield Family(name + suffix, "gauge", bound, samples.get(name + suffix, ()))


def _append(samples: Samples, name: str, labels: Labels, value: float) -> None:
    samples.setdefault(name, []).append((series(name, labels), value))
