"""The rolling windows as gauges, each ratio with its interval and its number of samples."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.text import Family, Labels, labelled, number
from ragmon.signals import Column
from ragmon.signals.latency import STAGES
from ragmon.signals.verdict_sums import JUDGES
from ragmon.stats.agreement import CONFUSION, agreement
from ragmon.windows.estimates import QUANTILES, Estimates, shown
from ragmon.windows.series import SeriesKey

Lines = dict[str, list[str]]
_Prefixes = tuple[str, str, str, str]

_AGREEMENT = {
    "balanced_accuracy": "Mean share of the good and of the bad answers that a judge recognises",
    "kappa": "Cohen's kappa of a judge and the human labels (1: always agree, 0: no better than "
    "chance)",
}


class Gauges:
    """Renders estimates; the labels of a series are put together once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = shown(columns)
        self._prefixes: dict[tuple[SeriesKey, str], list[_Prefixes | None]] = {}

    def families(
        self, keys: dict[SeriesKey, int], windows: Sequence[tuple[str, Estimates]]
    ) -> Iterator[Family]:
        """Families over all windows.

        Args:
            keys: series by number.
            windows: (name as configured, estimates).
        """
        lines: Lines = {}
        for name, estimates in windows:
            for key, at in keys.items():
                if at < len(estimates.queries) and _is_shown(key):
                    self._series(lines, key, name, estimates, at)
        for slice_ in ("", "slice_"):
            yield from self._ordered(lines, slice_)

    def forget(self, keys: dict[SeriesKey, int]) -> None:
        """Drop what was kept for series that are gone."""
        gone = [kept for kept in self._prefixes if kept[0] not in keys]
        for kept in gone:
            del self._prefixes[kept]

    def _series(
        self, lines: Lines, key: SeriesKey, window: str, estimates: Estimates, at: int
    ) -> None:
        stem = _stem(key)
        labels = _labels(key, window)
        queries = labelled(f"{stem}window_queries", labels)
        _append(lines, f"{stem}window_queries", f"{queries} {int(estimates.queries[at])}")
        self._ratios(lines, key, window, estimates, at)
        if estimates.confusion[at].any():
            _agreement(lines, stem, labels, estimates.confusion[at])
        for stage, values in zip(STAGES, estimates.latency_ms[at], strict=True):
            for quantile, value in zip(QUANTILES, values.tolist(), strict=True):
                if not math.isnan(value):
                    own = (*labels, ("stage", stage), ("quantile", str(quantile)))
                    text = labelled(f"{stem}latency_seconds", own)
                    _append(lines, f"{stem}latency_seconds", f"{text} {value / 1000:.9g}")

    def _ratios(
        self, lines: Lines, key: SeriesKey, window: str, estimates: Estimates, at: int
    ) -> None:
        prefixes = self._prefixes.get((key, window))
        if prefixes is None:
            prefixes = self._prefixes[key, window] = [
                _prefix(key, window, column) for column in self._columns
            ]
        samples = estimates.samples[at]
        mean, lower, upper = (
            values[at].tolist() for values in (estimates.mean, estimates.lower, estimates.upper)
        )
        stem = _stem(key)
        for column in np.flatnonzero(samples).tolist():
            prefix = prefixes[column]
            if prefix is None:
                continue
            name = f"{stem}{self._columns[column].metric}"
            _append(lines, name, f"{prefix[0]} {number(mean[column])}")
            _append(lines, f"{name}_lower", f"{prefix[1]} {number(lower[column])}")
            _append(lines, f"{name}_upper", f"{prefix[2]} {number(upper[column])}")
            _append(lines, f"{name}_samples", f"{prefix[3]} {int(samples[column])}")

    def _ordered(self, lines: Lines, slice_: str) -> Iterator[Family]:
        of = "by slice, over" if slice_ else "over"
        stem = f"ragmon_{slice_}"
        name = f"{stem}window_queries"
        yield Family(name, "gauge", f"Queries counted {of} the window.", lines.get(name, ()))
        for metric, text in {c.metric: c.help for c in self._columns if c.metric}.items():
            name = f"{stem}{metric}"
            helps = {
                "": f"{text[:-1]}, {of} the window.",
                "_lower": f"Lower end of the 95 % interval of {name}.",
                "_upper": f"Upper end of the 95 % interval of {name}.",
                "_samples": f"Samples behind {name}.",
            }
            for suffix, help_ in helps.items():
                yield Family(name + suffix, "gauge", help_, lines.get(name + suffix, ()))
        yield from _agreement_families(lines, stem, of)
        name = f"{stem}latency_seconds"
        help_ = f"Latency quantile by stage, {of} the window; within 1 %."
        # A summary is what may carry `quantile`; its sum and count are of the window, left out.
        yield Family(name, "summary", help_, lines.get(name, ()))


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


def _prefix(key: SeriesKey, window: str, column: Column) -> _Prefixes | None:
    if column.metric is None:
        return None
    name = f"{_stem(key)}{column.metric}"
    labels = (*_labels(key, window), *column.labels)
    return (
        labelled(name, labels),
        labelled(f"{name}_lower", labels),
        labelled(f"{name}_upper", labels),
        labelled(f"{name}_samples", labels),
    )


def _agreement(lines: Lines, stem: str, labels: Labels, confusion: NDArray[np.float64]) -> None:
    """Agreement of each judge with human labels."""
    for judge, counts in zip(JUDGES, confusion, strict=True):
        if not counts.any():
            continue
        own = (*labels, ("judge", judge))
        answers = f"{stem}judge_agreement_answers"
        for call, count in zip(CONFUSION, counts.tolist(), strict=True):
            text = labelled(answers, (*own, ("call", call)))
            _append(lines, answers, f"{text} {round(count)}")
        figures = agreement(counts)
        for measure in _AGREEMENT:
            figure = getattr(figures, measure)
            for suffix, value in zip(("", "_lower", "_upper"), figure, strict=True):
                if not math.isnan(value):
                    name = f"{stem}judge_agreement_{measure}{suffix}"
                    _append(lines, name, f"{labelled(name, own)} {number(value)}")


def _agreement_families(lines: Lines, stem: str, of: str) -> Iterator[Family]:
    name = f"{stem}judge_agreement_answers"
    text = (
        "Labelled answers by who calls them good: both, judge only, label only, neither; "
        f"{of} the window."
    )
    yield Family(name, "gauge", text, lines.get(name, ()))
    for measure, text in _AGREEMENT.items():
        name = f"{stem}judge_agreement_{measure}"
        yield Family(name, "gauge", f"{text}, {of} the window.", lines.get(name, ()))
        for suffix, end in (("_lower", "Lower"), ("_upper", "Upper")):
            bound = f"{end} end of the 95 % interval of {name}."
            yield Family(name + suffix, "gauge", bound, lines.get(name + suffix, ()))


def _append(lines: Lines, name: str, line: str) -> None:
    lines.setdefault(name, []).append(line)
