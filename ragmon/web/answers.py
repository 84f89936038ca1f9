"""Answers that are sent in parts, or hold memory until they are."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response


class ReservedResponse(Response):
    """An answer whose memory is given back once the client has taken it."""

    def __init__(self, response: Response, reserved: contextlib.ExitStack) -> None:
        super().__init__()
        self._response = response
        self._reserved = reserved

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        with self._reserved:
            await self._response(scope, receive, send)


class PartedResponse(Response):
    """An answer in parts, so that a large one is shared by all clients that are slow to read it."""

    def __init__(self, parts: Sequence[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "content-length": str(sum(map(len, parts)))})
        self._parts = parts

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        """Send it."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
