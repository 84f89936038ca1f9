"""HTTP/1.1 as uvicorn speaks it, with an end to everything: in bytes, in time and in number.

uvicorn itself would take headers without end, and wait for ever for those that do not come. What is
left of a body after its answer it drops, also without end; that is how a client that looks for an
answer only when it has sent everything gets to read a 413, so here this ends, and late. An answer
that nobody reads it would keep for as long as the connection is open, and it would take
connections without end.
"""

import asyncio
import re
from collections.abc import Callable

import msgspec
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from ragmon.asgi import (
    BodyLimits,
    Problem,
    Receive,
    Scope,
    Send,
    headers_too_large,
    is_probe,
    send_problem,
    too_many_connections,
)

SPARE = 32
"""Connections beyond the limit, for one probe each."""

SPARE_S = 2.0
"""Time for the headers on one of them; for a handshake before these as much again."""

_LINGER_BYTES = 4 << 20
_LINGER_S = 2.0
_FAREWELL_S, _ANSWER_S = 0.2, 2.5  # of TLS connections when the server ends
_REST_BYTES = 128 << 20  # of a body after its answer
_MOST_PIPELINED = 32  # requests that wait for the answer to an earlier one, on one connection
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
_JOINED_BYTES = 1 << 16  # of a body that is copied behind its head
_CONTINUE = b"HTTP/1.1 100"
_MOST_HEADERS = 100  # of a request: each takes twenty times what it is on the wire


