"""Page about ragmon itself: sources, queue, store, refusals, quarantine, sinks, loops."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.web.api import Page
from ragmon.web.page_endpoints import DELETE_ENTRY_FORM, RETRY_ENTRY_FORM, SERVICE
from ragmon.web.pages.login import go
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.service_source import ServiceSource

_MOST_ENTRIES = 50
_SECTION = "#quarantine"


class ServiceSection:
    """Endpoints of the page and its forms."""

    def __init__(self, source: ServiceSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(SERVICE, self.service),
            Page(RETRY_ENTRY_FORM, self.retry),
            Page(DELETE_ENTRY_FORM, self.delete),
        )

    async def service(self, request: Request) -> Response:
        """The page."""
        quarantine = await self._source.entries(_MOST_ENTRIES)
        waiting, oldest_at = await self._source.undelivered()
        tried = request.query_params.get("retried", "")
        return self._renderer.page(
            "service.html",
            facts=await self._source.facts(),
            quarantine=quarantine,
            in_all=sum(quarantine.counts.values()),
            waiting=waiting,
            oldest_at=oldest_at,
            tried=tried,
            failed=next((entry for entry in quarantine.entries if entry.id == tried), None),
            now=self._source.now(),
        )

    async def retry(self, request: Request) -> Response:
        """Try an entry of the quarantine again."""
        name = request.path_params["number"]
        try:
            await self._source.retry(name)
        except KeyError:
            raise _missing(name) from None
        return go(f"{SERVICE.path}?retried={name}{_SECTION}")

    async def delete(self, request: Request) -> Response:
        """Delete an entry of the quarantine."""
        name = request.path_params["number"]
        try:
            await self._source.delete(name)
        except KeyError:
            raise _missing(name) from None
        return go(f"{SERVICE.path}{_SECTION}")


def _missing(name: str) -> Problem:
    return Problem(404, f"there is no entry {name[:40]!r} in quarantine", reason="not_found")
