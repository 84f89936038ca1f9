"""Documents: those to do something about, and those retrieved most often."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.documents.report import KINDS, DocumentFinding, DocumentReport, FindingKind
from ragmon.web.api import Page
from ragmon.web.document_endpoints import DEFAULT_SINCE, DOCUMENTS_PAGE
from ragmon.web.documents import DocumentSource, query_from, readable_one
from ragmon.web.pages.rendering import Renderer
from ragmon.web.permits import check_pipeline

SINCE = ("24h", "7d", "30d")
_SHOWN = 8  # findings of a kind; others are folded
_ROWS = 60

TITLES: Mapping[FindingKind, tuple[str, str, str]] = {
    "disliked": ("disliked", "Behind disliked answers", "critical"),
    "unfaithful": ("unfaithful", "Behind unfaithful answers", "critical"),
    "vanished": ("vanished", "No longer retrieved", "warning"),
    "appeared": ("appeared", "New in retrieval", "info"),
    "stale_twin": (
        "stale twin",
        "Stale twins: nearly the same text, and another is cited",
        "warning",
    ),
    "loser": ("loser", "Relevant, but ranked too low", "warning"),
    "hub": ("hub", "Hubs: retrieved for everything, cited for nothing", "info"),
}
"""Word, heading and tone of each kind of finding."""


class FindingGroup(NamedTuple):
    """Findings of one kind."""

    title: str
    tone: str
    word: str
    findings: list[DocumentFinding]


class DocumentPageSection:
    """Endpoint of the page."""

    def __init__(self, source: DocumentSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(DOCUMENTS_PAGE, self.documents),)

    async def documents(self, request: Request) -> Response:
        """The form, findings and documents; what is wrong with the form is said on the page."""
        filled = {name: text for name, text in request.query_params.items() if text.strip()}
        permitted = check_pipeline(request, filled.get("pipeline", ""))
        report, refusal = None, ""
        try:
            query = query_from(filled, permitted, self._source.now())
            report = await self._source.documents(query._replace(rows=_ROWS))
        except Problem as problem:
            if problem.status != 400:
                raise
            refusal = str(problem)
        return self._renderer.page(
            "documents.html",
            400 if refusal else 200,
            shown=_SHOWN,
            refusal=refusal,
            filled=filled,
            windows=[(name, address(filled, since=name)) for name in SINCE],
            since=filled.get("since", DEFAULT_SINCE),
            units=[(name, address(filled, by=name)) for name in ("chunk", "source")],
            by=filled.get("by", "chunk"),
            now=self._source.now(),
            report=report,
            live=self._source.top(readable_one(*permitted), _SHOWN) if report else None,
            groups=groups_of(report) if report else [],
            words={kind: word for kind, (word, _, _) in TITLES.items()},
            queries=_queries_of,
            as_json=f"/v1{address(filled)}",
        )


def groups_of(report: DocumentReport) -> list[FindingGroup]:
    """Findings by their kind, the worst kind first."""
    groups = []
    for kind in KINDS:
        word, title, tone = TITLES[kind]
        findings = [one for one in report.findings if one.kind == kind]
        if findings:
            groups.append(FindingGroup(title, tone, word, findings))
    return groups


def address(filled: Mapping[str, str], **changed: str) -> str:
    """The page with other parameters."""
    asked = {**filled, **changed}
    return f"/documents?{urlencode(asked)}" if asked else "/documents"


def _queries_of(pipeline: str) -> str:
    """Queries of a pipeline that failed."""
    return f"/queries?pipeline={quote(pipeline, safe='')}&failing=disliked%2Cunfaithful"
