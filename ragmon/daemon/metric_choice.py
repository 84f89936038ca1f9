"""The choice of metrics and windows that the settings make."""

from collections.abc import Sequence

from ragmon.config import Settings
from ragmon.exposition.bounded import ShownWindows
from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.left_out import LeftOut
from ragmon.signals import Column

_HOUR_S = 3_600.0
_DAY_S = 86_400.0


def metric_choice(settings: Settings) -> MetricChoice:
    """The metrics that are shown."""
    metrics = settings.metrics
    return MetricChoice(
        include=metrics.include,
        exclude=metrics.exclude,
        slice_metrics=metrics.slice_metrics,
        intervals=metrics.intervals,
    )


def shown_windows(settings: Settings) -> ShownWindows:
    """The windows over which gauges are shown."""
    metrics = settings.metrics
    of_slices = metrics.slice_windows
    if "slice_windows" not in metrics.model_fields_set:
        of_slices = (min(settings.windows, key=lambda length: abs(length - _HOUR_S)),)
    return ShownWindows(
        metrics.windows or settings.windows, of_slices, min(_DAY_S, max(settings.windows))
    )


def left_out(settings: Settings, columns: Sequence[Column]) -> LeftOut:
    """The metrics that are not shown, whatever the traffic.

    Args:
        settings: of the daemon.
        columns: of its windows.
    """
    has_slice_windows = bool(shown_windows(settings).of_slices)
    return LeftOut(metric_choice(settings), columns, has_slice_windows=has_slice_windows)
