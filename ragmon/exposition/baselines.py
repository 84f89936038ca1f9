"""Metrics of the baseline that traffic is compared with."""

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragmon.detectors.baselines import Baseline, levels


class BaselineMetrics(Collector):
    """Asked at each scrape, from any thread: a baseline is replaced as a whole."""

    def __init__(self, active: Callable[[], Baseline | None]) -> None:
        self._active = active

    def collect(self) -> Iterator[Metric]:
        """The families of a scrape; without samples while there is no baseline."""
        info = GaugeMetricFamily(
            "ragmon_baseline_info",
            "Name of the baseline that a pipeline is compared with; the value is always 1.",
            labels=("pipeline", "baseline"),
        )
        ratio = GaugeMetricFamily(
            "ragmon_baseline_ratio",
            "Level of a metric in the active baseline, averaged over all hours.",
            labels=("pipeline", "metric"),
        )
        baseline = self._active()
        whole = [] if baseline is None else [level for level in levels(baseline) if not level.slice]
        for pipeline in sorted({each.stream.pipeline for each in whole}):
            assert baseline is not None
            info.add_metric((pipeline, baseline.name), 1.0)
        for level in whole:
            ratio.add_metric((level.stream.pipeline, level.stream.metric), level.value)
        yield info
        yield ratio
