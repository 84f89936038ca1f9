"""ASGI middleware for FastAPI, Starlette, Litestar, Quart and their like.

    from ragmon.client.asgi import QueryMiddleware
    from ragmon.client.context import current_query

    app.add_middleware(QueryMiddleware, monitor=monitor)

    @app.post("/ask")
    async def ask(question: str) -> str:
        query = current_query()
        query.asked(question)
        with query.retrieval():
            documents = await search(question)
        query.retrieved(documents)
        …
        query.answered(answer)
        return answer

A request that records nothing is not logged. When the server ends, what is left is delivered.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from ragmon.client.arguments import QueryFields
from ragmon.client.clock import ClientClock, ProcessClock
from ragmon.client.context import as_current
from ragmon.client.monitor import Monitor
from ragmon.client.timing import TimedQuery

if TYPE_CHECKING:
    from typing_extensions import Unpack

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}\Z")


class QueryMiddleware:
    """Logs the query of each request, and delivers what is left when the server ends.

    The latency is that of the request, to its last byte; an exception that leaves the application
    and a status from 500 are the query's error; ``traceparent`` gives the trace.

    Args:
        app: the application.
        monitor: logs the queries.
        clock: for tests.
        **fields: of every query, such as ``pipeline``; see ``QueryFields``.
    """

    def __init__(
        self,
        app: Application,
        monitor: Monitor,
        clock: ClientClock | None = None,
        **fields: Unpack[QueryFields],
    ) -> None:
        self._app = app
        self._monitor = monitor
        self._clock = clock or ProcessClock()
        self._fields = fields

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection, or the start and the end of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] in ("http", "websocket"):
            await self._request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Message, receive: Receive, send: Send) -> None:
        fields = {"trace_id": _trace_id(scope), **self._fields}
        query = TimedQuery(
            self._monitor.log_query, self._monitor.new_query_id(), self._clock, fields
        )

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 500:
                query.failed(f"HTTP {message['status']}")
            await send(message)

        query.begin()
        try:
            with as_current(query):
                await self._app(scope, receive, sending)
        except BaseException as error:
            query.failed(error)
            raise
        finally:
            if query.recorded:
                query.finish()

    async def _lifespan(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass the start and the end on, with delivery in between.

        An application that knows no lifespan raises before it has received anything; the server
        then has ours.
        """
        received = False

        async def receiving() -> Message:
            nonlocal received
            received = True
            return await receive()

        async def sending(message: Message) -> None:
            if message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
                self._monitor.flush()  # No request is under way any more that it could hold up.
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        except Exception:
            if received:
                raise
        if not received:
            await _own_lifespan(receive, sending)


async def _own_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _trace_id(scope: Message) -> str | None:
    """The trace of the caller, as W3C Trace Context has it."""
    for name, value in scope.get("headers", ()):
        if name == b"traceparent":
            match = _TRACEPARENT.match(value)
            return match[1].decode() if match else None
    return None
