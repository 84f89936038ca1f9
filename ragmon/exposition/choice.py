"""The choice of metrics: which names, windows and companions ``/metrics`` shows."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

Intervals = Literal["headline", "all", "none"]

HEADLINE = (
    "window_queries",
    "hit_ratio",
    "zero_result_ratio",
    "attribution_ratio",
    "grounding_ratio",
    "faithfulness_ratio",
    "error_ratio",
    "positive_feedback_ratio",
    "latency_seconds",
)
"""The metrics that tell whether a pipeline is well, without ``ragmon_``."""

WITH_INTERVAL = (
    *HEADLINE,
    "failure_mode_ratio",
    "grounding_coverage_ratio",
    "reciprocal_rank",
    "slow_ratio",
    "uncited_ratio",
    "unfaithful_ratio",
    "judge_agreement_balanced_accuracy",
    "judge_agreement_kappa",
)
"""The metrics of which the shipped rules and dashboards show the interval."""

BOUNDS = ("_lower", "_upper")
SAMPLES = "_samples"


class MetricChoice(Struct, frozen=True, kw_only=True):
    """The settings of ``metrics``, without the budget."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    slice_metrics: tuple[str, ...] = HEADLINE
    intervals: Intervals = "headline"

    def shows(self, name: str) -> bool:
        """True for the name of a family that is not switched off."""
        return not self.left_out_by(name)

    def left_out_by(self, name: str) -> str:
        """The setting that switches off a family of this name; empty: none."""
        if self.include and not _matches(name, self.include):
            return "metrics.include"
        return "metrics.exclude" if _matches(name, self.exclude) else ""

    def shows_gauge(self, metric: str, suffix: str, *, of_slice: bool) -> bool:
        """True for a gauge of the windows that is shown; see ``gauge_left_out_by``."""
        return not self.gauge_left_out_by(metric, suffix, of_slice=of_slice)

    def gauge_left_out_by(self, metric: str, suffix: str, *, of_slice: bool) -> str:
        """The setting that switches off a gauge of the windows; empty: none.

        Args:
            metric: without ``ragmon_`` and ``ragmon_slice_``.
            suffix: of the companion; empty for the metric itself.
            of_slice: whether it is that of slices.
        """
        if of_slice and not _matches(metric, self.slice_metrics):
            return "metrics.slice_metrics"
        if suffix in BOUNDS and not self._has_interval(metric, of_slice=of_slice):
            return "metrics.intervals"
        return self.left_out_by(f"ragmon_{'slice_' if of_slice else ''}{metric}{suffix}")

    def unmatched(self, names: Iterable[str], metrics: Iterable[str]) -> list[str]:
        """The globs that match nothing.

        Args:
            names: of all families.
            metrics: of slices, without ``ragmon_slice_``.
        """
        known = {"include": list(names), "exclude": list(names), "slice_metrics": list(metrics)}
        return [
            f"metrics.{setting}: {glob!r}"
            for setting, all_names in known.items()
            for glob in dict.fromkeys(getattr(self, setting))
            if not any(fnmatchcase(name, glob) for name in all_names)
        ]

    def _has_interval(self, metric: str, *, of_slice: bool) -> bool:
        if self.intervals == "headline":
            return not of_slice and metric in WITH_INTERVAL
        return self.intervals == "all"


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
