"""Metrics of golden probes: the questions never change, so a change is the system's."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_QUALITY = {
    "precision": ("precision", "k", "Share of the first k results that are relevant"),
    "recall": ("recall", "k", "Share of the relevant documents found among the first k"),
    "ndcg": ("ndcg", "k", "Graded relevance among the first k, discounted by rank"),
    "hit": (
        "hit_ratio",
        "k",
        "Share of golden questions with a relevant document among the first k",
    ),
    "reciprocal_rank": ("reciprocal_rank", "", "Mean of 1 / rank of the first relevant result"),
    "faithfulness": (
        "faithfulness_ratio",
        "judge",
        "Mean share of an answer that its chunks support",
    ),
    "error": ("error_ratio", "", "Share of golden questions without a usable answer"),
}
"""By metric of an evaluation: the series, the label that tells its variants apart, the help."""


class Quality(NamedTuple):
    """One metric of a run."""

    metric: str  # ``recall@5``, ``faithfulness/grounding``
    mean: float
    lower: float | None
    upper: float | None
    samples: int


class Fall(NamedTuple):
    """One metric against the reference run, case by case."""

    metric: str
    fall: float  # in the share of cases that pass
    p_value: float


class ProbeView(NamedTuple):
    """A probe as it stands."""

    probe: str
    started_at: float | None = None  # of the last run
    duration_s: float = 0.0
    cases: int = 0
    quality: Sequence[Quality] = ()
    falls: Sequence[Fall] = ()
    runs: Mapping[str, int] = {}
    failures: Mapping[str, int] = {}


class ProbeMetrics(Collector):
    """Asks for the probes at each scrape."""

    def __init__(self, views: Callable[[], Iterable[ProbeView]]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        """Everything of every probe."""
        views = list(self._views())
        for base in _QUALITY:
            yield from _quality(base, views)
        yield from _runs([view for view in views if view.started_at is not None])
        yield _counter("runs", "Runs of a probe", "outcome", [(v, v.runs) for v in views])
        text = "Golden questions without a usable answer"
        yield _counter("failures", text, "reason", [(v, v.failures) for v in views])
        yield from _falls(views)


def _quality(base: str, views: Sequence[ProbeView]) -> Iterator[Metric]:
    name, variant, text = _QUALITY[base]
    labels = ["probe", variant] if variant else ["probe"]
    full = f"ragmon_probe_{name}"
    parts = {
        "": f"{text}, in the last run of the probe.",
        "_lower": f"Lower end of the 95 % interval of {full}.",
        "_upper": f"Upper end of the 95 % interval of {full}.",
        "_samples": f"Samples behind {full}.",
    }
    families = {
        end: GaugeMetricFamily(full + end, help_, None, labels) for end, help_ in parts.items()
    }
    for view in views:
        for quality in view.quality:
            kind, _, which = quality.metric.replace("/", "@").partition("@")
            if kind == base:
                values = (quality.mean, quality.lower, quality.upper, float(quality.samples))
                for family, value in zip(families.values(), values, strict=True):
                    if value is not None:
                        family.add_metric([view.probe, which][: len(labels)], value)
    yield from families.values()


def _runs(views: Sequence[ProbeView]) -> Iterator[Metric]:
    for name, text, values in (
        (
            "last_run_timestamp_seconds",
            "Unix time at which the last run started.",
            [v.started_at for v in views],
        ),
        ("last_run_duration_seconds", "Duration of the last run.", [v.duration_s for v in views]),
        ("cases", "Golden questions of the last run.", [v.cases for v in views]),
    ):
        family = GaugeMetricFamily(f"ragmon_probe_{name}", text, None, ["probe"])
        for view, value in zip(views, values, strict=True):
            family.add_metric([view.probe], float(value or 0.0))
        yield family


def _falls(views: Sequence[ProbeView]) -> Iterator[Metric]:
    for name, text, at in (
        (
            "fall_ratio",
            "Drop in the share of golden cases that pass, compared with the reference run.",
            1,
        ),
        (
            "fall_p_value",
            "Probability of a drop this large by chance (exact one-sided test); low is bad.",
            2,
        ),
    ):
        family = GaugeMetricFamily(f"ragmon_probe_{name}", text, None, ["probe", "metric"])
        for view in views:
            for fall in view.falls:
                family.add_metric([view.probe, fall.metric], float(fall[at]))
        yield family


def _counter(
    name: str, text: str, label: str, counts: Sequence[tuple[ProbeView, Mapping[str, int]]]
) -> Metric:
    family = CounterMetricFamily(
        f"ragmon_probe_{name}", f"{text}, by {label}.", None, ["probe", label]
    )
    for view, by_label in counts:
        for key, count in by_label.items():
            family.add_metric([view.probe, key], count)
    return family
