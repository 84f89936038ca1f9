"""Request bodies to records: stretches of good lines as a whole, others line by line.

How many there are is known before they are decoded, and what that will take is reserved.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ragmon.decode import Decoder, Rejection, elements, rejection
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.json_scan import count_byte, count_elements, count_values
from ragmon.memory import MemoryReservation

TOO_MANY = "too_many_records"
"""Reason of a request with more than ``limits.records``."""

_STRETCH_BYTES = 1 << 17
_FEW_BYTES = 1 << 13  # up to here each line alone costs less
_STRETCH_ELEMENTS = 64

# Measured until the batch is committed: `{}` takes 2,970 bytes in a batch of 10,000 or of 100,000,
# and a record of 3,063 bytes takes 14,800 beside the body.
_RECORD_BYTES = 3_000
_BYTES_PER_BYTE = 3
_VALUE_BYTES = 100  # of a text, or of a number that a text names: an id of one character takes 70
_VALUES_EACH = 80  # texts of a record, on average of as many records as a request may have
_DENSE = 8  # bytes a text, below which texts are counted without the quotes within them
_LONG = 1 << 20
_BYTES_PER_LONG_BYTE = 13  # of a line that is not even a record: a dictionary of short names

_MOST_BYTES = 16 << 20  # of one record; as a line of a log file and a message of Kafka may have

_WIDE = 1 << 18  # a line from here on may hold more than can be decoded in one go
_MOST_VALUES = 50_000  # of such a line; a query has some thousands. A million tags took 0.9 s

_FEW_COMMAS = 50  # for each record allowed: so many elements may be taken apart before they count
_SMALL_ARRAY = 1 << 19


class DecodedBody(NamedTuple):
    """Records and refused lines of a stretch of a body."""

    records: list[Any]
    lines: Sequence[int]  # of each record, from 1: of NDJSON, or the position in an array
    rejections: list[Rejection]
    sample: Any = b""  # JSON of the first record


class Terms(NamedTuple):
    """Time and limits under which a request is decoded."""

    now: float  # unix seconds, for records without a timestamp
    bounds: Bounds  # timestamps outside are refused
    most: int  # records of one request
    memory: MemoryReservation  # of the request, with the bytes of its body


def decode_body(
    decode: Decoder[Any], body: bytes, content_type: str, terms: Terms
) -> Iterator[DecodedBody]:
    """The records of an object, an array or NDJSON, stamped; a stretch at a time.

    Args:
        decode: for records of one type.
        body: decompressed.
        content_type: of the body; may be empty.
        terms: time and limits.

    Raises:
        RecordError: the body is no JSON at all, or has more records than allowed.
        MemoryLimitError: decoding it would take too much memory.
    """
    parts = elements(body, content_type, lambda array: _check_array(array, terms.most))
    if parts is not None:
        _admit(len(parts), len(body), terms)
        values = _ValueAccount(terms)
        for at in range(0, len(parts), _STRETCH_ELEMENTS):
            numbered = enumerate(parts[at : at + _STRETCH_ELEMENTS], at + 1)
            yield _one_by_one(decode, numbered, terms, values)
        return
    _admit(count_byte(body, b"\n") + (not body.endswith(b"\n")), len(body), terms)
    first, values = 1, _ValueAccount(terms)
    for text in _stretches(body):
        is_usual = _FEW_BYTES < len(text) <= _WIDE
        if is_usual:
            values.take(text)
        records = decode.whole(text, terms.now, terms.bounds) if is_usual else None
        if records is not None:
            sample = text[: text.find(b"\n") + 1 or None]
            yield DecodedBody(records, range(first, first + len(records)), [], sample)
            first += len(records)
        else:
            lines = text.removesuffix(b"\n").split(b"\n")
            filled = ((at, line) for at, line in enumerate(lines, first) if line.strip())
            yield _one_by_one(decode, filled, terms, None if is_usual else values)
            first += len(lines)


def check_number(number: int, most: int) -> None:
    """Refuse a request with too many records.

    Raises:
        RecordError: it has more than allowed.
    """
    if number > most:
        message = f"the request has {number} records or more; limits.records allows {most}"
        raise RecordError(TOO_MANY, "", message, hint="Send smaller batches")


def _admit(number: int, size: int, terms: Terms) -> None:
    check_number(number, terms.most)
    terms.memory.take(_RECORD_BYTES * number + _BYTES_PER_BYTE * size)


class _ValueAccount:
    """Texts of a request: small ones take twenty times their bytes once they are decoded."""

    def __init__(self, terms: Terms) -> None:
        self._memory = terms.memory
        self._left = self._most = _VALUES_EACH * terms.most

    def take(self, text: Any) -> None:
        """Reserve what the texts of some records take.

        Args:
            text: JSON of one or more records, none of which has too many values by itself.

        Raises:
            RecordError: all of them together are more than a request may have.
            MemoryLimitError: the memory is in use, or there is not as much.
        """
        content = text if isinstance(text, bytes) else bytes(text)
        values = count_byte(content, b'"') // 2
        if values * _DENSE > len(content) or values > self._left:  # quotes in texts are no values
            values = min(values, count_values(content, values))
        self._left -= values
        if self._left < 0:
            message = f"the records have more than {self._most:,} texts and names together"
            raise RecordError(TOO_MANY, "", message, hint="Send smaller batches")
        self._memory.take(_VALUE_BYTES * values)


def _check_array(array: bytes, most: int) -> None:
    """Count the elements of an array, unless they cannot be many."""
    if len(array) > _SMALL_ARRAY and count_byte(array, b",") > _FEW_COMMAS * most:
        check_number(count_elements(array, most), most)


def _reserve_long(line: Any, memory: MemoryReservation) -> None:
    """Reserve what decoding a long line takes.

    Raises:
        RecordError: it is larger than a record may be: whoever reads it later takes several times
            as much.
        MemoryLimitError: the memory is in use.
    """
    size = len(line) if isinstance(line, bytes) else len(memoryview(line))
    if size > _MOST_BYTES:
        message = f"the record has {size >> 20} MiB; one may have {_MOST_BYTES >> 20} MiB"
        hint = "send fewer or shorter chunks"
        raise RecordError("record_too_large", "", message, hint=hint)
    if size > _LONG:
        memory.take(_BYTES_PER_LONG_BYTE * size)


def _check_wide(line: Any) -> None:
    """Refuse a record of so many values that nothing else could run while it is decoded.

    Raises:
        RecordError: it has more than any query.
    """
    view = memoryview(line)
    if len(view) > _WIDE and count_values(bytes(view), _MOST_VALUES) > _MOST_VALUES:
        most = f"{_MOST_VALUES:,} texts, lists and objects, or a million numbers"
        message = f"the record has more than {most}"
        hint = "leave out fields that ragmon does not know, and send fewer chunks or tags"
        raise RecordError("too_many_values", "", message, hint=hint)


def _stretches(body: bytes) -> Iterator[bytes]:
    """The body in pieces of whole lines."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + _STRETCH_BYTES) + 1 or len(body)
        yield body[start:end]
        start = end


