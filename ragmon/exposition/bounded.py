"""Families of the windows and counters that the budget of series has room for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.durations import duration_text
from ragmon.exposition.budget import Group, Level, SeriesBudget
from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.counters import Counters, Exemplars, Numbered
from ragmon.exposition.gauges import Gauges, GaugeSet
from ragmon.exposition.text import Family
from ragmon.exposition.window_figures import Part, WindowFigures
from ragmon.windows import Windows
from ragmon.windows.copies import WindowCopier, WindowCopy
from ragmon.windows.series import VERSION, SeriesKey
from ragmon.windows.totals import STAGES, TotalsCopy

KINDS = ("own", "counters", "headline", "other", "slices")
"""Values of ``kind`` in ``ragmon_series_withheld``, in the order in which they are served."""

_FAR = "other windows"  # of the kind ``other``, after the slices


class ShownWindows(Struct, frozen=True):
    """Lengths of windows, seconds."""

    of_pipelines: tuple[float, ...]  # of gauges
    of_slices: tuple[float, ...]
    of_traffic: float  # by which the busiest are found


class Collected(NamedTuple):
    """Copy of what may be shown, taken between two commits; nothing in it changes any more."""

    now: float  # unix seconds
    keys: Numbered  # series with records
    pipelines: Numbered
    slices: Numbered
    of_pipelines: Sequence[WindowCopy]  # one a window
    of_slices: Sequence[WindowCopy]
    queries: NDArray[np.float64]  # by number of the series, over the window of traffic
    totals: TotalsCopy
    exemplars: Exemplars


class Shown(NamedTuple):
    """Families that the budget has room for."""

    families: list[Family]
    withheld: dict[str, int]  # series by kind


class BoundedFamilies:
    """Counters and gauges, chosen by settings and budget.

    The writer's thread copies sums (``collect``). Estimates, the choice and the text are made
    where the page is rendered (``families``).
    """

    def __init__(
        self, windows: Windows, choice: MetricChoice, shown_windows: ShownWindows, limit: int
    ) -> None:
        """Make them.

        Args:
            windows: to read; only in ``collect``.
            choice: of metrics.
            shown_windows: of pipelines and slices.
            limit: most series of the whole answer.
        """
        self._windows = windows
        self._columns = columns = windows.columns
        self._choice = choice
        self._shown_windows = shown_windows
        self._counters = Counters(columns, choice.shows)
        self._gauges = Gauges(columns, choice)
        self.budget = SeriesBudget(limit)
        self._of_pipelines = WindowFigures(
            columns,
            [duration_text(length) for length in shown_windows.of_pipelines],
            stages=STAGES,
            with_intervals=choice.intervals != "none",
        )
        self._of_slices = WindowFigures(
            columns,
            [duration_text(length) for length in shown_windows.of_slices],
            stages=1,
            with_intervals=choice.intervals == "all",
        )

    def collect(self, exemplars: Exemplars, now: float) -> Collected:
        """Copy the windows; on the thread that owns them.

        Args:
            exemplars: of the latencies.
            now: unix seconds.
        """
        totals, lengths = self._windows.totals, self._shown_windows
        keys = [each for each in self._windows.series.keys.items() if totals.queries[each[1]]]
        pipelines = [each for each in keys if not each[0].dimension]
        slices = [each for each in keys if each[0].dimension and each[0].value]
        copier = WindowCopier(self._windows, now)
        return Collected(
            now,
            keys,
            pipelines,
            slices,
            [copier.copy(length, _numbers(pipelines)) for length in lengths.of_pipelines],
            [copier.copy(length, _numbers(slices)) for length in lengths.of_slices],
            copier.queries(lengths.of_traffic),
            totals.copy(len(self._windows.series), [number for _, number in pipelines]),
            {key: dict(by_bucket) for key, by_bucket in exemplars.items()},
        )

    def families(self, collected: Collected, reserved: int) -> Shown:
        """Everything collected that there is room for; on any thread, one at a time.

        Args:
            collected: the newest copy.
            reserved: series of the answer that are not of the windows.
        """
        of_pipelines = self._of_pipelines.update(collected.pipelines, collected.of_pipelines)
        lengths = self._shown_windows.of_slices
        near, far = _parted(of_pipelines, {duration_text(length) for length in lengths})
        of_slices = self._of_slices.update(collected.slices, collected.of_slices)
        planned = [
            ("headline", self._gauges.headline, of_pipelines),
            ("other", self._gauges.other, near),
            ("slices", self._gauges.slices, of_slices),
            (_FAR, self._gauges.other, far),
        ]
        counts = self._counters.count(collected.totals, collected.keys, collected.exemplars)
        counter_costs = self._counters.costs(counts)
        traffic = {key: float(collected.queries[number]) for key, number in collected.keys}
        whole = {key: counter_costs.get(key, 0) for key in traffic if _is_whole(key)}
        levels = [
            _level("counters", whole, traffic),
            *(
                _level(kind, _costs(of_set, parts, counter_costs), traffic)
                for kind, of_set, parts in planned
            ),
        ]
        allotted = self.budget.allot(levels, reserved, collected.now)
        shown = allotted.shown
        tags = {key for key in shown["slices"] if key.dimension != VERSION}
        gauges = [(of_set, part, shown[kind]) for kind, of_set, parts in planned for part in parts]
        return Shown(
            [
                *self._counters.families(counts, shown["counters"] | tags),
                *self._gauges.families(gauges),
            ],
            _by_kind(allotted.withheld),
        )

    def unmatched(self, own: Iterable[str]) -> list[str]:
        """The globs of the choice that match no metric.

        Args:
            own: names of ragmon's metrics of itself.
        """
        every = Gauges(self._columns, MetricChoice(slice_metrics=("*",), intervals="all"))
        counters = Counters(self._columns, lambda _: True)
        names = (*every.names(), *counters.names(), *own)
        return self._choice.unmatched(names, {gauge.metric for gauge in every.all})


def size(families: Sequence[Family]) -> int:
    """Number of series."""
    return sum(family.size for family in families)


def capped(families: Sequence[Family], most: int) -> tuple[list[Family], int]:
    """The families without the largest ones that there is no room for, and the series of these."""
    sizes = {family.name: family.size for family in families}
    dropped: set[str] = set()
    total = sum(sizes.values())
    if total <= most:
        return list(families), 0
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if total <= most:
            break
        dropped.add(name)
        total -= sizes[name]
    kept = [family for family in families if family.name not in dropped]
    return kept, sum(sizes[name] for name in dropped)


def _numbers(members: Numbered) -> NDArray[np.intp]:
    return np.array([number for _, number in members], dtype=np.intp)


def _is_whole(key: SeriesKey) -> bool:
    """True for a pipeline and its versions, which have counters whatever the slices."""
    return not key.dimension or key.dimension == VERSION


def _costs(
    of_set: GaugeSet, parts: Sequence[Part], counted: Mapping[SeriesKey, int]
) -> dict[SeriesKey, int]:
    """Series of each key over all these windows; those of a tag with its counters."""
    costs: dict[SeriesKey, int] = {}
    for part in parts:
        for key, cost in zip(part.keys, of_set.costs(part).tolist(), strict=True):
            costs[key] = costs.get(key, 0) + cost
    for key in costs:
        if not _is_whole(key):
            costs[key] += counted.get(key, 0)
    return costs


def _parted(parts: Sequence[Part], names: Collection[str]) -> tuple[list[Part], list[Part]]:
    """The windows that slices have as well, or else the first; and the rest."""
    near = [part for part in parts if part.window in names] or list(parts[:1])
    return near, [part for part in parts if all(part is not other for other in near)]


def _level(kind: str, costs: dict[SeriesKey, int], traffic: dict[SeriesKey, float]) -> Level:
    return Level(kind, [Group(key, cost, traffic[key]) for key, cost in costs.items()])


def _by_kind(withheld: dict[str, int]) -> dict[str, int]:
    return {
        kind: withheld.get(kind, 0) + (withheld.get(_FAR, 0) if kind == "other" else 0)
        for kind in KINDS
        if kind != "own"
    }
