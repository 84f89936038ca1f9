"""Read side of the HTTP API: metrics, probes, report, queries."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragmon.access import Permit
from ragmon.api_schema import QueryDetail, QueryList, Report
from ragmon.asgi import (
    READ_BYTES,
    BodyLimits,
    Problem,
    ReadGate,
    check_headers,
    over_memory,
    read_body,
    unavailable,
)
from ragmon.errors import MemoryLimitError, RagmonError, ReadTimeoutError, StoreBodiesError
from ragmon.query_string import check_names
from ragmon.web import endpoints, ingest_endpoints, openapi, query_endpoints
from ragmon.web.answers import AnswerMemory, PartedResponse, ReservedResponse
from ragmon.web.auth import PROVEN
from ragmon.web.compression import compressed, header
from ragmon.web.endpoint import Endpoint
from ragmon.web.exports import QueryExport
from ragmon.web.forms import read_form
from ragmon.web.parameters import QuerySelection, moment_of, selection_of
from ragmon.web.paths import path_hint
from ragmon.web.permits import AccessCheck, Readable, permit_of, pipeline_of
from ragmon.web.visitors import VISITOR

Answer = Callable[[Request], Awaitable[Response]]
Audited = Callable[[Request, Permit, Endpoint, int], Awaitable[None]]
"""Called with a request, its rights, its endpoint and the status of the answer."""

ShownProblem = Callable[[Request, Problem], Response | None]
"""Called with a request and what is wrong; None: a program asked, which gets JSON."""

BODY_START = 2_000  # bytes of a request that the audit log may show


class MonitorSource(Protocol):
    """Source of metrics, reports and queries; an answer has all that was acknowledged before it."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def metrics(
        self, accept: str, accept_encoding: str
    ) -> tuple[tuple[bytes, ...], dict[str, str]]:
        """The page for Prometheus, as the scraper accepts it, and its headers."""
        ...

    async def report(
        self,
        window: str,
        pipeline: str,
        end: float | None = None,
        readable: Readable | None = None,
    ) -> Report:
        """The report of one window, over the pipelines that may be read.

        Raises:
            ValueError: the window is no duration, or out of range.
        """
        ...

    async def queries(self, selection: QuerySelection) -> QueryList:
        """A page of the queries that fit, of the pipelines that may be read.

        Raises:
            ValueError: the selection names something unknown.
        """
        ...

    def export(self, selection: QuerySelection, form: str) -> AsyncIterator[bytes]:
        """All queries that fit, of the pipelines that may be read, as parts of a file.

        Raises:
            ValueError: the selection names something unknown.
        """
        ...

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query; None when it is unknown or expired."""
        ...

    def problems(self) -> list[str]:
        """Reasons why ragmon is not ready; empty when it is."""
        ...

    def stalled(self) -> list[str]:
        """Loops that no longer turn; empty when all do."""
        ...


class Page(NamedTuple):
    """An endpoint with the coroutine that answers it."""

    endpoint: Endpoint
    answer: Answer


class RouteSection(Protocol):
    """Pages that belong together, in a module of their own."""

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        ...


class Api:
    """Every path but those that take records, which raw ASGI answers."""

    def __init__(
        self,
        monitor: MonitorSource,
        refused: Callable[[str], None],
        access: AccessCheck,
        *,
        limits: BodyLimits,
        protected: Collection[str] = (),
        more: Sequence[RouteSection] = (),
    ) -> None:
        self._more = more
        self._gates = {name: ReadGate(limits.reads) for name in ("store", "windows")}
        self._exports = QueryExport(monitor, limits)
        self._answers = AnswerMemory(limits.memory)
        self._monitor = monitor
        self._refused = refused  # called with the reason of every refusal
        self._access = access
        self._limits = limits
        self._protected = protected  # of the scopes probe and metrics, those that need a token
        self._shown_problem: ShownProblem = lambda _request, _problem: None

    def application(
        self,
        audited: Audited = lambda *_: _nothing(),
        shown_problem: ShownProblem = lambda _request, _problem: None,
    ) -> Starlette:
        """The ASGI application.

        Args:
            audited: called with every change that was made or refused, before the answer is sent.
            shown_problem: makes the answer that a person sees in place of a problem's JSON.
        """
        self._shown_problem = shown_problem
        application = Starlette(
            routes=[
                Route(
                    page.endpoint.path, self._answer(page, audited), methods=[page.endpoint.method]
                )
                for section in (self, *self._more)
                for page in section.pages()
            ],
            exception_handlers={
                Problem: self._problem,
                HTTPException: self._http_error,
                Exception: self._defect,
            },
        )
        # It would redirect to whatever Host says, before a token is asked for.
        application.router.redirect_slashes = False
        return application

    def pages(self) -> Sequence[Page]:
        """Its own endpoints, without those of the other sections."""
        return (
            Page(endpoints.METRICS, self.metrics),
            Page(endpoints.LIVE, self.live),
            Page(endpoints.READY, self.ready),
            Page(endpoints.REPORT, self.report),
            Page(query_endpoints.QUERIES, self.queries),
            Page(query_endpoints.QUERY, self.query),
            Page(query_endpoints.EXPORT, self._exports.answer),
            Page(endpoints.OPENAPI, self.openapi),
        )

    async def metrics(self, request: Request) -> Response:
        """Prometheus text, or OpenMetrics or protobuf when asked for."""
        accept, encoding = header(request, "accept"), header(request, "accept-encoding")
        parts, headers = await self._monitor.metrics(accept, encoding)
        return PartedResponse(parts, headers)

    async def live(self, _: Request) -> Response:
        """200 while every loop turns."""
        return _state(self._monitor.stalled())

    async def ready(self, _: Request) -> Response:
        """200 once records are taken and questions answered."""
        return _state(self._monitor.problems())

    async def report(self, request: Request) -> Response:
        """Every figure of one window."""
        asked = request.query_params
        end = moment_of("end", asked["end"], self._monitor.now()) if asked.get("end") else None
        pipeline, readable = pipeline_of(request)
        return json_answer(await self._report(asked.get("window", "24h"), pipeline, end, readable))

    async def queries(self, request: Request) -> Response:
        """The newest queries that fit."""
        selection = selection_of(request, self._monitor.now())
        try:
            listed = await self._monitor.queries(selection)
        except ValueError as error:
            raise Problem(400, str(error), reason="bad_parameter") from None
        return json_answer(listed)

    async def query(self, request: Request) -> Response:
        """One query."""
        query_id = request.path_params["query_id"]
        detail = await self._monitor.query(query_id)
        readable = permit_of(request).pipelines
        if detail is None or (readable is not None and not readable(detail.record.pipeline)):
            raise Problem(404, f"no query has the id {query_id!r}", reason="not_found")
        return json_answer(detail)

    async def openapi(self, _: Request) -> Response:
        """The OpenAPI document."""
        return Response(openapi.encoded(), media_type="application/json")

    async def _report(
        self, window: str, pipeline: str, end: float | None, readable: Readable | None
    ) -> Report:
        try:
            return await self._monitor.report(window, pipeline, end, readable)
        except ValueError as error:
            raise Problem(400, str(error), reason="bad_parameter") from None

    def _answer(self, page: Page, audited: Audited) -> Answer:
        """The coroutine that answers an endpoint; it audits what the table says is a change."""
        guarded, endpoint = self._guarded(page), page.endpoint

        async def recorded(request: Request) -> Response:
            status = 500
            try:
                response = await guarded(request)
                status = response.status_code
            except Problem as problem:
                status = problem.status
                raise
            finally:
                if hasattr(request.state, "permit"):  # refused tokens are recorded elsewhere
                    await audited(request, permit_of(request), endpoint, status)
            return response

        return recorded if endpoint.is_change else guarded

    def _guarded(self, page: Page) -> Answer:
        scope = self._needed(page.endpoint)
        gate = self._gates.get(page.endpoint.reads)
        known = [parameter.name for parameter in page.endpoint.asked]

        async def answer(request: Request) -> Response:
            request.state.endpoint = page.endpoint
            check_headers(request.scope, self._limits)
            if page.endpoint.is_form:
                await self._take_form(request, page.endpoint)
            if scope:
                request.state.permit = self._access(request.scope, scope)
                if page.endpoint.pipelines == "all":
                    permit_of(request).check_all()
            if page.endpoint.is_page:
                VISITOR.set(self._access.visitor(request.scope, permit_of(request)))
            check_names(request.scope, known)
            try:
                if gate is None:
                    whole = await compressed(request, await page.answer(request))
                    return self._answers.reserved(whole)
                with contextlib.ExitStack() as stack:
                    memory = stack.enter_context(self._limits.memory.open())
                    async with gate.turn():
                        memory.take(READ_BYTES)
                        response = await compressed(request, await page.answer(request))
                    memory.take(len(response.body))
                    memory.give_back(READ_BYTES)
                    return ReservedResponse(response, stack.pop_all())
            except MemoryLimitError as error:
                raise over_memory(error) from None
            except ReadTimeoutError as error:
                raise unavailable(str(error), "query_timeout") from None
            except RagmonError as error:
                raise unavailable(str(error), _reason(error)) from None

        return answer

    async def _take_form(self, request: Request, endpoint: Endpoint) -> None:
        """Read a form, and let the session count: a page of ours sent it.

        Raises:
            Problem: another page did, or it is no form.
        """
        is_login = endpoint.scope == "open"
        secret = self._access.form_secret(request.scope, is_login=is_login)
        request.state.form = await read_form(request, self._limits, secret)
        request.scope[PROVEN] = True
        if not is_login:  # its form holds the token of a person
            request.state.body_start = msgspec.json.encode(request.state.form)[:BODY_START]

    def _needed(self, endpoint: Endpoint) -> str:
        """Scope that a token needs; empty when none is asked for."""
        if endpoint.scope in ("probe", "metrics"):
            return "read" if endpoint.scope in self._protected else ""
        return "" if endpoint.scope == "open" else endpoint.scope

    async def _problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        self._refused(error.reason)
        if (shown := self._shown_problem(request, error)) is not None:
            return shown
        body = msgspec.json.encode(error.body())
        media = "application/problem+json"
        return Response(body, error.status, headers=error.headers, media_type=media)

    async def _defect(self, request: Request, _: Exception) -> Response:
        """Ours; the server logs it."""
        detail = "internal error in ragmon; its log has the traceback"
        return await self._problem(request, Problem(500, detail, reason="internal"))

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        every = (*endpoints.EVERY, *ingest_endpoints.EVERY)
        plain = [each for each in every if "{" not in each.path]
        takers = [each.path for each in plain if each.method == request.method]
        path = request.url.path
        # A path that is there has another method; but what is posted to a page is meant for /v1.
        is_known = any(each.path == path for each in plain) and f"/v1{path}" not in takers
        hint = "" if is_known else path_hint(request.method, path, takers)
        detail = f"{request.method} {request.url.path}: {error.detail}{hint}"
        reason = "not_found" if error.status_code == 404 else "method"
        headers = dict(error.headers or {})
        problem = Problem(error.status_code, detail, reason=reason, headers=headers)
        return await self._problem(request, problem)


def json_answer(content: Any, status: int = 200) -> Response:
    """JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def body_of(request: Request, limits: BodyLimits) -> bytes:
    """The body of a request, within the limits.

    Raises:
        Problem: it is too large, broken, or did not come.
    """
    with limits.memory.open() as memory:
        body = await read_body(request.scope, request.receive, limits, memory)
    request.state.body_start = body[:BODY_START]  # for the audit log
    return body


async def _nothing() -> None:
    """Audit nothing."""


def _state(problems: list[str]) -> Response:
    text = "\n".join(problems) if problems else "ok"
    return Response(text + "\n", 503 if problems else 200, media_type="text/plain")


def _reason(error: RagmonError) -> str:
    return error.reason if isinstance(error, StoreBodiesError) else "unavailable"
