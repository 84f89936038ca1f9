"""Connections to another ragmon over HTTP/1.1: a request at a time each, and kept for the next."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

Headers = Sequence[tuple[bytes, bytes]]

CONNECT_S = 2.0
"""Time for a connection, its TLS included."""

_IDLE_S = 30.0  # that a connection is kept: less than the other side does
_MOST_IDLE = 32
_PIECE = 1 << 16
_MOST_HEAD = 1 << 16  # bytes of an answer's headers
_LEAST_FINAL = 200


class UpstreamError(Exception):
    """The other ragmon cannot be reached, or broke off."""


class AnswerHead(Struct, frozen=True):
    """Status and headers of an answer."""

    status: int
    headers: Headers


class _Answer:
    """Callbacks of the parser, for one answer."""

    def __init__(self, *, has_body: bool) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: list[tuple[bytes, bytes]] = []
        self.head: AnswerHead | None = None
        self.pieces: deque[bytes] = deque()
        self.is_complete = False
        self._has_body = has_body

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= _LEAST_FINAL:
            self.head = AnswerHead(status, self.headers)
            self.is_complete = not self._has_body
        self.headers = []

    def on_body(self, piece: bytes) -> None:
        if self._has_body:
            self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.is_complete = self.head is not None


class UpstreamConnection:
    """One connection to the other side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = _Answer(has_body=True)
        self._method_has_body = True
        self._is_abandoned = False
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """True until one of both sides closes it."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    @property
    def is_reusable(self) -> bool:
        """True when the answer was read as a whole, and the other side keeps the connection."""
        answer = self._answer
        keeps = self._method_has_body and answer.is_complete and answer.parser.should_keep_alive()
        return keeps and self.is_usable and not self._is_abandoned

    def begin(self, method: str, target: bytes, headers: Headers) -> None:
        """Send the head of a request.

        Args:
            method: of HTTP.
            target: path and query, as they stand on the wire.
            headers: as they stand on the wire, with Host and what frames the body.
        """
        # The parser cannot know that an answer to HEAD has no body, so that connection ends.
        self._method_has_body = method != "HEAD"
        self._answer = _Answer(has_body=self._method_has_body)
        lines = [name + b": " + value for name, value in headers]
        start = method.encode("ascii") + b" " + target + b" HTTP/1.1"
        self._writer.write(b"\r\n".join([start, *lines, b"", b""]))

    async def send(self, piece: bytes) -> None:
        """Send a part of the body, once the other side has room.

        Raises:
            UpstreamError: it has closed the connection.
        """
        try:
            self._writer.write(piece)
            await self._writer.drain()
        except OSError as error:
            raise UpstreamError(f"it closed the connection: {error}") from error

    async def head(self) -> AnswerHead:
        """Status and headers of the answer.

        Raises:
            UpstreamError: there is none.
        """
        size = 0
        while self._answer.head is None:
            size += await self._read()
            if size > _MOST_HEAD and self._answer.head is None:
                raise UpstreamError("its headers do not end")
        return self._answer.head

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the answer, as it comes.

        Raises:
            UpstreamError: it breaks off.
        """
        answer = self._answer
        while True:
            while answer.pieces:
                yield answer.pieces.popleft()
            if answer.is_complete:
                return
            await self._read()

    def abandon(self) -> None:
        """Use it for no other request, since this one was not sent as a whole."""
        self._is_abandoned = True

    def close(self) -> None:
        """End, without waiting."""
        self._writer.transport.abort()

    async def _read(self) -> int:
        try:
            data = await self._reader.read(_PIECE)
            if not data:
                raise UpstreamError("it closed the connection")
            self._answer.parser.feed_data(data)
        except (OSError, httptools.HttpParserError) as error:
            raise UpstreamError(f"its answer broke off: {error}") from error
        return len(data)


class Upstream:
    """One other ragmon, and idle connections to it; for one event loop."""

    def __init__(
        self,
        url: str,
        monotonic: Callable[[], float],
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: where it answers, without a path.
            monotonic: seconds.
            tls: how the certificate behind an https URL is checked; asked when it is needed.
        """
        self.url = url
        self._place = urlsplit(url)
        self._monotonic = monotonic
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._idle: list[UpstreamConnection] = []

    async def connect(self) -> UpstreamConnection:
        """An idle connection, or a new one.

        Raises:
            UpstreamError: it cannot be reached.
        """
        oldest = self._monotonic() - _IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since >= oldest and connection.is_usable:
                return connection
            connection.close()
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    self._place.hostname, self._port(), ssl=self._checked(), limit=_PIECE
                )
        except (OSError, ValueError) as error:
            raise UpstreamError(f"no connection: {error or type(error).__name__}") from error
        return UpstreamConnection(reader, writer)

    def give_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next request, if it can be, or close it."""
        if connection.is_reusable and len(self._idle) < _MOST_IDLE:
            connection.idle_since = self._monotonic()
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().close()

    def _port(self) -> int:
        return self._place.port or (443 if self._place.scheme == "https" else 80)

    def _checked(self) -> ssl.SSLContext | None:
        if self._place.scheme != "https":
            return None
        if self._context is None:
            self._context = self._tls()
        return self._context
