"""Metrics of the baseline that traffic is compared with."""

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ragmon.detectors.baselines import Baseline, BaselineLevel, levels


class BaselineMetrics(Collector):
    """Asked at each scrape, from any thread: a baseline is replaced as a whole."""

    def __init__(self, active: Callable[[], Baseline | None]) -> None:
        self._active = active
        self._kept: tuple[Baseline | None, list[BaselineLevel]] = (None, [])

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
        whole = self._levels(baseline)
        for pipeline in sorted({each.stream.pipeline for each in whole}):
            assert baseline is not None
            info.add_metric((pipeline, baseline.name), 1.0)
        for level in whole:
            ratio.add_metric((level.stream.pipeline, level.stream.metric), level.value)
        yield info
        yield ratio

    def _levels(self, baseline: Baseline | None) -> list[BaselineLevel]:
        """The levels of pipelines; thousands of streams take 12 ms, so they are kept."""
        kept_of, whole = self._kept
        if baseline is not kept_of:
            every = [] if baseline is None else levels(baseline)
            whole = [level for level in every if not level.slice]
            self._kept = baseline, whole
        return whole
