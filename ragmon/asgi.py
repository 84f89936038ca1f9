"""HTTP basics of every endpoint: problems, JSON answers, bodies within limits."""

import asyncio
import contextlib
import zlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    MutableMapping,
)
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import msgspec
import zstandard
from msgspec import Struct

from ragmon.errors import MemoryLimitError
from ragmon.memory import MemoryBudget, MemoryReservation
from ragmon.timeouts import within

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PIECE = 1 << 20
"""Bytes of an answer that are written at once; the next follow when the client has taken them."""

READ_BYTES = 16 << 20
"""Memory that a read of stored queries or windows is expected to need, beside its answer."""

_RETRY_AFTER_S = 2
_MOST_DIGITS = 18  # of a Content-Length
_PROBES = ("/livez", "/readyz", "/metrics")
_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Nothing usable",
    429: "Too many requests",
    431: "Request header fields too large",
    500: "Internal error",
    503: "Unavailable",
}


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """Any answer that is no success, as RFC 9457 has it."""

    title: str
    status: int
    detail: str  # what went wrong and, where something can be done, what to do


class Problem(Exception):  # noqa: N818 - named as RFC 9457 names it
    """An answer that is no success (RFC 9457); ``reason`` is its label in the metrics."""

    def __init__(
        self, status: int, detail: str, *, reason: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.headers = headers or {}

    def body(self) -> ProblemDetails:
        """The body of the answer."""
        return ProblemDetails(title=_TITLES[self.status], status=self.status, detail=str(self))


class BodyLimits(Struct, frozen=True, kw_only=True):
    """Limits of requests: bytes, seconds, and how many at a time."""

    body: int
    decompressed: int
    headers: int
    read_timeout_s: float
    memory: MemoryBudget  # that all requests and reads share
    write_timeout_s: float  # for each ``PIECE`` of an answer
    connections: int
    reads: int  # of stored queries at a time, and as many reports


def over_memory(error: MemoryLimitError) -> Problem:
    """503 while others hold the memory, 413 for what could never fit."""
    if error.retry_after_s is None:
        return Problem(413, str(error), reason="too_large")
    waiting = {"retry-after": str(error.retry_after_s)}
    return Problem(503, str(error), reason="memory", headers=waiting)


def unavailable(detail: str, reason: str) -> Problem:
    """503, to be tried again soon."""
    return Problem(503, detail, reason=reason, headers={"retry-after": str(_RETRY_AFTER_S)})


def header(scope: Scope, name: bytes) -> str:
    """A request header, or nothing."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return ""


def check_framing(scope: Scope) -> None:
    """Refuse what RFC 9112 refuses and the parser lets through.

    Raises:
        Problem: 400, without exactly one Host or with a Content-Length that is no number.
    """
    hosts = 0
    for key, value in scope["headers"]:
        if key == b"host":
            hosts += 1
        elif key == b"content-length" and not (value.isdigit() and len(value) <= _MOST_DIGITS):
            detail = "Content-Length is not a number of at most 18 digits"
            raise _malformed(detail)
    if hosts > 1 or (hosts == 0 and scope.get("http_version") == "1.1"):
        raise _malformed(f"a request has exactly one Host header, this one has {hosts}")


def _malformed(detail: str) -> Problem:
    return Problem(400, detail, reason="malformed", headers={"connection": "close"})


def too_many_connections(limit: int) -> Problem:
    """503, of a connection beyond the limit."""
    detail = f"{limit} connections are open, as many as limits.connections allows; try again later"
    headers = {"retry-after": str(_RETRY_AFTER_S), "connection": "close"}
    return Problem(503, detail, reason="connections", headers=headers)


def is_probe(scope: Scope) -> bool:
    """True for what tells whether ragmon is well; it is answered on a connection too many."""
    return scope["path"] in _PROBES


def check_headers(scope: Scope, limits: BodyLimits) -> None:
    """Refuse what the server let through.

    Raises:
        Problem: 431.
    """
    size = sum(len(key) + len(value) + 4 for key, value in scope["headers"])
    size += len(scope["path"]) + len(scope["query_string"])
    if size > limits.headers:
        raise headers_too_large(size, limits)


def headers_too_large(size: int, limits: BodyLimits) -> Problem:
    """431, of headers that have at least ``size`` bytes."""
    detail = f"the headers have {size} bytes or more; limits.headers allows {limits.headers}"
    return Problem(431, detail, reason="headers_too_large", headers={"connection": "close"})


class ReadGate:
    """Limit of how many reads are answered at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def turn(self, wait_s: float = 5.0) -> AsyncIterator[None]:
        """Wait for a turn, and hold it inside the block.

        Raises:
            Problem: 503, if none comes soon.
        """
        try:
            await within(wait_s, self._free.acquire())
        except TimeoutError:
            detail = (
                f"{self._limit} reads are in progress, as many as limits.reads allows; "
                "ask again later"
            )
            raise unavailable(detail, "reads") from None
        try:
            yield
        finally:
            self._free.release()


async def read_body(
    scope: Scope, receive: Receive, limits: BodyLimits, memory: MemoryReservation
) -> bytes:
    """The whole body, decompressed; its bytes are reserved.

    Raises:
        Problem: 400 for a broken compression or a client that left, 408, 413, 415.
        MemoryLimitError: too much is in progress.
    """
    try:
        raw = await within(limits.read_timeout_s, _read(scope, receive, limits, memory))
    except TimeoutError:
        detail = f"the body did not arrive within {limits.read_timeout_s:g} s"
        closing = {"connection": "close"}
        raise Problem(408, detail, reason="read_timeout", headers=closing) from None
    encoding = header(scope, b"content-encoding").strip().lower()
    if encoding in ("", "identity"):
        return raw
    return await _decompress(raw, encoding, _Unpacked(limits.decompressed, memory))


async def _read(
    scope: Scope, receive: Receive, limits: BodyLimits, memory: MemoryReservation
) -> bytes:
    announced = header(scope, b"content-length")
    if announced.isdecimal() and int(announced) > limits.body:
        raise _too_large(limits.body, "limits.body")
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the client left before the end of the body", reason="disconnected")
        part = message.get("body", b"")
        size += len(part)
        if size > limits.body:
            raise _too_large(limits.body, "limits.body")
        memory.take(len(part))
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _Unpacked:
    """The part of a body that is decompressed, within the limits.

    ``BytesIO`` hands out what it collected without a copy: a list of parts would take as much again
    when it is joined.
    """

    def __init__(self, limit: int, memory: MemoryReservation) -> None:
        self._limit = limit
        self._memory = memory
        self._buffer = BytesIO()

    @property
    def room(self) -> int:
        """Bytes that may still come."""
        return self._limit - self._buffer.tell()

    def check(self, size: int) -> None:
        """Refuse bytes to come.

        Raises:
            Problem: 413.
        """
        if size > self.room:
            raise _too_large(self._limit, "limits.decompressed")

    def add(self, part: bytes) -> int:
        """Append; returns the bytes so far.

        Raises:
            Problem: 413.
            MemoryLimitError: the memory is in use.
        """
        self.check(len(part))
        self._memory.take(len(part))
        self._buffer.write(part)
        return self._buffer.tell()

    def whole(self) -> bytes:
        """All of it."""
        return self._buffer.getvalue()


async def _decompress(raw: bytes, encoding: str, unpacked: _Unpacked) -> bytes:
    unpackers = {"gzip": _gunzip, "x-gzip": _gunzip, "zstd": _unzstd}
    if encoding not in unpackers:
        detail = f"Content-Encoding {encoding[:40]!r} is not supported; use gzip, zstd or none"
        raise Problem(415, detail, reason="unsupported_encoding")
    try:
        pause = _PAUSE_BYTES
        for size in unpackers[encoding](raw, unpacked):
            if size > pause:
                await asyncio.sleep(0)  # other requests get a turn
                pause = size + _PAUSE_BYTES
        return unpacked.whole()
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        detail = f"the body is no complete {encoding} stream: {error}"
        raise Problem(400, detail, reason="bad_compression") from None


def _gunzip(raw: bytes, unpacked: _Unpacked) -> Iterator[int]:
    at = 0
    for _ in range(_MOST_STREAMS):
        if at == len(raw):
            return
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            piece = _piece(raw, at, _GZIP_STEP)
            yield unpacked.add(stream.decompress(piece, unpacked.room + 1))
            at += len(piece) - len(stream.unused_data)
    raise EOFError(_TOO_MANY)


def _unzstd(raw: bytes, unpacked: _Unpacked) -> Iterator[int]:
    size = zstandard.frame_content_size(raw) if raw else 0
    unpacked.check(size)
    if 0 < size <= _PAUSE_BYTES:
        with contextlib.suppress(zstandard.ZstdError):  # several frames, or damage: by steps
            unpacked.add(zstandard.ZstdDecompressor().decompress(raw, allow_extra_data=False))
            return
    at = 0
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    for _ in range(_MOST_STREAMS):
        if at == len(raw):
            return
        frame = unpacker.decompressobj()
        while not frame.eof:
            piece = _piece(raw, at, _ZSTD_STEP)
            yield unpacked.add(frame.decompress(piece))
            at += len(piece) - len(frame.unused_data)
    raise EOFError(_TOO_MANY)


def _piece(raw: bytes, at: int, size: int) -> bytes:
    if at == len(raw):
        raise EOFError("it ends too early")
    return raw[at : at + size]


_GZIP_STEP = 1 << 12  # which can grow to 4 MB
_PAUSE_BYTES = 1 << 20
_ZSTD_STEP = 256  # a frame of unknown size can grow by 128 KB with every 4 bytes
_MOST_STREAMS = 1_000  # joined in one body; each costs much more time than its bytes
_TOO_MANY = f"it has more than {_MOST_STREAMS} concatenated gzip or zstd streams"


def _too_large(limit: int, setting: str) -> Problem:
    detail = f"the body is larger than {limit} bytes ({setting}); send smaller batches"
    return Problem(413, detail, reason="too_large")


async def send_json(
    send: Send,
    status: int,
    content: Any,
    *,
    media: bytes = b"application/json",
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    """Answer with JSON."""
    body = msgspec.json.encode(content)
    extra = [(name.encode(), value.encode()) for name, value in headers]
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", media),
                (b"content-length", str(len(body)).encode()),
                *extra,
            ],
        }
    )
    sender = send if len(body) <= PIECE else in_pieces(send)
    await sender({"type": "http.response.body", "body": body})


def in_pieces(send: Send) -> Send:
    """The same, with long bodies cut into pieces, written as they are read and never copied."""

    async def send_pieces(message: MutableMapping[str, Any]) -> None:
        body = message.get("body", b"")
        if len(body) <= PIECE:
            await send(message)
            return
        for at in range(0, len(body), PIECE):
            following = message.get("more_body", False) or at + PIECE < len(body)
            piece = memoryview(body)[at : at + PIECE]
            await send({**message, "body": piece, "more_body": following})

    return send_pieces


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer with a problem."""
    await send_json(
        send,
        problem.status,
        problem.body(),
        media=b"application/problem+json",
        headers=problem.headers.items(),
    )
