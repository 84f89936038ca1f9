"""Search: pipelines, incidents and queries that a text names."""

from collections.abc import Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import QueryDetail
from ragmon.web.alerts import AlertSource
from ragmon.web.api import Page
from ragmon.web.page_endpoints import SEARCH
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.sources import PageSource
from ragmon.web.permits import permit_of

_MOST = 20
_LONGEST_ID = 512  # characters
_DAYS_7, _INCIDENTS = 7 * 86_400.0, 200


class QuerySource(Protocol):
    """Source of single queries."""

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query; None when it is unknown or expired."""
        ...


class SearchSection:
    """Endpoint of the search box."""

    def __init__(
        self, source: PageSource, alerts: AlertSource, queries: QuerySource, renderer: Renderer
    ) -> None:
        self._source = source
        self._alerts = alerts
        self._queries = queries
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(SEARCH, self.search),)

    async def search(self, request: Request) -> Response:
        """Everything that the text names."""
        text = request.query_params.get("text", "").strip()[:_LONGEST_ID]
        readable = permit_of(request).pipelines
        lower = text.lower()
        pipelines = [
            name for name in await self._source.pipelines(readable) if lower in name.lower()
        ]
        incidents = await self._alerts.incidents(
            "all", "", self._source.now() - _DAYS_7, _INCIDENTS, readable
        )
        query = await self._queries.query(text) if text else None
        if query is not None and readable is not None and not readable(query.record.pipeline):
            query = None
        return self._renderer.page(
            "search.html",
            asked=text,
            pipelines=pipelines[:_MOST],
            incidents=[one for one in incidents if lower in f"{one.id} {one.headline}".lower()][
                :_MOST
            ],
            query=query,
        )
