"""Families of the windows and counters that the budget of series has room for."""

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.durations import duration_text
from ragmon.exposition.budget import Group, Level, SeriesBudget
from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.counters import Counters, Exemplars
from ragmon.exposition.figures import numbers
from ragmon.exposition.gauges import Gauges, GaugeSet, Part
from ragmon.exposition.text import Family
from ragmon.windows import Windows
from ragmon.windows.estimates import estimate
from ragmon.windows.series import VERSION, SeriesKey
from ragmon.windows.totals import STAGES

KINDS = ("own", "counters", "headline", "other", "slices")
"""Values of ``kind`` in ``ragmon_series_withheld``, in the order in which they are served."""

_FAR = "other windows"  # of the kind ``other``, after the slices

Keyed = dict[SeriesKey, int]
"""Series by number."""


class ShownWindows(Struct, frozen=True):
    """Lengths of windows, seconds."""

    of_pipelines: tuple[float, ...]  # of gauges
    of_slices: tuple[float, ...]
    of_traffic: float  # by which the busiest are found


class Collected(NamedTuple):
    """Copy of what is shown, taken between two commits."""

    keys: Collection[SeriesKey]
    gauges: Sequence[tuple[GaugeSet, Part, frozenset[SeriesKey]]]
    counters: Sequence[Family]
    withheld: dict[str, int]  # series by kind


class BoundedFamilies:
    """Counters and gauges, chosen by settings and budget."""

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
        self._choice = choice
        self._shown_windows = shown_windows
        self._counters = Counters(windows, choice.shows)
        self._gauges = Gauges(windows.columns, choice)
        self._budget = SeriesBudget(limit)

    def collect(self, exemplars: Exemplars, reserved: int, now: float) -> Collected:
        """Read the windows and choose what is shown.

        Args:
            exemplars: of the latencies.
            reserved: series of the answer that are not of the windows.
            now: unix seconds.
        """
        totals = self._windows.totals
        keys = {key: at for key, at in self._windows.series.keys.items() if totals.queries[at]}
        whole = {key: at for key, at in keys.items() if not key.dimension}
        sliced = {key: at for key, at in keys.items() if key.dimension and key.value}
        intervals, lengths = self._choice.intervals, self._shown_windows
        of_whole = self._parts(whole, lengths.of_pipelines, now, with_bounds=intervals != "none")
        of_slices = self._parts(
            sliced, lengths.of_slices, now, with_bounds=intervals == "all", stages=1
        )
        near, far = _parted(of_whole, {duration_text(length) for length in lengths.of_slices})
        planned = [
            ("headline", self._gauges.headline, of_whole),
            ("other", self._gauges.other, near),
            ("slices", self._gauges.slices, of_slices),
            (_FAR, self._gauges.other, far),
        ]
        queries = self._windows.queries(lengths.of_traffic, now)
        traffic = {key: float(queries[at]) for key, at in keys.items()}
        counted = {
            key: at for key, at in keys.items() if not key.dimension or key.dimension == VERSION
        }
        levels = [
            _level("counters", self._counters.costs(counted), traffic),
            *(
                _level(kind, self._costs(kind, of_set, parts), traffic)
                for kind, of_set, parts in planned
            ),
        ]
        allotted = self._budget.allot(levels, reserved, now)
        shown = allotted.shown
        tags = {key for key in shown["slices"] if key.dimension != VERSION}
        return Collected(
            keys,
            [(of_set, part, shown[kind]) for kind, of_set, parts in planned for part in parts],
            list(self._counters.families(exemplars, shown["counters"] | tags)),
            _by_kind(allotted.withheld),
        )

    def families(self, collected: Collected) -> list[Family]:
        """Everything collected, as families; on any thread, one at a time."""
        self._gauges.forget(collected.keys)
        samples = itertools.chain.from_iterable(
            of_set.samples(part, shown) for of_set, part, shown in collected.gauges
        )
        return [*collected.counters, *self._gauges.families(samples)]

    def unmatched(self, own: Iterable[str]) -> list[str]:
        """The globs of the choice that match no metric.

        Args:
            own: names of ragmon's metrics of itself.
        """
        columns = self._windows.columns
        every = Gauges(columns, MetricChoice(slice_metrics=("*",), intervals="all"))
        counters = Counters(self._windows, lambda _: True)
        names = (*every.names(), *counters.names(), *own)
        return self._choice.unmatched(names, {gauge.metric for gauge in every.all})

    def _parts(
        self,
        keys: Keyed,
        lengths: Sequence[float],
        now: float,
        *,
        with_bounds: bool,
        stages: int = STAGES,
    ) -> list[Part]:
        """The numbers of these series over each window."""
        places: NDArray[np.intp] = np.fromiter(keys.values(), dtype=np.intp, count=len(keys))
        columns, names = self._windows.columns, list(keys)
        parts = []
        for length in lengths if names else ():
            merged = self._windows.merge(length, now, series=places, stages=stages)
            estimates = estimate(merged, columns, with_intervals=with_bounds)
            parts.append(Part(duration_text(length), names, numbers(estimates)))
        return parts

    def _costs(self, kind: str, of_set: GaugeSet, parts: Sequence[Part]) -> dict[SeriesKey, int]:
        """Series of each key over all these windows; those of a slice with its counters."""
        costs: dict[SeriesKey, int] = {}
        for part in parts:
            for key, cost in zip(part.keys, of_set.costs(part), strict=True):
                costs[key] = costs.get(key, 0) + cost
        if kind == "slices":
            tags = {
                key: self._windows.series.keys[key] for key in costs if key.dimension != VERSION
            }
            for key, cost in self._counters.costs(tags).items():
                costs[key] += cost
        return costs


def size(families: Sequence[Family]) -> int:
    """Number of series."""
    return sum(family.size for family in families)


def capped(families: Sequence[Family], most: int) -> tuple[list[Family], int]:
    """The families without the largest ones that there is no room for, and the series of these."""
    sizes = {family.name: family.size for family in families}
    dropped: set[str] = set()
    total = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if total <= most:
            break
        dropped.add(name)
        total -= sizes[name]
    kept = [family for family in families if family.name not in dropped]
    return kept, sum(sizes[name] for name in dropped)


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