def _one_by_one(
    decode: Decoder[Any],
    numbered: Iterable[tuple[int, Any]],
    terms: Terms,
    values: _ValueAccount | None,
) -> DecodedBody:
    decoded = DecodedBody([], [], [])
    lines: list[int] = []
    sample: Any = b""
    for number, line in numbered:
        sample = sample or line
        try:
            _reserve_long(line, terms.memory)
            _check_wide(line)
        except RecordError as error:
            decoded.rejections.append(rejection(number, error))
            continue
        if values is not None:
            values.take(line)
        try:
            decoded.records.append(decode(line, terms.now, terms.bounds))
            lines.append(number)
        except RecordError as error:
            decoded.rejections.append(rejection(number, error))
    return decoded._replace(lines=lines, sample=sample)


class RejectedLines:
    """Refused lines of a request: the first of them, and how many there are of each reason."""

    def __init__(self, most: int) -> None:
        self.listed: list[Rejection] = []
        self.by_reason: dict[str, int] = {}
        self._most = most

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_reason.values())

    def add(self, rejections: Sequence[Rejection]) -> None:
        """Take in more; those of the first lines are listed."""
        for refused in rejections:
            self.by_reason[refused.reason] = self.by_reason.get(refused.reason, 0) + 1
        if not rejections:
            return
        merged = sorted([*self.listed, *rejections[: self._most]], key=lambda each: each.line)
        self.listed = merged[: self._most]
