"""Counters and classic histograms over all time, which PromQL can rate and sum."""

from collections.abc import Callable, Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.counted import Table, by_slice, by_version
from ragmon.exposition.text import (
    Exemplar,
    Family,
    HistogramSample,
    Labels,
    NativeBuckets,
    Series,
    series,
)
from ragmon.signals.latency import STAGES
from ragmon.stats import exponential
from ragmon.windows import LATENCY, TOP_SCORE, Windows
from ragmon.windows.series import VERSION, SeriesKey
from ragmon.windows.totals import LATENCY_EDGES_MS, SCORE_EDGES

Exemplars = dict[tuple[str, str], dict[int, Exemplar]]
"""(pipeline, stage) to bucket to exemplar."""

Numbered = list[tuple[SeriesKey, int]]
"""Series with their numbers."""


class Counters:
    """Reads the totals of the windows; the text of a series is put together once."""

    def __init__(self, windows: Windows, shows: Callable[[str], bool]) -> None:
        """Make them.

        Args:
            windows: to read.
            shows: whether a metric of this name is shown.
        """
        self._windows = windows
        self._shows = shows
        self._columns = {
            (column.name, column.labels): at for at, column in enumerate(windows.columns)
        }
        self._by_version = by_version(windows.columns).only(shows)
        self._by_slice = by_slice(windows.columns).only(shows)
        self._named: dict[SeriesKey, list[Series]] = {}

    def families(self, exemplars: Exemplars, shown: Collection[SeriesKey]) -> Iterator[Family]:
        """Every counter and histogram.

        Args:
            exemplars: of the latencies.
            shown: pipelines, of which there are histograms; versions and values of tags, of which
                there are counters.
        """
        counted = self._numbers(shown)
        versions = [(key, at) for key, at in counted if key.dimension == VERSION]
        tags = [(key, at) for key, at in counted if _is_tag(key)]
        known = self._named
        self._named = {key: known.get(key) or self._series(key) for key, _ in versions + tags}
        yield from self._counters(self._by_version, versions)
        yield from self._counters(self._by_slice, tags)
        pipelines = [(key, at) for key, at in counted if not key.dimension]
        for family in (self._durations(exemplars, pipelines), self._scores(pipelines)):
            if self._shows(family.name):
                yield family

    def names(self) -> set[str]:
        """Names of all families that are shown."""
        tables = (self._by_version, self._by_slice)
        counters = {table.name(counter) for table in tables for counter in table.counters}
        histograms = {self._durations({}, []).name, self._scores([]).name}
        return counters | set(filter(self._shows, histograms))

    def costs(self, keys: Collection[SeriesKey]) -> dict[SeriesKey, int]:
        """Number of series that each of these keys comes to; 0 without records."""
        counted = self._numbers(keys)
        costs = dict.fromkeys(keys, 0)
        for table, fits in ((self._by_version, _is_version), (self._by_slice, _is_tag)):
            mine = [(key, at) for key, at in counted if fits(key)]
            _, known = table.values(self._windows.totals, [at for _, at in mine])
            costs |= zip((key for key, _ in mine), known.sum(axis=1).tolist(), strict=True)
        pipelines = [(key, at) for key, at in counted if not key.dimension]
        for family in (self._durations({}, pipelines), self._scores(pipelines)):
            if self._shows(family.name):
                for histogram in family.histograms:
                    costs[SeriesKey(histogram.labels[0][1])] += histogram.size
        return costs

    def _counters(self, table: Table, numbered: Numbered) -> Iterator[Family]:
        """The families of one table, their samples by series."""
        values, known = table.values(self._windows.totals, [at for _, at in numbered])
        names = [self._named[key] for key, _ in numbered]
        begin = 0
        for counter in table.counters:
            end = begin + len(counter.readings)
            rows, columns = np.nonzero(known[:, begin:end])
            numbers = values[rows, begin + columns].tolist()
            places = zip(rows.tolist(), columns.tolist(), numbers, strict=True)
            samples = [(names[row][begin + at], value) for row, at, value in places]
            yield Family(table.name(counter), "counter", table.help(counter), samples)
            begin = end

    def _series(self, key: SeriesKey) -> list[Series]:
        """The series of one key, for each reading of its table."""
        table = self._by_slice if _is_tag(key) else self._by_version
        labels: Labels = (("pipeline", key.pipeline), ("version", key.value))
        if _is_tag(key):
            labels = (
                ("pipeline", key.pipeline),
                ("dimension", key.dimension),
                ("value", key.value),
            )
        return [
            series(table.name(counter), (*labels, *reading.labels))
            for counter in table.counters
            for reading in counter.readings
        ]

    def _sum(self, series: int, name: str, **labels: str) -> float:
        """Sum of a column over everything a series ever had."""
        column = self._columns[name, tuple(labels.items())]
        return float(self._windows.totals.sums[series, column])

    def _durations(self, exemplars: Exemplars, pipelines: Numbered) -> Family:
        totals = self._windows.totals
        edges = (LATENCY_EDGES_MS / 1000).tolist()
        histograms = [
            HistogramSample(
                (("pipeline", key.pipeline), ("stage", name)),
                edges,
                totals.latency[at, stage].tolist(),
                self._sum(at, LATENCY, stage=name) / 1000,
                dict(exemplars.get((key.pipeline, name), {})),
                _native(totals.fine[at, stage]),
            )
            for key, at in pipelines
            for stage, name in enumerate(STAGES)
            if totals.latency[at, stage].any()
        ]
        text = "Latency of queries by stage: total, retrieval, generation."
        return Family("ragmon_query_duration_seconds", "histogram", text, (), histograms)

    def _scores(self, pipelines: Numbered) -> Family:
        totals = self._windows.totals
        histograms = [
            HistogramSample(
                (("pipeline", key.pipeline),),
                SCORE_EDGES.tolist(),
                totals.score[at].tolist(),
                self._sum(at, TOP_SCORE),
            )
            for key, at in pipelines
            if totals.score[at].any()
        ]
        text = "Best retrieval score of each query, on the scale of the retriever."
        return Family("ragmon_retrieval_top_score", "histogram", text, (), histograms)

    def _numbers(self, keys: Collection[SeriesKey]) -> Numbered:
        """Those with records, by name."""
        counted = set(np.flatnonzero(self._windows.totals.queries).tolist())
        numbers = self._windows.series.keys
        return sorted((key, numbers[key]) for key in keys if numbers.get(key) in counted)


def _is_tag(key: SeriesKey) -> bool:
    return key.dimension not in ("", VERSION)


def _native(counts: NDArray[np.int64]) -> NativeBuckets:
    """The fine buckets from the first to the last that hold something."""
    filled = np.flatnonzero(counts[1:])
    first, end = (filled[0], filled[-1] + 1) if len(filled) else (0, 0)
    return NativeBuckets(
        exponential.SCHEMA,
        exponential.ZERO_S,
        int(counts[0]),
        exponential.FIRST + int(first),
        counts[1 + first : 1 + end].tolist(),
    )


def _is_version(key: SeriesKey) -> bool:
    return key.dimension == VERSION
