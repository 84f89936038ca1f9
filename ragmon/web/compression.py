"""Compression of what is read over the API."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ragmon.content_coding import SMALLEST_BYTES, choose_coding, encode, finish

_AT_ONCE_BYTES = 64 << 10  # more is compressed on another thread


def header(request: Request, name: str) -> str:
    """A header that may be sent in several lines, as one."""
    return ",".join(request.headers.getlist(name))


async def compressed(request: Request, response: Response) -> Response:
    """The answer, compressed if that is worth it and accepted."""
    if isinstance(response, StreamingResponse):
        return response  # its parts are sent as they are made
    plain = response.body
    if len(plain) < SMALLEST_BYTES or "vary" in response.headers or response.status_code != 200:
        return response
    response.headers["vary"] = "Accept-Encoding"
    coding = choose_coding(header(request, "accept-encoding"))
    if coding:
        if len(plain) <= _AT_ONCE_BYTES:
            response.body = _whole(coding, bytes(plain))
        else:
            response.body = await asyncio.to_thread(_whole, coding, bytes(plain))
        response.headers["content-encoding"] = coding
        response.headers["content-length"] = str(len(response.body))
    return response


def _whole(coding: str, plain: bytes) -> bytes:
    return finish(coding, encode(coding, plain), b"")
