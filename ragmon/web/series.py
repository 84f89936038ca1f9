"""A metric over time over HTTP."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.metric_series import MetricSeries
from ragmon.web.api import Page, json_answer
from ragmon.web.parameters import duration_of, moment_of
from ragmon.web.permits import pipeline_of
from ragmon.web.series_endpoint import MOST_POINTS, SERIES

_LONGEST_S = 90 * 86_400.0
_SHORTEST_S = 300.0
_USUAL_POINTS = 300
_NICE_STEPS_S = (10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400)


class SeriesQuery(NamedTuple):
    """One metric of one series over a stretch of time."""

    metric: str
    pipeline: str
    dimension: str  # empty: the pipeline as a whole
    value: str
    start: float  # unix seconds
    end: float
    step_s: float  # least length of a step


class SeriesSource(Protocol):
    """Source of metrics over time."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def series(self, query: SeriesQuery) -> MetricSeries:
        """The points, oldest first.

        Raises:
            ValueError: no metric has that name.
            KeyError: no such pipeline or slice has queries.
        """
        ...


class SeriesSection:
    """Endpoint of metrics over time."""

    def __init__(self, source: SeriesSource) -> None:
        self._source = source

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(SERIES, self.series),)

    async def series(self, request: Request) -> Response:
        """The metric for each step."""
        pipeline, _ = pipeline_of(request)
        if not pipeline:
            raise _bad("pipeline: is missing; name the pipeline, such as pipeline=default")
        query = _query(request, pipeline, self._source.now())
        try:
            return json_answer(await self._source.series(query))
        except ValueError as error:
            raise _bad(str(error)) from None
        except KeyError as error:
            raise Problem(404, str(error.args[0]), reason="not_found") from None


def _query(request: Request, pipeline: str, now: float) -> SeriesQuery:
    asked = request.query_params
    metric = asked.get("metric", "")
    if not metric:
        raise _bad("metric: is missing; name one as /v1/report does, such as metric=zero_result")
    dimension, sign, value = asked.get("slice", "").partition("=")
    if asked.get("slice") and (not sign or not dimension or not value):
        raise _bad("slice: write it as dimension=value, such as version=v2")
    end = moment_of("to", asked["to"], now) if asked.get("to") else now
    start = moment_of("from", asked["from"], now) if asked.get("from") else end - 86_400.0
    span = end - start
    if not _SHORTEST_S <= span <= _LONGEST_S + 1.0:
        raise _bad("from, to: ask for at least 5 minutes and at most 90 days")
    return SeriesQuery(
        metric, pipeline, dimension, value, start, end, _step(asked.get("step"), span)
    )


def _step(text: str | None, span: float) -> float:
    """Seconds of a step; without one, so many that some hundred points come out."""
    if not text:
        fitting = (step for step in _NICE_STEPS_S if span / step <= _USUAL_POINTS)
        return float(next(fitting, _NICE_STEPS_S[-1]))
    step = float(text) if re.fullmatch("[0-9]{1,9}", text) else duration_of(text)
    least = span / MOST_POINTS
    if not step:
        raise _bad(f"step: {text[:100]!r} is no duration such as 30s, 5m or 1h")
    if step < least:
        raise _bad(f"step: more than {MOST_POINTS:,} points; at least {math.ceil(least)}s fits")
    return step


def _bad(detail: str) -> Problem:
    return Problem(400, detail, reason="bad_parameter")
