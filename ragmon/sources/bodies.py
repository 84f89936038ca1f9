"""Request bodies to records: stretches of good lines as a whole, others line by line."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ragmon.decode import Bounds, Decoder, Rejection, elements, rejection
from ragmon.errors import RecordError

_STRETCH_BYTES = 1 << 17
_FEW_BYTES = 1 << 13  # up to here each line alone costs less
_STRETCH_ELEMENTS = 64


class DecodedBody(NamedTuple):
    """Records and refused lines of a stretch of a body."""

    records: list[Any]
    lines: Sequence[int]  # of each record, from 1: of NDJSON, or the position in an array
    rejections: list[Rejection]
    sample: Any = b""  # JSON of the first record


def decode_body(
    decode: Decoder[Any], body: bytes, content_type: str, now: float, bounds: Bounds
) -> Iterator[DecodedBody]:
    """The records of an object, an array or NDJSON, stamped; a stretch at a time.

    Args:
        decode: for records of one type.
        body: decompressed.
        content_type: of the body; may be empty.
        now: unix seconds, for records without a timestamp.
        bounds: timestamps outside are refused.

    Raises:
        RecordError: the body is no JSON at all.
    """
    parts = elements(body, content_type)
    if parts is not None:
        numbered = list(enumerate(parts, 1))
        for at in range(0, len(numbered), _STRETCH_ELEMENTS):
            yield _one_by_one(decode, numbered[at : at + _STRETCH_ELEMENTS], now, bounds)
        return
    first = 1
    for text in _stretches(body):
        records = decode.whole(text, now, bounds) if len(text) > _FEW_BYTES else None
        if records is not None:
            sample = text[: text.find(b"\n") + 1 or None]
            yield DecodedBody(records, range(first, first + len(records)), [], sample)
            first += len(records)
        else:
            lines = text.removesuffix(b"\n").split(b"\n")
            filled = ((at, line) for at, line in enumerate(lines, first) if line.strip())
            yield _one_by_one(decode, filled, now, bounds)
            first += len(lines)


def _stretches(body: bytes) -> Iterator[bytes]:
    """The body in pieces of whole lines."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + _STRETCH_BYTES) + 1 or len(body)
        yield body[start:end]
        start = end


def _one_by_one(
    decode: Decoder[Any], numbered: Iterable[tuple[int, Any]], now: float, bounds: Bounds
) -> DecodedBody:
    decoded = DecodedBody([], [], [])
    lines: list[int] = []
    sample: Any = b""
    for number, line in numbered:
        sample = sample or line
        try:
            decoded.records.append(decode(line, now, bounds))
            lines.append(number)
        except RecordError as error:
            decoded.rejections.append(rejection(number, error))
    return decoded._replace(lines=lines, sample=sample)
