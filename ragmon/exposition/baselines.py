"""The baseline that traffic is compared with, as Prometheus sees it."""

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
            "Which baseline the traffic of a pipeline is compared with.",
            labels=("pipeline", "baseline"),
        )
        ratio = GaugeMetricFamily(
            "ragmon_baseline_ratio",
            "Level of a metric in that baseline, all hours together.",
            labels=("pipeline", "metric"),
        )
        baseline = self._active()
        whole = [] if baseline is None else [each for each in levels(baseline) if not each.slice]
        for pipeline in sorted({each.stream.pipeline for each in whole}):
            assert baseline is not None
            info.add_metric((pipeline, baseline.name), 1.0)
        for each in whole:
            ratio.add_metric((each.stream.pipeline, each.stream.metric), each.value)
        yield info
        yield ratio
