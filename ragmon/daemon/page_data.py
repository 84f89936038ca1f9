"""Figures of the pages, from a running engine."""

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon.clock import Clock
from ragmon.daemon.audit import AuditLog
from ragmon.daemon.ingest.engine import Engine
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.read_deadline import read_deadline
from ragmon.signals import Column
from ragmon.web.pages.sources import WEEK_S, Restart, SliceFigures, Trends
from ragmon.windows import Merged, Windows
from ragmon.windows.estimates import estimate
from ragmon.windows.history import Steps, steps
from ragmon.windows.series import OTHER, SeriesKey
from ragmon.windows.trends import FirstSeen, add_steps, empty_steps, new_versions

MOST_PIPELINES = 60
"""On one page: those with the most traffic."""

MOST_SLICES = 200
"""In one table: those with the most queries."""

_STEPS = 36  # of a small curve
_AT_ONCE = 24  # buckets that the writer reads before it commits again
_ENTRIES = 500  # of the audit log that are looked through

Readable = Callable[[str], bool]


class _Start(NamedTuple):
    keys: list[SeriesKey]
    left_out: int
    now: Merged
    before: Merged
    over: Steps
    watermark: float


class _SliceSums(NamedTuple):
    keys: list[SeriesKey]
    merged: Merged  # the pipeline as a whole, then its slices


class LivePages:
    """Implements ``ragmon.web.pages.sources.PageSource``."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        audit: AuditLog,
        monitor: LiveMonitor,
        query_timeout_s: float,
    ) -> None:
        self._query_timeout_s = query_timeout_s
        self._engine = engine
        self._clock = clock
        self._audit = audit
        self._monitor = monitor

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    def problems(self) -> list[str]:
        """Reasons why ragmon is not ready; none when it is."""
        return self._monitor.problems()

    def quarantined(self) -> int:
        """Number of entries in quarantine, without notifications."""
        return self._monitor.quarantined()

    async def trends(self, window_s: float, span_s: float, readable: Readable | None) -> Trends:
        """The pipelines that may be read over a window, and over the steps of a longer span."""
        thread, windows = self._engine.thread, self._engine.windows
        now = self._clock.now()
        begun = await thread.ask_async(lambda: _begin(windows, now, window_s, span_s, readable))
        merged = empty_steps(len(begun.keys), begun.over, windows)
        check = read_deadline(self._clock, self._query_timeout_s, "Ask for a shorter window")
        for part in _parts(begun.over):
            check()
            await thread.ask_async(
                functools.partial(add_steps, merged, windows, begun.keys, begun.over, part)
            )
        return await asyncio.to_thread(self._estimated, begun, merged)

    def _estimated(self, begun: _Start, merged: Merged) -> Trends:
        columns = self._engine.windows.columns
        return Trends(
            pipelines=tuple(key.pipeline for key in begun.keys),
            left_out=begun.left_out,
            columns=columns,
            now=estimate(begun.now, columns),
            before=estimate(begun.before, columns),
            steps=estimate(merged, columns, with_intervals=False),
            start=float(begun.over.start),
            step_s=float(begun.over.step_s),
            watermark=begun.watermark or None,
        )

    async def slices(self, pipeline: str, start: float, end: float) -> SliceFigures:
        """The slices of a pipeline that have queries, those with the most first."""
        windows, now = self._engine.windows, self._clock.now()
        sums = await self._engine.thread.ask_async(
            lambda: _slices(windows, pipeline, (start, end), now)
        )
        return await asyncio.to_thread(_compared, sums, windows.columns)

    async def pipelines(self, readable: Readable | None) -> list[str]:
        """Names of the pipelines that may be read, in their order."""
        windows = self._engine.windows
        keys = await self._engine.thread.ask_async(lambda: list(windows.series.keys))
        names = {key.pipeline for key in keys if not key.dimension} - {OTHER}
        return sorted(name for name in names if readable is None or readable(name))

    async def new_versions(self, over_s: float, readable: Readable | None) -> list[FirstSeen]:
        """Versions that appeared lately, the newest first."""
        windows, now = self._engine.windows, self._clock.now()
        versions = await self._engine.thread.ask_async(lambda: new_versions(windows, now, over_s))
        return [each for each in versions if readable is None or readable(each.pipeline)]

    async def restarts(self, since: float) -> list[Restart]:
        """Starts of ragmon from a moment on, the newest first."""
        entries = await asyncio.to_thread(self._audit.entries, since, _ENTRIES)
        return [
            Restart(entry.at, entry.outcome)
            for entry in entries
            if entry.what == "start" and entry.who == "ragmon"
        ]


def _begin(
    windows: Windows, now: float, window_s: float, span_s: float, readable: Readable | None
) -> _Start:
    """The sums of both windows, on the writer's thread."""
    known = [
        (key, number)
        for key, number in windows.series.keys.items()
        if not key.dimension and (readable is None or readable(key.pipeline))
    ]
    queries = windows.queries(span_s, now)
    used = [(key, number) for key, number in known if queries[number]]
    used.sort(key=lambda pair: (-queries[pair[1]], pair[0]))
    shown = used[:MOST_PIPELINES]
    numbers: NDArray[np.intp] = np.array([number for _, number in shown], dtype=np.intp)
    over = steps(windows.tiers, now - span_s, now, span_s / _STEPS, max(now, windows.watermark))
    return _Start(
        keys=[key for key, _ in shown],
        left_out=len(used) - len(shown),
        now=windows.merge(window_s, now, series=numbers, stages=1),
        before=windows.merge(window_s, now, now - WEEK_S, series=numbers, stages=1),
        over=over,
        watermark=windows.watermark,
    )


