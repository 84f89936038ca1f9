"""Comparisons of two slices of a running engine."""

import asyncio

import numpy as np

from ragmon.clock import Clock
from ragmon.comparisons import (
    ComparedSlice,
    SliceComparison,
    beside,
    compared_metrics,
    shared_steps,
    total_of,
)
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.metric_series import LiveSeries, StepSums
from ragmon.daemon.query_reads import QueryReads
from ragmon.shared_questions import SharedQuestions
from ragmon.web.comparison import ComparedSides, ComparisonQuery, SliceTraffic
from ragmon.web.pages.sources import Course
from ragmon.web.series import SeriesQuery
from ragmon.windows.estimates import estimate
from ragmon.windows.row_layout import RowLayout

_LONG_S = 12 * 3_600.0  # from which on hours are matched; below it, five minutes
_MOST_STEPS = 240


class LiveComparisons:
    """Implements ``ragmon.web.comparison.ComparisonSource``."""

    def __init__(
        self, engine: Engine, series: LiveSeries, queries: QueryReads, clock: Clock
    ) -> None:
        self._engine = engine
        self._series = series
        self._queries = queries
        self._clock = clock

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    async def compare(self, query: ComparisonQuery) -> ComparedSides:
        """Both slices over the hours in which both had queries, or over all without any.

        Raises:
            KeyError: one of them has no queries.
        """
        reference, candidate = await self._series.sums(
            _series_query(query, query.reference), _series_query(query, query.candidate)
        )
        return await asyncio.to_thread(self._compared, query, reference, candidate)

    async def slices_of(self, pipeline: str, start: float, end: float) -> list[SliceTraffic]:
        """The slices of a pipeline that are known, those with the most queries first."""
        windows, now = self._engine.windows, self._clock.now()

        def read() -> list[SliceTraffic]:
            queries = windows.queries(end - start, now, end if end < now else None)
            return [
                SliceTraffic(key.dimension, key.value, float(queries[number]))
                for key, number in windows.series.keys.items()
                if key.pipeline == pipeline and key.dimension and key.value
            ]

        slices = await self._engine.thread.ask_async(read)
        return sorted(slices, key=lambda one: (-one.queries, one.dimension, one.value))

    async def shared_questions(self, query: ComparisonQuery) -> SharedQuestions:
        """The questions that were asked of both."""
        return await self._queries.shared(query)

    def _compared(
        self, query: ComparisonQuery, reference: StepSums, candidate: StepSums
    ) -> ComparedSides:
        columns = self._engine.windows.columns
        one, other, over = reference.merged, candidate.merged, reference.over
        chosen, hours = shared_steps(one, other, columns), "shared"
        if not chosen.any():
            chosen, hours = np.ones(over.length, dtype=np.bool_), "all"
        whole = beside(total_of(one, chosen), total_of(other, chosen))
        queries = RowLayout(len(columns)).queries
        comparison = SliceComparison(
            pipeline=query.pipeline,
            dimension=query.dimension,
            reference=ComparedSlice(
                value=query.reference,
                queries=int(whole.rows[0, queries]),
                queries_in_all=int(one.rows[:, queries].sum()),
            ),
            candidate=ComparedSlice(
                value=query.candidate,
                queries=int(whole.rows[1, queries]),
                queries_in_all=int(other.rows[:, queries].sum()),
            ),
            start=float(over.start),
            to=float(over.start + over.length * over.step_s),
            hours=hours,
            seconds=float(chosen.sum() * over.step_s),
            metrics=compared_metrics(estimate(whole, columns), columns),
        )
        return ComparedSides(comparison, self._course(reference), self._course(candidate))

    def _course(self, sums: StepSums) -> Course:
        columns, over = self._engine.windows.columns, sums.over
        estimates = estimate(sums.merged, columns)
        return Course(float(over.start), float(over.step_s), columns, estimates)


def _series_query(query: ComparisonQuery, value: str) -> SeriesQuery:
    length = query.end - query.start
    step_s = max(3_600.0 if length >= _LONG_S else 300.0, length / _MOST_STEPS)
    return SeriesQuery("", query.pipeline, query.dimension, value, query.start, query.end, step_s)
