"""Counters and classic histograms over all time, which PromQL can rate and sum."""

from collections.abc import Callable, Collection, Iterator, Sequence

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


class Counters:
    """Reads the totals of the windows; the text of a series is put together once."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._columns = {
            (column.name, column.labels): at for at, column in enumerate(windows.columns)
        }
        self._by_version = by_version(windows.columns)
        self._by_slice = by_slice(windows.columns)
        self._named: dict[SeriesKey, list[Series]] = {}

    def families(self, exemplars: Exemplars, slices: Collection[SeriesKey]) -> Iterator[Family]:
        """Every counter and histogram.

        Args:
            exemplars: of the latencies.
            slices: the values of tags to show. Versions are always shown, under names of their
                own.
        """
        counted = self._numbers(lambda key: bool(key.dimension))
        versions = [(key, at) for key, at in counted if key.dimension == VERSION]
        shown = [(key, at) for key, at in counted if _is_tag(key) and key in slices]
        known = self._named
        self._named = {key: known.get(key) or self._series(key) for key, _ in versions + shown}
        yield from self._counters(self._by_version, versions)
        yield from self._counters(self._by_slice, shown)
        yield self._durations(exemplars)
        yield self._scores()

    def sizes(self, slices: Sequence[SeriesKey]) -> list[int]:
        """Number of counters that each of these values of tags comes to."""
        keys = self._windows.series.keys
        _, known = self._by_slice.values(self._windows.totals, [keys[key] for key in slices])
        sizes: list[int] = known.sum(axis=1).tolist()
        return [size if _is_tag(key) else 0 for key, size in zip(slices, sizes, strict=True)]

    def _counters(self, table: Table, numbered: list[tuple[SeriesKey, int]]) -> Iterator[Family]:
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

    def _durations(self, exemplars: Exemplars) -> Family:
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
            for key, at in self._numbers(lambda key: not key.dimension)
            for stage, name in enumerate(STAGES)
            if totals.latency[at, stage].any()
        ]
        text = "Latency of queries by stage: total, retrieval, generation."
        return Family("ragmon_query_duration_seconds", "histogram", text, (), histograms)

    def _scores(self) -> Family:
        totals = self._windows.totals
        histograms = [
            HistogramSample(
                (("pipeline", key.pipeline),),
                SCORE_EDGES.tolist(),
                totals.score[at].tolist(),
                self._sum(at, TOP_SCORE),
            )
            for key, at in self._numbers(lambda key: not key.dimension)
            if totals.score[at].any()
        ]
        text = "Best retrieval score of each query, on the scale of the retriever."
        return Family("ragmon_retrieval_top_score", "histogram", text, (), histograms)

    def _numbers(self, fits: Callable[[SeriesKey], bool]) -> list[tuple[SeriesKey, int]]:
        """Series with records that fit, by name."""
        counted = set(np.flatnonzero(self._windows.totals.queries).tolist())
        keys = self._windows.series.keys.items()
        return sorted((key, at) for key, at in keys if at in counted and fits(key))


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
