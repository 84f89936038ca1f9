"""The rolling windows as gauges, each ratio with its interval and its number of samples."""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.figures import LATENCY, Gauge, gauges
from ragmon.exposition.sample_table import Samples, SampleTable
from ragmon.exposition.text import Family, Labels, Sample, Series, series
from ragmon.exposition.window_figures import Part
from ragmon.signals import Column
from ragmon.windows.series import SeriesKey

_INTERVAL = {
    "_lower": "Lower end of the 95 % interval of {}.",
    "_upper": "Upper end of the 95 % interval of {}.",
    "_samples": "Samples behind {}.",
}
_STEMS = {"ragmon_": "over", "ragmon_slice_": "by slice, over"}


class GaugeSet:
    """Gauges that are shown or withheld together."""

    def __init__(self, chosen: Sequence[Gauge], *, of_slice: bool) -> None:
        self.gauges = tuple(chosen)
        self._stem = "ragmon_slice_" if of_slice else "ragmon_"
        self._places = np.array([gauge.place for gauge in chosen], dtype=np.intp)
        self._families: list[tuple[str, int, int]] = []  # name, first and end of its gauges
        for name, group in itertools.groupby(chosen, lambda gauge: gauge.name):
            begin = self._families[-1][2] if self._families else 0
            self._families.append((self._stem + name, begin, begin + len(list(group))))
        self._tables: dict[str, SampleTable] = {}  # by window

    def costs(self, part: Part) -> NDArray[np.int64]:
        """Number of gauges that each key has."""
        counts: NDArray[np.int64] = (~np.isnan(part.numbers[:, self._places])).sum(axis=1)
        return counts

    def samples(self, part: Part, shown: Collection[SeriesKey]) -> Iterator[tuple[str, Samples]]:
        """The samples of each family, by its name, over the keys that are shown."""
        rows = [at for at, key in enumerate(part.keys) if key in shown]
        table = self._table(part.window)
        table.update([part.keys[at] for at in rows], part.numbers[rows][:, self._places])
        for name, begin, end in self._families:
            yield name, table.samples(begin, end)

    def _table(self, window: str) -> SampleTable:
        if window not in self._tables:
            named = lambda key: self._named(key, window)  # noqa: E731
            self._tables[window] = SampleTable(named, len(self.gauges))
        return self._tables[window]

    def _named(self, key: SeriesKey, window: str) -> list[Series]:
        labels = _labels(key, window)
        return [
            series(f"{self._stem}{gauge.name}", (*labels, *gauge.labels)) for gauge in self.gauges
        ]


class Gauges:
    """The sets that a choice of metrics makes of all gauges."""

    def __init__(self, columns: Sequence[Column], choice: MetricChoice) -> None:
        self.all = gauges(columns)
        self.headline = self._set(choice, lambda gauge: gauge.is_headline, of_slice=False)
        self.other = self._set(choice, lambda gauge: not gauge.is_headline, of_slice=False)
        self.slices = self._set(choice, lambda gauge: not gauge.is_variant, of_slice=True)
        self._empty = list(_empty(self.all))

    def families(
        self, shown: Sequence[tuple[GaugeSet, Part, Collection[SeriesKey]]]
    ) -> Iterator[Family]:
        """Families of the gauges that are shown, in the order of the reference."""
        samples: dict[str, list[Sample]] = {}
        lines: dict[str, list[str]] = {}
        for of_set, part, keys in shown:
            for name, of_family in of_set.samples(part, keys):
                samples.setdefault(name, []).extend(of_family.samples)
                lines.setdefault(name, []).extend(of_family.lines)
        for family in self._empty:
            yield family._replace(
                samples=samples.get(family.name, ()), lines=lines.get(family.name, ())
            )

    def names(self) -> set[str]:
        """Names of all families, those of slices too, whatever is chosen."""
        return {family.name for family in self._empty}

    def _set(
        self, choice: MetricChoice, fits: Callable[[Gauge], bool], *, of_slice: bool
    ) -> GaugeSet:
        chosen = [
            gauge
            for gauge in self.all
            if fits(gauge) and choice.shows_gauge(gauge.metric, gauge.suffix, of_slice=of_slice)
        ]
        return GaugeSet(chosen, of_slice=of_slice)


def _empty(all_gauges: Sequence[Gauge]) -> Iterator[Family]:
    """Every family, without samples."""
    for stem, of in _STEMS.items():
        for name, group in itertools.groupby(all_gauges, lambda gauge: gauge.name):
            gauge = next(group)
            # A summary is what may carry `quantile`; sum and count of a window are left out.
            kind = "summary" if gauge.metric == LATENCY else "gauge"
            yield Family(stem + name, kind, _help(gauge, stem, of), ())


def _labels(key: SeriesKey, window: str) -> Labels:
    if not key.dimension:
        return (("pipeline", key.pipeline), ("window", window))
    return (
        ("pipeline", key.pipeline),
        ("dimension", key.dimension),
        ("value", key.value),
        ("window", window),
    )


def _help(gauge: Gauge, stem: str, of: str) -> str:
    if gauge.suffix:
        return _INTERVAL[gauge.suffix].format(stem + gauge.metric)
    text, semicolon, more = gauge.help.removesuffix(".").partition("; ")
    return f"{text}, {of} the window{semicolon}{more}."
