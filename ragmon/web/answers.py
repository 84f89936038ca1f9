"""Answers that are sent in parts, or hold memory until they are."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from ragmon.memory import MemoryBudget

_LEAST_BYTES = 16 << 10  # of a part; less is not worth an account


class ReservedResponse(Response):
    """An answer whose memory is given back once the client has taken it."""

    def __init__(self, response: Response, reserved: contextlib.ExitStack) -> None:
        super().__init__(status_code=response.status_code)
        self._response = response
        self._reserved = reserved

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""

        async def send_to_the_end(message: Any) -> None:
            """Send, and at the end wait until the client has taken what was written."""
            if message["type"] != "http.response.body" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        with self._reserved:
            await self._response(scope, receive, send_to_the_end)


class PartedResponse(Response):
    """An answer in parts, so that a large one is shared by all clients that are slow to read it."""

    def __init__(self, parts: Sequence[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "content-length": str(sum(map(len, parts)))})
        self.parts = parts

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        """Send it."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class _Share(Struct):
    """A part that clients are to take."""

    reserved: contextlib.ExitStack
    clients: int = 0


class AnswerMemory:
    """Account of the parts of answers that clients have yet to take, on the event loop.

    A part that several clients take at a time, such as a page of ``/metrics``, is counted once.
    """

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._shares: dict[int, _Share] = {}  # by the id of a part, which lives until it is sent

    def reserved(self, response: Response) -> Response:
        """The answer, which gives its memory back once the client has taken it.

        Raises:
            MemoryLimitError: too much waits for clients.
        """
        whole = () if isinstance(response, StreamingResponse) else (bytes(response.body),)
        parts = response.parts if isinstance(response, PartedResponse) else whole
        large = [part for part in parts if len(part) >= _LEAST_BYTES]
        if not large:
            return response
        with contextlib.ExitStack() as stack:
            for part in large:
                self._take(part)
                stack.callback(self._leave, part)
            return ReservedResponse(response, stack.pop_all())

    def _take(self, part: bytes) -> None:
        if id(part) not in self._shares:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._memory.open()).take(len(part))
                self._shares[id(part)] = _Share(stack.pop_all())
        self._shares[id(part)].clients += 1

    def _leave(self, part: bytes) -> None:
        share = self._shares[id(part)]
        share.clients -= 1
        if not share.clients:
            del self._shares[id(part)]
            share.reserved.close()
