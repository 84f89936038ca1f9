"""Metrics of the monitor itself, kept by prometheus_client."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import Metric, Sample
from prometheus_client.registry import Collector

from ragmon import __version__
from ragmon.exposition.text import Family, HistogramSample, Labels, Series, series
from ragmon.refusals import RefusalExamples, RefusalKind

REASONS = ("invalid", "malformed", "too_old", "future", "overloaded", "too_large")
SOURCES = ("http", "feedback", "label")

_COMMIT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class OwnMetrics:
    """Counters that the parts add to, and gauges that are asked for at scrape time."""

    def __init__(self) -> None:
        self.refusals = RefusalExamples()
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._series: dict[tuple[str, Labels | tuple[str, ...]], Series] = {}
        info = Gauge("ragmon_build_info", "Version of ragmon.", ["version"], registry=self.registry)
        info.labels(__version__).set(1)
        self._ingested = self._counter(
            "ragmon_ingest_records", "Records, feedback and labels stored on disk.", "source"
        )
        self._rejected = self._counter(
            "ragmon_rejected",
            "Records and requests refused, by reason; nothing of them is stored.",
            "source",
            "reason",
        )
        self._unmapped = self._mapping_counter()
        self._duplicates = self._counter(
            "ragmon_duplicates",
            "Records sent again under an id already stored; they are not counted twice.",
            "source",
        )
        self.commit_seconds = Histogram(
            "ragmon_commit_duration_seconds",
            "Time to write a group of batches to disk and count it.",
            buckets=_COMMIT_SECONDS,
            registry=self.registry,
        )
        self.evaluated_at = self._gauge(
            "ragmon_evaluation_timestamp_seconds",
            "Unix time of the last evaluation of the windows; alert if it is old.",
        )
        self.evaluation_seconds = self._gauge(
            "ragmon_evaluation_duration_seconds", "Duration of the last evaluation of the windows."
        )
        text = "Scheduled runs skipped because the previous run had not finished."
        self.skipped_runs = self._counter("ragmon_scheduled_runs_skipped", text, "task")
        self._judged = self._counter(
            "ragmon_judged",
            "Answers judged, by outcome: scored, or the reason why not.",
            "judge",
            "outcome",
        )
        self._notifications = self._counter(
            "ragmon_notifications",
            "Attempts to send a notification, by outcome: delivered, retried or dead (given up).",
            "sink",
            "outcome",
        )
        self._start_at_zero()

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is asked for its value at each scrape."""
        self.watch_gauges(name, text, (), lambda: {(): float(value())})

    def watch_each(
        self, name: str, text: str, label: str, values: Callable[[], Mapping[str, float]]
    ) -> None:
        """Gauges told apart by one label, asked for at each scrape."""
        gauges = _Watched("gauge", name, text, (label,), lambda: _by_label(values()))
        self.registry.register(gauges)

    def watch_gauges(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        """Gauges told apart by labels, asked for at each scrape."""
        self.registry.register(_Watched("gauge", name, text, labels, values))

    def watch_each_total(
        self, name: str, text: str, label: str, values: Callable[[], Mapping[str, float]]
    ) -> None:
        """Counters kept elsewhere, told apart by one label, asked for at each scrape."""
        self.watch_labelled(name, text, (label,), lambda: _by_label(values()))

    def watch_total(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A counter kept elsewhere, asked for at each scrape."""
        self.watch_labelled(name, text, (), lambda: {(): value()})

    def watch_labelled(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        """Counters kept elsewhere, told apart by labels, asked for at each scrape."""
        self.registry.register(_Watched("counter", name, text, labels, values))

    def accepted(self, source: str, count: int) -> None:
        """Records, feedback or labels made durable."""
        if count:
            self._ingested.labels(source).inc(count)

    def duplicated(self, source: str, count: int) -> None:
        """Sent before, and not counted again."""
        if count:
            self._duplicates.labels(source).inc(count)

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        """Refused, for a reason out of a small set."""
        self._rejected.labels(source, reason).inc(count)

    def note_refusal(self, source: str, reason: str, at: float, text: str) -> None:
        """Keep one of those that were refused as an example, for people."""
        self.refusals.note(RefusalKind(source, reason), at, text)

    def unmapped(self, source: str, field: str, count: int) -> None:
        """Originals without what the mapping of a field looks for."""
        self._unmapped.labels(source, field).inc(count)

    def judged(self, judge: str, outcome: str) -> None:
        """One answer went through a judge."""
        self._judged.labels(judge, outcome).inc()

    def totals(self, name: str) -> dict[tuple[str, ...], float]:
        """Every value of a counter by its labels' values, in the order of their names."""
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in self.registry.restricted_registry([name]).collect()
            for sample in family.samples
            if sample.name == name
        }

    def total(self, name: str, **labels: str) -> float:
        """Value of a counter; 0 before it was first added to."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def notified(self, sink: str, outcome: str, count: int = 1) -> None:
        """An attempt to deliver an alert ended: delivered, retried or dead."""
        self._notifications.labels(sink, outcome).inc(count)

    @property
    def dead_letters(self) -> float:
        """Notifications given up since the start."""
        samples = (sample for family in self._notifications.collect() for sample in family.samples)
        return sum(each.value for each in samples if each.labels.get("outcome") == "dead")

    def families(self) -> Iterator[Family]:
        """Everything, as it is now."""
        for metric in self.registry.collect():
            if isinstance(metric, _WatchedMetric):
                yield self._watched_family(metric)
                continue
            if metric.type == "histogram":
                yield Family(metric.name, "histogram", metric.documentation, (), histograms(metric))
                continue
            samples = [
                (self._known(sample.name, tuple(sample.labels.items())), sample.value)
                for sample in metric.samples
            ]
            name = metric.name + ("_total" if metric.type == "counter" else "")
            yield Family(name, metric.type, metric.documentation, samples)

    def _watched_family(self, metric: "_WatchedMetric") -> Family:
        """The family, whose series are known by the values of their labels."""
        watched = metric.watched
        samples = []
        for values, number in metric.values.items():
            known = self._series.get((watched.series_name, values))
            if known is None:
                labels = tuple(zip(watched.labels, values, strict=True))
                known = series(watched.series_name, tuple(sorted(labels)))
                self._series[watched.series_name, values] = known
            samples.append((known, number))
        return Family(watched.series_name, metric.type, metric.documentation, samples)

    def _known(self, name: str, labels: Labels) -> Series:
        """The series, of which the text is made once."""
        known = self._series.get((name, labels))
        if known is None:
            known = self._series[name, labels] = series(name, tuple(sorted(labels)))
        return known

    def _start_at_zero(self) -> None:
        """Show the usual series before they count anything, so that rate() sees the first."""
        for source in SOURCES:
            self._ingested.labels(source)
            self._duplicates.labels(source)
            for reason in REASONS:
                self._rejected.labels(source, reason)

    def _mapping_counter(self) -> Counter:
        return self._counter(
            "ragmon_mapping_missing",
            "Fields of a source's mapping that its originals did not have. All of them: mend the "
            "expression, `ragmon import --dry-run` shows it; some: they are optional.",
            "source",
            "field",
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)


class _Watched(Collector):
    """Gauges or counters whose values live elsewhere, by the values of their labels."""

    def __init__(
        self,
        kind: str,
        name: str,
        text: str,
        labels: tuple[str, ...],
        values: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        self.empty = Metric(name.removesuffix("_total") if kind == "counter" else name, text, kind)
        self.labels, self._values = labels, values
        self.series_name = self.empty.name + ("_total" if kind == "counter" else "")

    def collect(self) -> Iterator[Metric]:
        yield _WatchedMetric(self, self._values())


class _WatchedMetric(Metric):
    """Values at one moment, of which the samples are made only for who asks.

    A scrape makes its lines of the values: samples, and a metric whose name is checked again,
    took a fifth of a scrape after which nothing had changed.
    """

    def __init__(self, watched: _Watched, values: Mapping[tuple[str, ...], float]) -> None:
        self.__dict__.update(watched.empty.__dict__)
        self.watched = watched
        self.values = values
        del self.__dict__["samples"]

    def __getattr__(self, name: str) -> list[Sample]:
        if name != "samples":
            raise AttributeError(name)
        watched = self.watched
        return [
            Sample(
                watched.series_name, dict(zip(watched.labels, values, strict=True)), number, None
            )
            for values, number in self.values.items()
        ]


def _by_label(values: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    """The same by the values of all labels, which are one."""
    return {(value,): number for value, number in values.items()}


def histograms(metric: Metric) -> list[HistogramSample]:
    """The histograms of one metric, whose buckets prometheus_client has as cumulative samples."""
    edges: dict[Labels, list[float]] = {}
    below: dict[Labels, list[int]] = {}
    totals: dict[Labels, float] = {}
    for sample in metric.samples:
        labels = tuple(item for item in sample.labels.items() if item[0] != "le")
        if sample.name.endswith("_bucket"):
            edges.setdefault(labels, []).append(float(sample.labels["le"]))
            below.setdefault(labels, []).append(int(sample.value))
        elif sample.name.endswith("_sum"):
            totals[labels] = sample.value
    return [
        HistogramSample(
            labels,
            edges[labels][:-1],
            [count - before for before, count in pairwise((0, *counts))],
            totals[labels],
        )
        for labels, counts in below.items()
    ]
