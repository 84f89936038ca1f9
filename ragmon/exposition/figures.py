"""Every gauge that one series can have over one window, and its value in a row of numbers."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.detectors.losses import HIT_K
from ragmon.exposition.choice import BOUNDS, HEADLINE, SAMPLES
from ragmon.exposition.text import Labels
from ragmon.signals import Column
from ragmon.signals.evidence import EMBEDDED_JUDGE
from ragmon.signals.latency import STAGES
from ragmon.signals.verdict_sums import JUDGES
from ragmon.stats.agreement import CONFUSION, agreement
from ragmon.windows.estimates import QUANTILES, Estimates, shown

Floats = NDArray[np.float64]

QUERIES = "window_queries"
LATENCY = "latency_seconds"

_TOTAL = "total"
_REPEATED = ("faithfulness", (("judge", EMBEDDED_JUDGE),))  # the same as grounding
_MEASURES = {
    "balanced_accuracy": "Mean share of the good and of the bad answers that a judge recognises",
    "kappa": "Cohen's kappa of a judge and the human labels (1: always agree, 0: no better than "
    "chance)",
}
_AGREEMENT = len(CONFUSION) + 3 * len(_MEASURES)  # numbers of one judge


class Gauge(Struct, frozen=True):
    """One number of a series."""

    metric: str  # without ``ragmon_`` or ``ragmon_slice_``
    suffix: str
    labels: Labels  # beside those of the series and the window
    place: int  # in a row of numbers
    is_variant: bool  # one of many of its metric, such as hits at another k than the usual
    help: str  # of the metric; empty for a companion

    @property
    def name(self) -> str:
        """Metric and suffix."""
        return self.metric + self.suffix

    @property
    def is_headline(self) -> bool:
        """True for what tells whether a pipeline is well."""
        return self.metric in HEADLINE and not self.is_variant


def gauges(columns: Sequence[Column]) -> tuple[Gauge, ...]:
    """Every gauge, those of one family together."""
    all_columns = shown(columns)
    text = "Queries counted."
    return (
        Gauge(QUERIES, "", (), 0, is_variant=False, help=text),
        *_of_columns(all_columns),
        *_of_agreement(1 + 4 * len(all_columns)),
        *_of_latency(1 + 4 * len(all_columns) + _AGREEMENT * len(JUDGES)),
    )


def width(columns: Sequence[Column]) -> int:
    """Number of places in a row of numbers."""
    agreements = _AGREEMENT * len(JUDGES)
    return 1 + 4 * len(shown(columns)) + agreements + len(STAGES) * len(QUANTILES)


def numbers(estimates: Estimates) -> Floats:
    """The numbers of each series, shape (series, places); NaN for what is unknown."""
    count = len(estimates.queries)
    samples = np.where(estimates.samples > 0, estimates.samples, np.nan)
    unknown = np.isnan(samples)
    of_columns = (estimates.mean, estimates.lower, estimates.upper, samples)
    return np.concatenate(
        [
            estimates.queries[:, None],
            *(np.where(unknown, np.nan, values) for values in of_columns),
            _agreements(estimates.confusion),
            _rounded(estimates.latency_ms.reshape(count, -1) / 1_000),
        ],
        axis=1,
    )


def _of_columns(columns: Sequence[Column]) -> Iterator[Gauge]:
    metrics: dict[str, list[int]] = {}
    for at, column in enumerate(columns):
        if column.metric is not None and (column.name, column.labels) != _REPEATED:
            metrics.setdefault(column.metric, []).append(at)
    ks = {int(dict(column.labels)["k"]) for column in columns if column.name == "hit"}
    headline_k = min(ks, key=lambda k: (abs(k - HIT_K), k), default=HIT_K)
    for metric, places in metrics.items():
        for part, suffix in enumerate(("", *BOUNDS, SAMPLES)):
            for at in places:
                column = columns[at]
                k = int(dict(column.labels).get("k", headline_k))
                yield Gauge(
                    metric,
                    suffix,
                    column.labels,
                    1 + part * len(columns) + at,
                    is_variant=k != headline_k,
                    help="" if suffix else column.help,
                )


def _of_agreement(first: int) -> Iterator[Gauge]:
    judges = [(first + _AGREEMENT * at, ("judge", judge)) for at, judge in enumerate(JUDGES)]
    text = "Labelled answers by who calls them good: both, judge only, label only, neither."
    for place, judge in judges:
        for at, call in enumerate(CONFUSION):
            labels = (judge, ("call", call))
            metric = "judge_agreement_answers"
            yield Gauge(metric, "", labels, place + at, is_variant=False, help=text)
    for measure, (name, help_) in enumerate(_MEASURES.items()):
        for part, suffix in enumerate(("", *BOUNDS)):
            text = "" if suffix else f"{help_}."
            for place, judge in judges:
                at = place + len(CONFUSION) + 3 * measure + part
                metric = f"judge_agreement_{name}"
                yield Gauge(metric, suffix, (judge,), at, is_variant=False, help=text)


def _of_latency(first: int) -> Iterator[Gauge]:
    for stage, name in enumerate(STAGES):
        for at, quantile in enumerate(QUANTILES):
            yield Gauge(
                LATENCY,
                "",
                (("stage", name), ("quantile", str(quantile))),
                first + stage * len(QUANTILES) + at,
                is_variant=name != _TOTAL,
                help="Latency quantile by stage; within 1 %.",
            )


def _agreements(confusion: Floats) -> Floats:
    """Counts and measures of each judge; shape (series, judges x numbers)."""
    figures = np.full((*confusion.shape[:2], _AGREEMENT), np.nan)
    for series, judge in np.argwhere(confusion.any(axis=2)).tolist():
        counts = confusion[series, judge]
        measured = agreement(counts)
        measures = [getattr(measured, measure) for measure in _MEASURES]
        figures[series, judge] = [
            *np.round(counts).tolist(),
            *(x for each in measures for x in each),
        ]
    return figures.reshape(len(confusion), -1)


def _rounded(seconds: Floats) -> Floats:
    """The same to nine digits: of a quantile known to 1 %, more are noise."""
    scale = 10.0 ** (8 - np.floor(np.log10(seconds)))
    return np.round(seconds * scale) / scale
