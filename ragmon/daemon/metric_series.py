"""Metrics over time of a running engine, from memory and, beyond that, from saved buckets."""

import asyncio
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragmon.clock import Clock
from ragmon.daemon.expected_series import (
    ExpectedRange,
    ExpectedSeries,
    ExpectedSource,
    no_expectation,
)
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.read_deadline import read_deadline
from ragmon.metric_series import MetricSeries, SeriesMetric, metrics, points
from ragmon.web.pages.sources import Course
from ragmon.web.series import SeriesQuery
from ragmon.windows import Merged
from ragmon.windows.estimates import estimate
from ragmon.windows.history import Steps, add_saved_buckets, of_series, steps
from ragmon.windows.series import SeriesKey
from ragmon.windows.snapshot import SavedBucket


class _Memory(NamedTuple):
    """The part of an answer that comes from the rings."""

    over: Steps
    merged: Merged
    first_held: int  # bucket of the tier; older ones are only saved
    is_known: bool  # the series is in memory
    expected: Mapping[str, ExpectedRange]  # by metric


class StepSums(NamedTuple):
    """The sums of one series for each step, a row each."""

    over: Steps
    merged: Merged
    expected: Mapping[str, ExpectedRange] = {}


class LiveSeries:
    """Implements ``ragmon.web.series.SeriesSource``."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        query_timeout_s: float,
        expected: ExpectedSource = no_expectation,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._query_timeout_s = query_timeout_s
        self._metrics = metrics(engine.windows.columns)
        self._expected = ExpectedSeries(expected, engine.windows.columns)

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    async def series(self, query: SeriesQuery) -> MetricSeries:
        """The metric for each step, the last of which may still be in progress.

        Raises:
            ValueError: no metric has that name.
            KeyError: no such pipeline or slice has queries.
        """
        metric = self._metric(query.metric)
        key = SeriesKey(query.pipeline, query.dimension, query.value)
        latencies = metric.needs_latencies
        memory = await self._engine.thread.ask_async(
            lambda: self._from_memory(
                query, key, self._newest(), latencies=latencies, names=[metric.name]
            )
        )
        return await asyncio.to_thread(self._answer, metric, key, memory)

    async def course(self, query: SeriesQuery) -> Course:
        """Every metric for each step; the one that the query names does not matter.

        Raises:
            KeyError: no such pipeline or slice has queries.
        """
        (sums,) = await self.sums(query)
        return await asyncio.to_thread(self._course, sums)

    async def sums(self, *queries: SeriesQuery) -> list[StepSums]:
        """The sums of every metric for each step, of which estimates are made.

        Queries of the same time and step have the same steps.

        Raises:
            KeyError: no such pipeline or slice has queries.
        """
        keys = [SeriesKey(query.pipeline, query.dimension, query.value) for query in queries]
        memories = await self._engine.thread.ask_async(lambda: self._all_sums(queries, keys))
        return [
            StepSums(
                memory.over,
                await asyncio.to_thread(self._with_saved, key, memory),
                memory.expected,
            )
            for key, memory in zip(keys, memories, strict=True)
        ]

    def _all_sums(self, queries: Sequence[SeriesQuery], keys: Sequence[SeriesKey]) -> list[_Memory]:
        newest = self._newest()
        return [
            self._from_memory(query, key, newest, latencies=True)
            for query, key in zip(queries, keys, strict=True)
        ]

    def _course(self, sums: StepSums) -> Course:
        columns = self._engine.windows.columns
        over = sums.over
        estimates = estimate(sums.merged, columns)
        expected = self._expected.fitting(sums.expected, sums.merged, columns)
        return Course(float(over.start), float(over.step_s), columns, estimates, expected)

    def _metric(self, name: str) -> SeriesMetric:
        if name not in self._metrics:
            near = difflib.get_close_matches(name, self._metrics, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; /v1/report names those there are"
            raise ValueError(f"metric: {name[:100]!r} is unknown{hint}")
        return self._metrics[name]

    def _newest(self) -> float:
        """Unix seconds up to which the rings have moved."""
        return max(self._clock.now(), self._engine.windows.watermark)

    def _from_memory(
        self,
        query: SeriesQuery,
        key: SeriesKey,
        newest: float,
        *,
        latencies: bool,
        names: Sequence[str] | None = None,
    ) -> _Memory:
        windows = self._engine.windows
        number = windows.series.keys.get(key)
        over = steps(windows.tiers, query.start, query.end, query.step_s, newest)
        tier = windows.tiers[over.tier]
        first_held = int(windows.watermark // tier.width_s) - tier.slots + 1
        merged = of_series(windows, number, over, latencies=latencies)
        expected = self._expected.bands(key, over, names)
        return _Memory(over, merged, first_held, number is not None, expected)

    def _in_time(self, buckets: Iterable[SavedBucket]) -> Iterator[SavedBucket]:
        check = read_deadline(self._clock, self._query_timeout_s, "Ask for less: a later from")
        for bucket in buckets:
            check()
            yield bucket

    def _with_saved(self, key: SeriesKey, memory: _Memory) -> Merged:
        """The sums of each step, with those that memory has forgotten.

        Raises:
            KeyError: no such pipeline or slice has queries.
        """
        over, merged, first_held, is_known, _ = memory
        columns = self._engine.windows.columns
        if over.first < first_held:
            with self._engine.store.reader() as reader:
                last = min(first_held, over.end) - 1
                saved = self._in_time(reader.saved_buckets(over.tier, over.first, last))
                add_saved_buckets(merged, key, over, saved, columns)
        if not is_known and not merged.rows.any():
            of = f" with {key.dimension}={key.value}" if key.dimension else ""
            raise KeyError(f"no query of pipeline {key.pipeline[:100]!r}{of[:200]} is counted")
        return merged

    def _answer(self, metric: SeriesMetric, key: SeriesKey, memory: _Memory) -> MetricSeries:
        over, columns = memory.over, self._engine.windows.columns
        merged = self._with_saved(key, memory)
        expected = self._expected.fitting(memory.expected, merged, columns)
        return MetricSeries(
            metric=metric.name,
            pipeline=key.pipeline,
            dimension=key.dimension,
            value=key.value,
            start=float(over.start),
            to=float(over.start + over.length * over.step_s),
            step=float(over.step_s),
            points=points(metric, merged, columns, over, expected.get(metric.name)),
        )
