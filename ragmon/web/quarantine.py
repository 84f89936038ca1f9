"""Quarantine over HTTP: list, show, retry, delete."""

from collections.abc import Sequence
from typing import Protocol, get_args

from starlette.requests import Request
from starlette.responses import Response

from ragmon.asgi import Problem
from ragmon.quarantine_schema import DeletedEntry, QuarantineDetail, QuarantineList, RetriedEntry
from ragmon.web import quarantine_endpoints
from ragmon.web.api import Page, json_answer
from ragmon.web.parameters import limit_of


class QuarantineSource(Protocol):
    """Source of quarantined entries; KeyError stands for an id that does not exist."""

    async def entries(self, stage: str, limit: int) -> QuarantineList:
        """The newest entries of a stage, or of all."""
        ...

    async def entry(self, name: str) -> QuarantineDetail:
        """One entry with its content."""
        ...

    async def retry(self, name: str) -> RetriedEntry:
        """Try again what failed."""
        ...

    async def delete(self, name: str) -> None:
        """Delete one entry."""
        ...


class QuarantineSection:
    """Endpoints of the quarantine."""

    def __init__(self, source: QuarantineSource) -> None:
        self._source = source

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (
            Page(quarantine_endpoints.QUARANTINE, self.listed),
            Page(quarantine_endpoints.QUARANTINE_ENTRY, self.shown),
            Page(quarantine_endpoints.RETRY_ENTRY, self.retried),
            Page(quarantine_endpoints.DELETE_ENTRY, self.deleted),
        )

    async def listed(self, request: Request) -> Response:
        """The newest entries."""
        stage = request.query_params.get("stage", "")
        stages = get_args(quarantine_endpoints.QuarantineStage)
        if stage not in stages:
            detail = f"stage: {stage[:40]!r} is not one of {', '.join(filter(None, stages))}"
            raise Problem(400, detail, reason="bad_parameter")
        limit = limit_of(request.query_params.get("limit", "50"))
        return json_answer(await self._source.entries(stage, limit))

    async def shown(self, request: Request) -> Response:
        """One entry."""
        name = request.path_params["number"]
        try:
            return json_answer(await self._source.entry(name))
        except KeyError:
            raise _missing(name) from None

    async def retried(self, request: Request) -> Response:
        """Try again."""
        name = request.path_params["number"]
        try:
            retried = await self._source.retry(name)
        except KeyError:
            raise _missing(name) from None
        return json_answer(retried, 202 if retried.under_way else 200)

    async def deleted(self, request: Request) -> Response:
        """Delete one entry."""
        name = request.path_params["number"]
        try:
            await self._source.delete(name)
        except KeyError:
            raise _missing(name) from None
        return json_answer(DeletedEntry(deleted=name))


def _missing(name: str) -> Problem:
    return Problem(404, f"there is no entry {name[:40]!r} in quarantine", reason="not_found")
