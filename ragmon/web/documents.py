"""Documents over HTTP: those to do something about, and those retrieved most often."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.documents.live import LiveDocumentList
from ragmon.documents.report import DocumentReport
from ragmon.web.api import Page, json_answer
from ragmon.web.document_endpoints import DEFAULT_K, DEFAULT_SINCE, DOCUMENTS, TOP_DOCUMENTS, UNITS
from ragmon.web.parameters import limit_of, moment_of
from ragmon.web.permits import Readable, pipeline_of

_MOST_K = 100


class DocumentQuery(NamedTuple):
    """The documents that somebody asks for."""

    pipeline: str  # empty: any
    readable: Readable | None
    since: float  # unix seconds
    until: float  # exclusive
    by_source: bool = False
    k: int = DEFAULT_K
    changed: float | None = None  # unix seconds of a change; None: any
    release: str | None = None  # version of a change
    rows: int = 50
    with_ids: bool = False


class DocumentSource(Protocol):
    """Source of reports on documents."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def documents(self, query: DocumentQuery) -> DocumentReport:
        """The report, over the pipelines that may be read."""
        ...

    def top(self, readable: Readable | None, most: int) -> LiveDocumentList:
        """Documents retrieved most in this hour and the last, of the pipelines that may be read."""
        ...


class DocumentSection:
    """Endpoint of documents."""

    def __init__(self, source: DocumentSource) -> None:
        self._source = source

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(DOCUMENTS, self.documents), Page(TOP_DOCUMENTS, self.top))

    async def top(self, request: Request) -> Response:
        """The live lists as JSON."""
        permitted = pipeline_of(request)
        most = limit_of(request.query_params.get("limit", "50"))
        return json_answer(self._source.top(readable_one(*permitted), most))

    async def documents(self, request: Request) -> Response:
        """The report as JSON."""
        asked = request.query_params
        query = query_from(asked, pipeline_of(request), self._source.now())
        query = query._replace(
            rows=limit_of(asked.get("limit", "50")), with_ids=_is_true("ids", asked.get("ids", ""))
        )
        return json_answer(await self._source.documents(query))


def readable_one(pipeline: str, readable: Readable | None) -> Readable | None:
    """The pipelines that are read: the one that is named, or all that may be."""
    return (lambda name: name == pipeline) if pipeline else readable


def query_from(
    asked: Mapping[str, str], permitted: tuple[str, Readable | None], now: float
) -> DocumentQuery:
    """The documents that parameters ask for.

    Args:
        asked: the parameters of ``document_endpoints``.
        permitted: the pipeline, and those that may be read.
        now: unix seconds.

    Raises:
        Problem: a parameter cannot be read.
    """
    by, until = asked.get("by") or UNITS[0], asked.get("until", "")
    if by not in UNITS:
        raise _bad(f"by: {by[:40]!r} is not one of {', '.join(UNITS)}")
    changed, release = asked.get("changed", ""), asked.get("release", "")
    if changed and release:
        raise _bad("changed, release: give one of them")
    query = DocumentQuery(
        *permitted,
        since=moment_of("since", asked.get("since") or DEFAULT_SINCE, now),
        until=moment_of("until", until, now) if until else float("inf"),
        by_source=by == "source",
        k=_k_of(asked.get("k", "")),
        changed=moment_of("changed", changed, now) if changed else None,
        release=release or None,
    )
    if query.until <= query.since:
        raise _bad("since, until: the end is not after the start")
    return query


def _k_of(text: str) -> int:
    if not text:
        return DEFAULT_K
    if not re.fullmatch("[0-9]{1,3}", text) or not 1 <= int(text) <= _MOST_K:
        raise _bad(f"k: {text[:40]!r} is not a number from 1 to {_MOST_K}")
    return int(text)


def _is_true(name: str, text: str) -> bool:
    if text not in ("", "true", "false"):
        raise _bad(f"{name}: {text[:40]!r} is neither true nor false")
    return text == "true"


def _bad(detail: str) -> Problem:
    return Problem(400, detail, reason="bad_parameter")
