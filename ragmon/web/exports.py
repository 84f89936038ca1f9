"""Stored queries as a file, sent a part at a time."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ragmon.asgi import READ_BYTES, BodyLimits, Problem, ReadGate
from ragmon.web.endpoint import NDJSON
from ragmon.web.parameters import QuerySelection, selection_of
from ragmon.web.query_endpoints import FORMATS, MOST_EXPORTED

_USUAL_LIMIT = 10_000
_FILES = {
    "jsonl": ("queries.jsonl", NDJSON),
    "csv": ("queries.csv", "text/csv; charset=utf-8"),
    "golden": ("golden.jsonl", NDJSON),
}


class ExportSource(Protocol):
    """Source of exports."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def export(self, selection: QuerySelection, form: str) -> AsyncIterator[bytes]:
        """All queries that fit, as parts of a file."""
        ...


class _Export(StreamingResponse):
    """A file whose memory is given back once the client has it, or has left."""

    reserved: contextlib.ExitStack

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with self.reserved:
            await super().__call__(scope, receive, send)


class QueryExport:
    """Exports; each part takes its turn, so that a slow client keeps nobody waiting."""

    def __init__(self, source: ExportSource, limits: BodyLimits) -> None:
        self._source = source
        self._limits = limits
        self._gate = ReadGate(limits.reads)

    async def answer(self, request: Request) -> Response:
        """The file; its first part is made before anything is sent, so that a refusal is told."""
        form = request.query_params.get("format", FORMATS[0])
        if form not in FORMATS:
            detail = f"format: {form[:40]!r} is not one of {', '.join(FORMATS)}"
            raise Problem(400, detail, reason="bad_parameter")
        selection = selection_of(request, self._source.now(), _USUAL_LIMIT, MOST_EXPORTED)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._limits.memory.open()).take(READ_BYTES)
            parts = self._source.export(selection, form)
            try:
                first = await self._next(parts)
            except ValueError as error:
                raise Problem(400, str(error), reason="bad_parameter") from None
            name, media = _FILES[form]
            headers = {
                "content-disposition": f'attachment; filename="{name}"',
                "cache-control": "no-store",
                "x-content-type-options": "nosniff",
            }
            response = _Export(self._all(first, parts), headers=headers, media_type=media)
            response.reserved = stack.pop_all()
            return response

    async def _all(self, part: bytes | None, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while part is not None:
            yield part
            part = await self._next(parts)

    async def _next(self, parts: AsyncIterator[bytes]) -> bytes | None:
        async with self._gate.turn():
            return await anext(parts, None)
