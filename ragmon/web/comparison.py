"""Two slices of a pipeline over the same hours, over HTTP."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.comparisons import SliceComparison
from ragmon.shared_questions import SharedQuestions
from ragmon.web.api import Page, json_answer
from ragmon.web.pages.sources import Course
from ragmon.web.parameters import moment_of
from ragmon.web.permits import pipeline_of
from ragmon.web.series_endpoint import COMPARE

_SHORTEST_S, _LONGEST_S = 300.0, 90 * 86_400.0


class ComparisonQuery(NamedTuple):
    """Two values of a dimension over a stretch of time."""

    pipeline: str
    dimension: str
    reference: str
    candidate: str
    start: float  # unix seconds
    end: float


class ComparedSides(NamedTuple):
    """The comparison, and both over all of that time."""

    comparison: SliceComparison
    reference: Course
    candidate: Course


class SliceTraffic(NamedTuple):
    """A slice that can be compared."""

    dimension: str
    value: str
    queries: float  # in that time


class ComparisonSource(Protocol):
    """Source of comparisons."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def compare(self, query: ComparisonQuery) -> ComparedSides:
        """Both slices over the hours in which both had queries, or over all without any.

        Raises:
            KeyError: one of them has no queries.
        """
        ...

    async def slices_of(self, pipeline: str, start: float, end: float) -> list[SliceTraffic]:
        """The slices of a pipeline that are known, those with the most queries first."""
        ...

    async def shared_questions(self, query: ComparisonQuery) -> SharedQuestions:
        """The questions that were asked of both."""
        ...


class ComparisonSection:
    """Endpoint of comparisons."""

    def __init__(self, source: ComparisonSource) -> None:
        self._source = source

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(COMPARE, self.compare),)

    async def compare(self, request: Request) -> Response:
        """Every metric of both."""
        pipeline, _ = pipeline_of(request)
        query = _query(request, pipeline, self._source.now())
        try:
            return json_answer((await self._source.compare(query)).comparison)
        except KeyError as error:
            raise Problem(404, str(error.args[0]), reason="not_found") from None


def _query(request: Request, pipeline: str, now: float) -> ComparisonQuery:
    asked = request.query_params
    for name in ("pipeline", "reference", "candidate"):
        if not asked.get(name):
            raise _bad(f"{name}: is missing; name a pipeline and two of its versions")
    end = moment_of("to", asked["to"], now) if asked.get("to") else now
    start = moment_of("from", asked["from"], now) if asked.get("from") else end - 86_400.0
    if not _SHORTEST_S <= end - start <= _LONGEST_S + 1.0:
        raise _bad("from, to: ask for at least 5 minutes and at most 90 days")
    query = ComparisonQuery(
        pipeline,
        asked.get("dimension") or "version",
        asked["reference"],
        asked["candidate"],
        start,
        end,
    )
    if query.reference == query.candidate:
        raise _bad("candidate: is the reference itself; name another value")
    return query


def _bad(detail: str) -> Problem:
    return Problem(400, detail, reason="bad_parameter")
