"""Counters and classic histograms over all time, which PromQL can rate and sum."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.exposition.counted import Table, by_slice, by_version
from ragmon.exposition.histograms import Histograms, Observed
from ragmon.exposition.sample_table import SampleTable
from ragmon.exposition.text import Exemplar, Family, HistogramSample, Labels, Series, series
from ragmon.signals import Column
from ragmon.signals.latency import STAGES
from ragmon.windows import LATENCY, TOP_SCORE
from ragmon.windows.row_layout import RowLayout
from ragmon.windows.series import VERSION, SeriesKey
from ragmon.windows.totals import LATENCY_EDGES_MS, SCORE_EDGES, TotalsCopy

Exemplars = Mapping[tuple[str, str], Mapping[int, Exemplar]]
"""(pipeline, stage) to bucket to exemplar."""

Numbered = list[tuple[SeriesKey, int]]
"""Series with their numbers."""


class _Values(NamedTuple):
    """Readings of one table, a row a series; NaN is not shown."""

    keys: list[SeriesKey]
    values: NDArray[np.float64]


class CounterValues(NamedTuple):
    """Everything counted at one moment."""

    versions: _Values
    tags: _Values
    histograms: list[dict[str, list[HistogramSample]]]  # of each metric, by pipeline


class Counters:
    """Families of totals; what did not change since the last time is kept."""

    def __init__(self, columns: Sequence[Column], shows: Callable[[str], bool]) -> None:
        """Make them.

        Args:
            columns: of the observations.
            shows: whether a metric of this name is shown.
        """
        sums = range(*RowLayout(len(columns)).sum.indices(RowLayout(len(columns)).width))
        self._sums = {
            (column.name, column.labels): at for column, at in zip(columns, sums, strict=True)
        }
        self._by_version = by_version(columns).only(shows)
        self._by_slice = by_slice(columns).only(shows)
        self._versions = SampleTable(self._of_version, len(self._by_version.readings))
        self._tags = SampleTable(self._of_tag, len(self._by_slice.readings))
        text = "Latency of queries by stage: total, retrieval, generation."
        edges_s = (LATENCY_EDGES_MS / 1000).tolist()
        durations = Histograms("ragmon_query_duration_seconds", text, edges_s)
        text = "Best retrieval score of each query, on the scale of the retriever."
        scores = Histograms("ragmon_retrieval_top_score", text, SCORE_EDGES.tolist())
        observed = ((durations, self._durations), (scores, self._scores))
        self._histograms = [each for each in observed if shows(each[0].name)]

    def count(self, totals: TotalsCopy, keys: Numbered, exemplars: Exemplars) -> CounterValues:
        """The values of some series.

        Args:
            totals: a copy.
            keys: with records; those of pipelines have histograms.
            exemplars: of the latencies.
        """
        ordered = sorted(keys)
        pipelines = [each for each in ordered if not each[0].dimension]
        return CounterValues(
            _values(self._by_version, totals, [each for each in ordered if _is_version(each[0])]),
            _values(self._by_slice, totals, [each for each in ordered if _is_tag(each[0])]),
            [
                histograms.samples(list(observed(totals, pipelines, exemplars)))
                for histograms, observed in self._histograms
            ],
        )

    def families(self, counted: CounterValues, shown: Collection[SeriesKey]) -> Iterator[Family]:
        """Every counter and histogram.

        Args:
            counted: of all series.
            shown: pipelines, of which there are histograms; versions and values of tags, of which
                there are counters.
        """
        yield from _counters(self._by_version, self._versions, counted.versions, shown)
        yield from _counters(self._by_slice, self._tags, counted.tags, shown)
        for (histograms, _), samples in zip(self._histograms, counted.histograms, strict=True):
            of_shown = (
                sample
                for pipeline, of_pipeline in samples.items()
                if SeriesKey(pipeline) in shown
                for sample in of_pipeline
            )
            yield histograms.family(list(of_shown))

    def names(self) -> set[str]:
        """Names of all families that are shown."""
        tables = (self._by_version, self._by_slice)
        counters = {table.name(counter) for table in tables for counter in table.counters}
        return counters | {histograms.name for histograms, _ in self._histograms}

    def costs(self, counted: CounterValues) -> dict[SeriesKey, int]:
        """Number of series that each pipeline, version and value of a tag comes to."""
        costs: dict[SeriesKey, int] = {}
        for keys, values in (counted.versions, counted.tags):
            costs |= zip(keys, (~np.isnan(values)).sum(axis=1).tolist(), strict=True)
        for samples in counted.histograms:
            for pipeline, of_pipeline in samples.items():
                key = SeriesKey(pipeline)
                costs[key] = costs.get(key, 0) + sum(sample.size for sample in of_pipeline)
        return costs

    def _of_version(self, key: SeriesKey) -> list[Series]:
        labels = (("pipeline", key.pipeline), ("version", key.value))
        return _series(self._by_version, labels)

    def _of_tag(self, key: SeriesKey) -> list[Series]:
        labels = (("pipeline", key.pipeline), ("dimension", key.dimension), ("value", key.value))
        return _series(self._by_slice, labels)

    def _sum(self, totals: TotalsCopy, number: int, name: str, **labels: str) -> float:
        """Sum of a column over everything a series ever had."""
        return float(totals.rows[number, self._sums[name, tuple(labels.items())]])

    def _durations(
        self, totals: TotalsCopy, pipelines: Numbered, exemplars: Exemplars
    ) -> Iterator[Observed]:
        for key, number in pipelines:
            at = totals.places[number]
            for stage, name in enumerate(STAGES):
                if totals.latency[at, stage].any():
                    yield Observed(
                        key.pipeline,
                        (("stage", name),),
                        totals.latency[at, stage],
                        self._sum(totals, number, LATENCY, stage=name) / 1000,
                        exemplars.get((key.pipeline, name), {}),
                        totals.fine[at, stage],
                    )

    def _scores(self, totals: TotalsCopy, pipelines: Numbered, _: Exemplars) -> Iterator[Observed]:
        for key, number in pipelines:
            counts = totals.score[totals.places[number]]
            if counts.any():
                total = self._sum(totals, number, TOP_SCORE)
                yield Observed(key.pipeline, (), counts, total, {})


def _values(table: Table, totals: TotalsCopy, numbered: Numbered) -> _Values:
    values = table.values(totals, [number for _, number in numbered])
    return _Values([key for key, _ in numbered], values)


def _counters(
    table: Table, samples: SampleTable, counted: _Values, shown: Collection[SeriesKey]
) -> Iterator[Family]:
    """The families of one table, their samples by series."""
    rows = [row for row, key in enumerate(counted.keys) if key in shown]
    samples.update([counted.keys[row] for row in rows], counted.values[rows])
    begin = 0
    for counter in table.counters:
        end = begin + len(counter.readings)
        of_counter = samples.samples(begin, end)
        yield Family(
            table.name(counter),
            "counter",
            table.help(counter),
            of_counter.samples,
            lines=of_counter.lines,
        )
        begin = end


def _series(table: Table, labels: Labels) -> list[Series]:
    """The series of one key, for each reading of its table."""
    return [
        series(table.name(counter), (*labels, *reading.labels))
        for counter in table.counters
        for reading in counter.readings
    ]


def _is_version(key: SeriesKey) -> bool:
    return key.dimension == VERSION


def _is_tag(key: SeriesKey) -> bool:
    return key.dimension not in ("", VERSION)
