"""Number of series and of watched streams that the settings come to for the traffic in a store.

It reads beside a running daemon, or a store at rest, and counts as ``/metrics`` would.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline, build_windows
from ragmon.daemon.ingest.counting import WindowCounting
from ragmon.daemon.metric_choice import metric_choice, shown_windows
from ragmon.detectors.losses import INDEX, REPEAT, observed
from ragmon.exposition.bounded import BoundedFamilies
from ragmon.exposition.choice import BOUNDS, SAMPLES
from ragmon.exposition.own import OwnMetrics
from ragmon.exposition.text import Family
from ragmon.stores import Reader
from ragmon.windows import Windows

OWN = "ragmon's own"
OWN_SERIES = 300
"""Room for ragmon's metrics of itself, which are not in the store: a daemon with a few sinks and
judges has 180 to 300."""

_UNBOUNDED = 1 << 40
_COMPANIONS = (*BOUNDS, SAMPLES)


class FamilyCount(NamedTuple):
    """Series of a metric, with those of its interval and samples."""

    metric: str
    series: int  # that there are
    shown: int  # within the budget

    @property
    def withheld(self) -> int:
        """Series for which the budget has no room."""
        return self.series - self.shown


class SeriesForecast(NamedTuple):
    """Series by metric, the largest first."""

    families: list[FamilyCount]
    limit: int
    newest: float  # unix seconds of the newest query; the windows end there
    pipelines: int
    slices: int  # values of tags, and versions
    streams: int  # that detectors would watch: metrics of pipelines, versions and slice values
    max_streams: int

    @property
    def series(self) -> int:
        """All that there are."""
        return sum(family.series for family in self.families)

    @property
    def shown(self) -> int:
        """Those within the budget."""
        return sum(family.shown for family in self.families)


def forecast(reader: Reader, settings: Settings) -> SeriesForecast:
    """Count the series as of the newest query.

    Args:
        reader: of the store.
        settings: that choose.

    Raises:
        StoreError: the store could not be read.
    """
    windows = build_windows(settings, build_pipeline(settings))
    with reader.moment():
        WindowCounting(reader, windows).count()
    queries = windows.totals.queries
    keys = [key for key, at in windows.series.keys.items() if queries[at]]
    return SeriesForecast(
        _families(windows, settings),
        settings.metrics.max_series,
        windows.watermark,
        sum(not key.dimension for key in keys),
        sum(bool(key.dimension and key.value) for key in keys),
        _streams(windows),
        settings.detectors.max_streams,
    )


def _streams(windows: Windows) -> int:
    """Streams of what was counted in the longest window, since those of old traffic end."""
    longest = windows.tiers[-1]
    merged = windows.merge(longest.width_s * (longest.slots - 2), windows.watermark, stages=1)
    used = {
        number: key
        for key, number in windows.series.keys.items()
        if merged.rows[number, windows.row_layout.queries] and (key.value or not key.dimension)
    }
    samples = merged.rows[list(used)][:, windows.row_layout.n]
    streams = observed([column.key for column in windows.columns], samples)
    streams[[bool(key.dimension) for key in used.values()], INDEX[REPEAT]] = False
    return int(streams.sum())


def _families(windows: Windows, settings: Settings) -> list[FamilyCount]:
    limit = settings.metrics.max_series
    own = _own(settings)
    there = _counted(windows, settings, own, _UNBOUNDED)
    shown = _counted(windows, settings, own, limit)
    counts = [FamilyCount(OWN, own, min(own, limit))] + [
        FamilyCount(metric, series, shown.get(metric, 0)) for metric, series in there.items()
    ]
    return sorted((count for count in counts if count.series), key=lambda count: -count.series)


def _own(settings: Settings) -> int:
    """Of the room for ragmon's own metrics, the part that the choice leaves."""
    names = [family.name for family in OwnMetrics().families()]
    shows = metric_choice(settings).shows
    return round(OWN_SERIES * sum(map(shows, names)) / len(names))


def _counted(windows: Windows, settings: Settings, own: int, limit: int) -> dict[str, int]:
    """Series by metric within a budget."""
    choice, lengths = metric_choice(settings), shown_windows(settings)
    bounded = BoundedFamilies(windows, choice, lengths, limit)
    return _by_metric(bounded.families(bounded.collect({}, windows.watermark), own).families)


def _by_metric(families: Iterable[Family]) -> dict[str, int]:
    """Series by metric, each companion with the metric that it is of."""
    sizes: Mapping[str, int] = {family.name: family.size for family in families}
    metrics: dict[str, int] = {}
    for name, size in sizes.items():
        stems = (name.removesuffix(end) for end in _COMPANIONS if name.endswith(end))
        stem = next((stem for stem in stems if stem in sizes), name)
        metrics[stem] = metrics.get(stem, 0) + size
    return metrics
