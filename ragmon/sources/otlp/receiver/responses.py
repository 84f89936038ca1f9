"""Responses of the OTLP receiver, in the encoding of the request; errors as ``google.rpc.Status``.

Source: opentelemetry-proto, docs/specification.md.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragmon.asgi import Problem, Send

Encoding = Literal["protobuf", "json"]
Kind = Literal["spans", "logs", "metrics"]

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_CODES = {401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 429: 8, 431: 8, 503: 14}
_INVALID_ARGUMENT = 3
_REJECTED: dict[Kind, tuple[str, str]] = {
    "spans": ("rejectedSpans", "spans"),
    "logs": ("rejectedLogRecords", "log records"),
    "metrics": ("rejectedDataPoints", "data points"),
}
_NONE: Mapping[str, int] = MappingProxyType({})


class OtlpResponse(NamedTuple):
    """Status, media type and body."""

    status: int
    media: str
    body: bytes


def encoding_of(content_type: str) -> Encoding:
    """The encoding of a request.

    Raises:
        Problem: 415.
    """
    media = content_type.partition(";")[0].strip().lower()
    if media in (PROTOBUF, "application/protobuf"):
        return "protobuf"
    if media == JSON:
        return "json"
    detail = f"Content-Type {media[:80]!r} is no OTLP; send {PROTOBUF} or {JSON}"
    raise Problem(415, detail, reason="unsupported_media")


def success(
    encoding: Encoding, refused: Mapping[str, int] = _NONE, kind: Kind = "spans"
) -> OtlpResponse:
    """200, with the number of what was refused, which must not be sent again.

    Args:
        encoding: of the request.
        refused: spans, log records or data points, by reason.
        kind: of what was sent. In protobuf the field has the same number for all.
    """
    rejected = sum(refused.values())
    field, noun = _REJECTED[kind]
    message = ", ".join(f"{count} {noun}: {reason}" for reason, count in refused.items())
    if encoding == "json":
        content = {}
        if rejected:
            content = {"partialSuccess": {field: str(rejected), "errorMessage": message}}
        return OtlpResponse(200, JSON, msgspec.json.encode(content))
    response = ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = message
    return OtlpResponse(200, PROTOBUF, response.SerializeToString())


def failure(encoding: Encoding, problem: Problem) -> OtlpResponse:
    """The problem as ``google.rpc.Status``: fields 1, ``code``, and 2, ``message``."""
    code = _CODES.get(problem.status, _INVALID_ARGUMENT)
    if encoding == "json":
        body = msgspec.json.encode({"code": code, "message": str(problem)})
        return OtlpResponse(problem.status, JSON, body)
    message = str(problem).encode()
    body = b"\x08" + _varint(code) + b"\x12" + _varint(len(message)) + message
    return OtlpResponse(problem.status, PROTOBUF, body)


def _varint(number: int) -> bytes:
    """Protobuf's variable-length integer."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


async def send_answer(
    send: Send, answer: OtlpResponse, headers: dict[str, str] | None = None
) -> None:
    """Send it."""
    extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    start = {
        "type": "http.response.start",
        "status": answer.status,
        "headers": [
            (b"content-type", answer.media.encode()),
            (b"content-length", str(len(answer.body)).encode()),
            *extra,
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": answer.body})
