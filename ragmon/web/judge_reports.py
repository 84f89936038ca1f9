"""The judges' report card over HTTP."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.judge_reports.report import JudgeReport
from ragmon.web.api import Page, json_answer
from ragmon.web.judge_report_endpoints import DEFAULT_LIMIT, DEFAULT_SINCE, JUDGE_REPORT
from ragmon.web.parameters import limit_of, moment_of
from ragmon.web.permits import Readable, pipeline_of


class JudgeReportQuery(NamedTuple):
    """The answers that a report is about."""

    pipeline: str  # empty: any
    readable: Readable | None
    since: float  # unix seconds
    until: float  # exclusive
    limit: int = DEFAULT_LIMIT  # answers on which judges are at odds


class JudgeReportSource(Protocol):
    """Source of reports on the judges."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def report(self, query: JudgeReportQuery) -> JudgeReport:
        """The report, over the pipelines that may be read."""
        ...


class JudgeReportSection:
    """Endpoint of the report."""

    def __init__(self, source: JudgeReportSource) -> None:
        self._source = source

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(JUDGE_REPORT, self.report),)

    async def report(self, request: Request) -> Response:
        """The report as JSON."""
        asked = request.query_params
        query = report_query(asked, pipeline_of(request), self._source.now())
        query = query._replace(limit=limit_of(asked.get("limit", str(DEFAULT_LIMIT))))
        return json_answer(await self._source.report(query))


def report_query(
    asked: Mapping[str, str], permitted: tuple[str, Readable | None], now: float
) -> JudgeReportQuery:
    """The answers that parameters ask for.

    Args:
        asked: the parameters of ``judge_report_endpoints``.
        permitted: the pipeline, and those that may be read.
        now: unix seconds.

    Raises:
        Problem: a parameter cannot be read.
    """
    until = asked.get("until", "")
    query = JudgeReportQuery(
        *permitted,
        since=moment_of("since", asked.get("since") or DEFAULT_SINCE, now),
        until=moment_of("until", until, now) if until else float("inf"),
    )
    if query.until <= query.since:
        detail = "since, until: the end is not after the start"
        raise Problem(400, detail, reason="bad_parameter")
    return query