def _slices(
    windows: Windows, pipeline: str, between: tuple[float, float], now: float
) -> _SliceSums:
    """The sums of a pipeline and its slices, on the writer's thread."""
    start, end = between
    known = windows.series.keys
    keys = [key for key in known if key.pipeline == pipeline and key.dimension and key.value]
    whole = known.get(SeriesKey(pipeline))
    numbers = np.array([0 if whole is None else whole, *map(known.__getitem__, keys)])
    is_past = end < now
    merged = windows.merge(
        end - start, now, end if is_past else None, series=numbers.astype(np.intp), stages=1
    )
    if whole is None:
        return _SliceSums([], merged)
    return _SliceSums(keys, merged)


def _compared(sums: _SliceSums, columns: Sequence[Column]) -> SliceFigures:
    """Estimates of each slice that has queries, and of the pipeline without it."""
    queries = sums.merged.rows[1 : len(sums.keys) + 1, -1]
    most = np.argsort(-queries, kind="stable")[:MOST_SLICES]
    chosen = most[queries[most] > 0]
    return SliceFigures(
        slices=tuple((sums.keys[at].dimension, sums.keys[at].value) for at in chosen),
        columns=columns,
        whole=estimate(_rows_of(sums.merged, np.zeros(1, dtype=np.intp)), columns),
        slice_estimates=estimate(_rows_of(sums.merged, chosen + 1), columns),
        rest=estimate(_without(sums.merged, chosen + 1), columns),
    )


def _rows_of(merged: Merged, chosen: NDArray[np.intp]) -> Merged:
    assert merged.judged is not None
    return Merged(merged.rows[chosen], merged.latency[chosen], merged.judged[chosen])


def _without(merged: Merged, chosen: NDArray[np.intp]) -> Merged:
    """The first row without each of the chosen ones."""
    assert merged.judged is not None
    return Merged(
        np.maximum(merged.rows[:1] - merged.rows[chosen], 0.0),
        np.maximum(merged.latency[:1] - merged.latency[chosen], 0),
        merged.judged[:1] - merged.judged[chosen],
    )


def _parts(over: Steps) -> Iterator[range]:
    """The buckets of the steps, some at a time."""
    for first in range(over.first, over.end, _AT_ONCE):
        yield range(first, min(first + _AT_ONCE, over.end))
