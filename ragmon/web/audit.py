"""The audit log over HTTP."""

import asyncio
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from ragmon.token_schema import AuditEntry, AuditList
from ragmon.web import endpoints
from ragmon.web.api import Page, json_answer
from ragmon.web.parameters import limit_of, moment_of


class AuditSection:
    """Endpoint of the audit log."""

    def __init__(
        self, entries: Callable[[float, int], list[AuditEntry]], now: Callable[[], float]
    ) -> None:
        self._entries = entries  # reads files
        self._now = now

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (Page(endpoints.AUDIT, self.listed),)

    async def listed(self, request: Request) -> Response:
        """The newest entries."""
        asked = request.query_params
        since = moment_of("since", asked.get("since", ""), self._now())
        limit = limit_of(asked.get("limit", "50"))
        return json_answer(AuditList(entries=await asyncio.to_thread(self._entries, since, limit)))