class _RefusedError(Exception):
    """Stops the parser; the request was refused."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    limits: BodyLimits
    refused: Callable[[str], None]

    _in_headers = True
    _header_bytes = 0
    _part_bytes = 0  # of what is being parsed
    _refused = False
    _timeout: asyncio.TimerHandle | None = None
    _in_body = False
    _rest: asyncio.TimerHandle | None = None  # while what is left of a body is dropped
    _rest_bytes = 0
    _close_after_rest = False
    _is_spare = False
    _running: RequestResponseCycle | None = None  # the request that is being answered
    _unread: asyncio.TimerHandle | None = None  # while the client has to take what was written

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; headers are due."""
        super().connection_made(transport)
        too_many = len(self.connections) - self.limits.connections
        if too_many > SPARE:
            problem = too_many_connections(self.limits.connections)
            self.refused(problem.reason)
            self._refused = True
            transport.write(_answer(problem))
            transport.close()
            return
        if too_many > 0:
            self._is_spare = True
            self._whole_app, self.app = self.app, self._answer_probe
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_timeout()
        self._end_rest()
        self._stop_unread()
        if self._running is not None:
            self._running.disconnected = True  # the server itself tells the newest request alone
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client is behind; it has some time to catch up."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.write_timeout_s, self._give_up_client)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._stop_unread()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; what was refused for another reason has its answer."""
        if self._refused:
            return
        self.refused("malformed")
        super().send_400_response(msg)

    def shutdown(self) -> None:
        """End soon, as the server ends: TLS would wait half a minute for the client's farewell."""
        super().shutdown()
        if self.transport.get_extra_info("sslcontext") is not None:
            is_idle = self.cycle is None or self.cycle.response_complete
            self.loop.call_later(_FAREWELL_S if is_idle else _ANSWER_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and refuse what goes on too long."""
        if self._refused:
            self._ignore(data)
            return
        self._part_bytes = len(data)
        super().data_received(self._without_upgrade(data))
        if self._refused:
            return
        if self._rest is not None:
            self._rest_bytes += len(data)
            if self._rest_bytes > _REST_BYTES:
                self.transport.close()
        if self._in_headers:
            self._header_bytes += len(data)
            self._start_timeout()
            if self._header_bytes > self.limits.headers:
                self._refuse(headers_too_large(self._header_bytes, self.limits))
            elif self.headers is not None and len(self.headers) > _MOST_HEADERS:
                self._refuse(_too_many_headers(len(self.headers)))

    def _without_upgrade(self, data: bytes) -> bytes:
        """The same without Upgrade, which the parser would leave the body unread for.

        Java's client asks for HTTP/2 by it unless it is told not to; a server may ignore that.
        """
        is_next = not self._in_body and not (self._in_headers and self._header_bytes)
        head = data.find(b"\r\n\r\n") if is_next else -1
        if head < 0 or _UPGRADE.search(data, 0, head) is None:
            return data
        return _UPGRADE.sub(b"", data[:head]) + data[head:]

    def on_message_begin(self) -> None:
        """A request begins; too many that wait for earlier ones are not even read."""
        if len(self.pipeline) >= _MOST_PIPELINED:
            self._refuse(_too_many_pipelined())
            raise _RefusedError
        super().on_message_begin()
        self._in_headers = True
        self._header_bytes = 0

    def on_headers_complete(self) -> None:
        """Its headers are there."""
        problem = self._problem_of_headers()
        if problem is not None:
            self._refuse(problem)
            raise _RefusedError
        self._in_headers = False
        self._in_body = True
        self._stop_timeout()
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle
        if self._is_spare:
            self.cycle.keep_alive = False
        close = self.transport.close if self.cycle.keep_alive else self._close_when_read
        self.cycle.transport = _AnswerTransport(self.transport, close)  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        self._in_body = False
        self._end_rest()
        super().on_message_complete()
        if self._close_after_rest:
            self.transport.close()

    def on_response_complete(self) -> None:
        """A request is answered, and maybe not there as a whole."""
        if self._running is not None and isinstance(self._running.transport, _AnswerTransport):
            self._running.transport.flush()
        self._running = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete and not self.transport.is_closing():
            self._rest_bytes = 0
            self._rest = self.loop.call_later(self.limits.read_timeout_s, self.transport.close)

    def _problem_of_headers(self) -> Problem | None:
        """A reason to refuse headers that came as a whole, with what came before them."""
        if len(self.headers) > _MOST_HEADERS:
            return _too_many_headers(len(self.headers))
        if self.parser.should_upgrade():
            return _upgrade()
        if self._header_bytes + self._part_bytes > self.limits.headers:
            size = len(self.url) + sum(len(name) + len(text) + 4 for name, text in self.headers)
            if size > self.limits.headers:
                return headers_too_large(size, self.limits)
        return None

    def _close_when_read(self) -> None:
        if self._in_body:
            self._close_after_rest = True
        else:
            self.transport.close()

    def _end_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    async def _answer_probe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer on a connection too many, which is for probes alone."""
        if is_probe(scope):
            await self._whole_app(scope, receive, send)
            return
        problem = too_many_connections(self.limits.connections)
        self.refused(problem.reason)
        await send_problem(send, problem)

    def _give_up_client(self) -> None:
        """Close a connection whose client does not read, and free what waits for it."""
        self._unread = None
        self.refused("write_timeout")
        self.transport.abort()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _start_timeout(self) -> None:
        if self._timeout is None:
            seconds = self.limits.read_timeout_s
            seconds = min(seconds, SPARE_S) if self._is_spare else seconds
            self._timeout = self.loop.call_later(seconds, self._give_up)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _give_up(self) -> None:
        if self._header_bytes:
            detail = f"the headers did not arrive within {self.limits.read_timeout_s:g} s"
            self._refuse(Problem(408, detail, reason="read_timeout"))
        elif not self.transport.is_closing():
            self.transport.close()  # it was opened for nothing

    def _refuse(self, problem: Problem) -> None:
        """Answer, and listen a little longer: who is still sending would not see the answer."""
        if self.transport.is_closing():
            return
        self._refused = True
        self._header_bytes = 0
        self.refused(problem.reason)
        self._stop_timeout()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False  # earlier requests are answered first, then it is closed
            return
        self.transport.write(_answer(problem))
        if self.transport.can_write_eof():  # TLS has no half of a connection
            self.transport.write_eof()
        self._timeout = self.loop.call_later(_LINGER_S, self.transport.close)

    def _ignore(self, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > _LINGER_BYTES:
            self.transport.close()


class _AnswerTransport:
    """As much of a transport as an answer needs: its head is written with the start of its body.

    Two writes are two calls of the system, which take longer than all that this costs.
    """

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        """Make it.

        Args:
            transport: of the connection.
            close: called when the server closes. To close while a client still sends resets the
                connection, and takes the answer away with it.
        """
        self.is_closing = transport.is_closing
        self._write = transport.write
        self._close = close
        self._head: bytes | None = None  # None: the answer has not begun

    def write(self, data: bytes | memoryview) -> None:
        """Write, or keep what is the head of the answer."""
        if self._head is None and data[:12] != _CONTINUE:
            self._head = bytes(data)
        elif self._head and len(data) <= _JOINED_BYTES:
            self._write(b"".join((self._head, data)))
            self._head = b""
        else:
            self.flush()
            self._write(data)

    def flush(self) -> None:
        """Write what is kept."""
        if self._head:
            self._write(self._head)
            self._head = b""

    def close(self) -> None:
        """End, behind what was written."""
        self.flush()
        self._close()


def bounded_protocol(limits: BodyLimits, refused: Callable[[str], None]) -> type[BoundedProtocol]:
    """The protocol class for ``uvicorn.Config(http=…)``.

    Args:
        limits: of headers, and of the time until they are there.
        refused: called with the reason of every refusal.
    """
    settled = {"limits": limits, "refused": staticmethod(refused)}
    return type("SettledProtocol", (BoundedProtocol,), settled)


def _too_many_headers(count: int) -> Problem:
    detail = (
        f"the request has {count} headers or more; the most is {_MOST_HEADERS}, of limits.headers "
        "bytes in all"
    )
    return Problem(431, detail, reason="headers_too_large")


def _upgrade() -> Problem:
    detail = (
        "Upgrade is not supported in headers that come in parts, or behind another request; send "
        "the request without (Java: HttpClient.Version.HTTP_1_1)"
    )
    return Problem(400, detail, reason="upgrade", headers={"connection": "close"})


def _too_many_pipelined() -> Problem:
    detail = (
        f"{_MOST_PIPELINED} requests on this connection wait for their answers; wait for those, or "
        "use several connections"
    )
    return Problem(429, detail, reason="pipelined")


def _answer(problem: Problem) -> bytes:
    body = msgspec.json.encode(problem.body())
    head = (
        b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    )
    return STATUS_LINE[problem.status] + head % len(body) + body
