"""Counters and classic histograms over all time, which PromQL can rate and sum."""

from collections.abc import Callable, Iterator

import numpy as np

from ragmon.exposition.text import Exemplar, Family, HistogramSample, Labels, series
from ragmon.signals.failure_mode import MODES
from ragmon.signals.latency import STAGES
from ragmon.windows import LATENCY, TOP_SCORE, Windows
from ragmon.windows.series import VERSION, SeriesKey
from ragmon.windows.totals import LATENCY_EDGES_MS, SCORE_EDGES

Exemplars = dict[tuple[str, str], dict[int, Exemplar]]
"""(pipeline, stage) to bucket to exemplar."""

COUNTERS = (
    # metric, column, help
    ("query_errors", "error", "Queries logged with an error."),
    ("zero_result_queries", "zero_result", "Queries whose retrieval returned no chunk."),
    ("slow_queries", "slow", "Queries that took longer than latency.slow_ms."),
    ("chunks_retrieved", "retrieved_chunks", "Chunks retrieved for all queries."),
    ("chunks_cited", "cited_chunks", "Retrieved chunks that an answer cites."),
)
RATINGS = ("positive", "negative", "neutral")


class Counters:
    """Reads the totals of the windows."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._columns = {
            (column.name, column.labels): at for at, column in enumerate(windows.columns)
        }

    def families(self, exemplars: Exemplars) -> Iterator[Family]:
        """Every counter and histogram."""
        counted = self._windows.totals.queries
        versions = self._numbers(lambda key: key.dimension == VERSION)
        queries = [(_by_version(key), counted[at]) for key, at in versions]
        yield _counter("queries", "Queries counted, by pipeline and version.", queries)
        for metric, column, text in COUNTERS:
            samples = [(_by_version(key), self._sum(at, column)) for key, at in versions]
            yield _counter(metric, text, samples)
        yield _counter(
            "feedback",
            "User ratings of answers: positive, negative or neutral.",
            self._ratings(versions),
        )
        modes = [
            ((*_by_version(key), ("mode", mode)), self._sum(at, "failure_mode", mode=mode))
            for key, at in versions
            for mode in MODES
        ]
        text = "Queries by failure mode; one that is reclassified later counts in both modes."
        yield _counter("failure_mode", text, modes)
        yield self._durations(exemplars)
        yield self._scores()

    def _sum(self, series: int, name: str, **labels: str) -> float:
        """Sum of a column over everything a series ever had."""
        column = self._columns[name, tuple(labels.items())]
        return float(self._windows.totals.sums[series, column])

    def _ratings(self, versions: list[tuple[SeriesKey, int]]) -> list[tuple[Labels, float]]:
        rated = self._columns["positive_feedback", ()]
        samples: list[tuple[Labels, float]] = []
        for key, at in versions:
            liked = self._sum(at, "positive_feedback")
            disliked = self._sum(at, "negative_feedback")
            ratings = float(self._windows.totals.n[at, rated])
            neutral = max(0.0, ratings - liked - disliked)
            for rating, value in zip(RATINGS, (liked, disliked, neutral), strict=True):
                samples.append(((*_by_version(key), ("rating", rating)), value))
        return samples

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


def _by_version(key: SeriesKey) -> Labels:
    return (("pipeline", key.pipeline), ("version", key.value))


def _counter(metric: str, text: str, samples: list[tuple[Labels, float]]) -> Family:
    name = f"ragmon_{metric}_total"
    return Family(
        name, "counter", text, [(series(name, labels), value) for labels, value in samples]
    )
