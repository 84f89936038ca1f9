"""Requests to a standby, answered by the active ragmon: streamed both ways, nothing is kept."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ragmon.asgi import Problem, Receive, Scope, Send, check_framing, header, unavailable
from ragmon.daemon.upstream import AnswerHead, Headers, Upstream, UpstreamConnection, UpstreamError

FORWARDED = b"ragmon-forwarded"
"""Header of a request that a standby sends on; another standby does not send it on again."""

_ANSWER_S = 75.0  # from the end of a request to its answer, and between two parts of it
_READY_S = 2.0
_SERVER_ERROR = 500
# Between two neighbours alone (RFC 9110, 7.6.1), and what our own server adds to each answer.
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
    | {b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"expect"}
)
_OURS = frozenset({b"date"})

_Result = TypeVar("_Result")


class ClientLeftError(Exception):
    """The client ended before its request did."""


class Forwarder:
    """Sends requests on to the active ragmon, and its answers back."""

    def __init__(
        self, open_: Callable[[str], Upstream], *, sender: str, read_timeout_s: float
    ) -> None:
        """Make it.

        Args:
            open_: the connections to a URL.
            sender: name of this process, for the header ``FORWARDED``.
            read_timeout_s: time for a whole body, as the active one has it.
        """
        self._open = open_
        self._sender = sender.encode("latin-1", "replace")
        self._read_timeout_s = read_timeout_s
        self._upstream: Upstream | None = None

    def close(self) -> None:
        """Close idle connections."""
        if self._upstream is not None:
            self._upstream.close()

    async def is_ready(self, url: str) -> bool:
        """True when the active ragmon answers, and takes requests."""
        host = url.partition("://")[2].encode("idna")
        named = [(b"host", host), (FORWARDED, self._sender)]
        upstream = self._to(url)
        try:
            async with asyncio.timeout(_READY_S):
                connection = await upstream.connect()
                try:
                    connection.begin("GET", b"/readyz", named)
                    answer = await connection.head()
                    async for _ in connection.pieces():
                        pass  # so that the connection can be used again
                finally:
                    upstream.give_back(connection)
        except (UpstreamError, TimeoutError):
            return False
        return answer.status < _SERVER_ERROR  # it may ask for a token, and this has none

    async def forward(self, url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Have one request answered.

        Args:
            url: of the active ragmon.
            scope: of the request.
            receive: its body.
            send: takes the answer.

        Raises:
            Problem: 400 for broken framing; 503, to be tried again, when no answer came.
            UpstreamError: the answer broke off in its middle.
        """
        check_framing(scope)
        if header(scope, FORWARDED):
            raise unavailable("another standby sent this here, and this one is none", "standby")
        upstream = self._to(url)
        try:
            connection = await upstream.connect()
        except UpstreamError as error:
            raise _no_answer(url, error) from None
        try:
            await self._exchange(url, connection, (scope, receive, send))
        except ClientLeftError:
            pass
        finally:
            upstream.give_back(connection)

    async def _exchange(
        self, url: str, connection: UpstreamConnection, request: tuple[Scope, Receive, Send]
    ) -> None:
        scope, receive, send = request
        is_chunked = bool(header(scope, b"transfer-encoding"))
        target: bytes = scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        connection.begin(scope["method"], target, self._request_headers(scope, is_chunked))
        has_body = is_chunked or header(scope, b"content-length") not in ("", "0")
        try:
            answer = await self._answer(connection, receive, has_body, is_chunked)
        except (UpstreamError, TimeoutError) as error:
            raise _no_answer(url, error) from None
        await _send_back(connection, answer, receive, send)

    async def _answer(
        self, connection: UpstreamConnection, receive: Receive, has_body: bool, is_chunked: bool
    ) -> AnswerHead:
        """Send the body and read the head of the answer, which may come before the body's end."""
        if not has_body:
            return await _within(_ANSWER_S, connection.head())
        sending = asyncio.ensure_future(_send_body(connection, receive, is_chunked))
        reading = asyncio.ensure_future(connection.head())
        try:
            async with asyncio.timeout(self._read_timeout_s + _ANSWER_S):
                await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done() and isinstance(sending.exception(), ClientLeftError):
                    raise ClientLeftError
            return await _within(_ANSWER_S, reading)
        finally:
            if not sending.done() or sending.cancelled() or sending.exception():
                connection.abandon()
            for task in (sending, reading):
                task.cancel()
            await asyncio.gather(sending, reading, return_exceptions=True)

    def _request_headers(self, scope: Scope, is_chunked: bool) -> Headers:
        headers = [*_end_to_end(scope["headers"]), (FORWARDED, self._sender)]
        if not is_chunked:
            return headers
        without = [pair for pair in headers if pair[0] != b"content-length"]
        return [*without, (b"transfer-encoding", b"chunked")]

    def _to(self, url: str) -> Upstream:
        if self._upstream is None or self._upstream.url != url:
            self.close()
            self._upstream = self._open(url)
        return self._upstream


async def _send_body(connection: UpstreamConnection, receive: Receive, is_chunked: bool) -> None:
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        piece: bytes = message.get("body", b"")
        has_more = message.get("more_body", False)
        if is_chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            piece += b"" if has_more else b"0\r\n\r\n"
        if piece:
            await connection.send(piece)


async def _send_back(
    connection: UpstreamConnection, answer: AnswerHead, receive: Receive, send: Send
) -> None:
    headers = [pair for pair in _end_to_end(answer.headers) if pair[0] not in _OURS]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    leaving = asyncio.ensure_future(_until_left(receive))
    try:
        pieces = aiter(connection.pieces())
        while (piece := await _within(_ANSWER_S, anext(pieces, None))) is not None:
            if leaving.done():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _within(seconds: float, awaitable: Awaitable[_Result]) -> _Result:
    async with asyncio.timeout(seconds):
        return await awaitable


def _end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers for the one at the other end: without those between two neighbours."""
    named = b",".join(value for name, value in headers if name == b"connection")
    dropped = _HOP_BY_HOP | {word.strip().lower() for word in named.split(b",")}
    return [(name, value) for name, value in headers if name not in dropped]


def _no_answer(url: str, error: Exception) -> Problem:
    why = str(error) or "it took too long"
    return unavailable(f"standby: the active ragmon at {url} did not answer ({why})", "standby")
