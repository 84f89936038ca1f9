"""The rolling windows as gauges, each ratio with its interval and its number of samples."""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.figures import LATENCY, Gauge, gauges
from ragmon.exposition.text import Family, Labels, Sample, Series, series
from ragmon.signals import Column
from ragmon.windows.series import SeriesKey

_INTERVAL = {
    "_lower": "Lower end of the 95 % interval of {}.",
    "_upper": "Upper end of the 95 % interval of {}.",
    "_samples": "Samples behind {}.",
}


class Part(NamedTuple):
    """Gauges of some series over one window."""

    window: str  # as in the label
    keys: Sequence[SeriesKey]
    numbers: NDArray[np.float64]  # (keys, places)


class GaugeSet:
    """Gauges that are shown or withheld together, and the text of their series."""

    def __init__(self, chosen: Sequence[Gauge], *, of_slice: bool) -> None:
        self.gauges = tuple(chosen)
        self.stem = "ragmon_slice_" if of_slice else "ragmon_"
        self._places = np.array([gauge.place for gauge in chosen], dtype=np.intp)
        self._families: list[tuple[str, int, int]] = []  # name, first and end of its gauges
        for name, group in itertools.groupby(chosen, lambda gauge: gauge.name):
            begin = self._families[-1][2] if self._families else 0
            self._families.append((self.stem + name, begin, begin + len(list(group))))
        self._series: dict[tuple[SeriesKey, str], list[Series]] = {}

    def costs(self, part: Part) -> list[int]:
        """Number of gauges that each key has."""
        counts: list[int] = (~np.isnan(part.numbers[:, self._places])).sum(axis=1).tolist()
        return counts

    def samples(
        self, part: Part, shown: Collection[SeriesKey]
    ) -> Iterator[tuple[str, list[Sample]]]:
        """The samples of each family, by its name, over the keys that are shown."""
        rows = [at for at, key in enumerate(part.keys) if key in shown]
        texts = [self._named(part.keys[at], part.window) for at in rows]
        values = part.numbers[rows][:, self._places].tolist()
        for name, begin, end in self._families:
            samples = [
                (text, value)
                for row, of_row in zip(texts, values, strict=True)
                for text, value in zip(row[begin:end], of_row[begin:end], strict=True)
                if not math.isnan(value)
            ]
            yield name, samples

    def forget(self, keys: Collection[SeriesKey]) -> None:
        """Drop what was kept for all but these keys."""
        for kept in [kept for kept in self._series if kept[0] not in keys]:
            del self._series[kept]

    def _named(self, key: SeriesKey, window: str) -> list[Series]:
        named = self._series.get((key, window))
        if named is None:
            labels = _labels(key, window)
            named = self._series[key, window] = [
                series(f"{self.stem}{gauge.name}", (*labels, *gauge.labels))
                for gauge in self.gauges
            ]
        return named


class Gauges:
    """The sets that a choice of metrics makes of all gauges."""

    def __init__(self, columns: Sequence[Column], choice: MetricChoice) -> None:
        self.all = gauges(columns)
        self.headline = self._set(choice, lambda gauge: gauge.is_headline, of_slice=False)
        self.other = self._set(choice, lambda gauge: not gauge.is_headline, of_slice=False)
        self.slices = self._set(choice, lambda gauge: not gauge.is_variant, of_slice=True)

    def families(self, samples: Iterable[tuple[str, list[Sample]]]) -> Iterator[Family]:
        """Families of samples by name, in the order of the reference."""
        by_name: dict[str, list[Sample]] = {}
        for name, of_family in samples:
            by_name.setdefault(name, []).extend(of_family)
        for stem, of in (("ragmon_", "over"), ("ragmon_slice_", "by slice, over")):
            for name, group in itertools.groupby(self.all, lambda gauge: gauge.name):
                gauge = next(group)
                # A summary is what may carry `quantile`; sum and count of a window are left out.
                kind = "summary" if gauge.metric == LATENCY else "gauge"
                yield Family(
                    stem + name, kind, _help(gauge, stem, of), by_name.get(stem + name, ())
                )

    def names(self) -> set[str]:
        """Names of all families, those of slices too, whatever is chosen."""
        return {stem + gauge.name for gauge in self.all for stem in ("ragmon_", "ragmon_slice_")}

    def forget(self, keys: Collection[SeriesKey]) -> None:
        """Drop what was kept for all but these keys."""
        for of_set in (self.headline, self.other, self.slices):
            of_set.forget(keys)

    def _set(
        self, choice: MetricChoice, fits: Callable[[Gauge], bool], *, of_slice: bool
    ) -> GaugeSet:
        chosen = [
            gauge
            for gauge in self.all
            if fits(gauge) and choice.shows_gauge(gauge.metric, gauge.suffix, of_slice=of_slice)
        ]
        return GaugeSet(chosen, of_slice=of_slice)


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
