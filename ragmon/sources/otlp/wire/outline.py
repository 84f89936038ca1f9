"""Outline of a protobuf request: where its spans or log records stand, without decoding them.

A message of two bytes becomes an object of two hundred, so a request is never decoded as a whole:
the outline counts what it holds, and some hundreds of spans or log records are then decoded at a
time. Field numbers are those of opentelemetry-proto, which traces, logs and metrics share down to
the records.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ragmon.errors import RecordError
from ragmon.sources.otlp.wire.limits import STRETCH_BYTES, STRETCH_RECORDS

Range = tuple[int, int]  # first byte and end

_RESOURCES, _INNER_RESOURCE, _SCOPES = 0x0A, 0x0A, 0x12
_INNER_SCOPE, _RECORDS = 0x0A, 0x12

_TOO_EARLY = "it ends too early"
_LARGE = 1 << 16  # what is smaller than this takes at most two megabytes
_MOST_MESSAGES = 100_000  # of one span
_MOST_WALKED = 400_000  # fields of large spans in one request: a quarter of a second

Schema = dict[int, "Schema"]
"""Messages inside of a message, by tag."""

_ANY: Schema = {}
_KEY_VALUE: Schema = {0x12: _ANY}
_ANY |= {0x2A: {0x0A: _ANY}, 0x32: {0x0A: _KEY_VALUE}}
SPAN: Schema = {
    0x4A: _KEY_VALUE,  # attributes
    0x5A: {0x1A: _KEY_VALUE},  # events
    0x6A: {0x22: _KEY_VALUE},  # links
}
LOG_RECORD: Schema = {0x2A: _ANY, 0x32: _KEY_VALUE}  # body, attributes
_RESOURCE: Schema = {0x0A: _KEY_VALUE}
_SCOPE: Schema = {0x1A: _KEY_VALUE}


class ScopeOutline(NamedTuple):
    """The records of one instrumentation scope."""

    scope: bytes  # encoded; empty when there is none
    stretches: list[Range]  # each of some hundred records, as a message with nothing else
    refused: int  # records with more fields than anything that a program would send


class ResourceOutline(NamedTuple):
    """The scopes of one resource."""

    resource: bytes  # encoded; empty when there is none
    scopes: list[ScopeOutline]


class Outline:
    """The places of everything in a request."""

    def __init__(self, body: bytes, schema: Schema, most: int) -> None:
        """Find them.

        Args:
            body: of an export request of traces or logs.
            schema: of its records.
            most: fields down to the records that may be there.

        Raises:
            RecordError: it is no such request, or has more.
        """
        self._body = body
        self._schema = schema
        self._most = most
        self._others = 0
        self._walked = 0
        self.records = 0
        try:
            self.resources = [self._resource(place) for place in self._parts((0, len(body)))]
        except IndexError:
            raise malformed(_TOO_EARLY) from None

    def cut(self, stretch: Range) -> bytes:
        """The bytes of a stretch."""
        return self._body[slice(*stretch)]

    def _resource(self, place: Range) -> ResourceOutline:
        heads: list[bytes] = []
        scopes: list[ScopeOutline] = []
        for tag, start, end in self._walk(place):
            if tag == _SCOPES:
                scopes.append(self._scope((start, end)))
            elif tag == _INNER_RESOURCE:
                heads.append(self._head(start, end, _RESOURCE))
        return ResourceOutline(b"".join(heads), scopes)

    def _scope(self, place: Range) -> ScopeOutline:  # noqa: C901, PLR0912 - one turn a span
        body, (at, end) = self._body, place
        heads: list[bytes] = []
        stretches: list[Range] = []
        begin, begun, records, refused = at, 0, 0, 0
        room = self._most - self.records
        while at < end:
            field, tag = at, body[at]
            inner, size = at + 2, body[at + 1]
            if tag == _RECORDS and size < 0x80:  # the shortest way for what is most of a request
                stop = inner + size
            elif tag == _RECORDS and body[inner] < 0x80:
                inner, stop = at + 3, at + 3 + (size & 0x7F | body[inner] << 7)
            else:
                tag, inner, stop = _field(body, at, end)
            if stop > end:
                raise malformed(_TOO_EARLY)
            at = stop
            if tag == _RECORDS:
                records += 1
                if records > room:
                    raise self._too_many(self.records + records)
                if stop - inner > _LARGE and not self._is_sane(inner, stop, self._schema):
                    refused += 1
                elif records - begun < STRETCH_RECORDS and stop - begin <= STRETCH_BYTES:
                    continue
                else:
                    field = stop
            else:
                self._count_other()
                if tag == _INNER_SCOPE:
                    heads.append(self._head(inner, stop, _SCOPE))
            if begin < field:
                stretches.append((begin, field))
            begin, begun = stop, records
        if begin < end:
            stretches.append((begin, end))
        self.records += records
        return ScopeOutline(b"".join(heads), stretches, refused)

    def _head(self, start: int, end: int, schema: Schema) -> bytes:
        """A resource or scope; the join of two messages is the message that has both."""
        if end - start > _LARGE and not self._is_sane(start, end, schema):
            raise malformed("a resource or scope has too many fields")
        return self._body[start:end]

    def _parts(self, place: Range) -> Iterator[Range]:
        return ((start, end) for tag, start, end in self._walk(place) if tag == _RESOURCES)

    def _walk(self, place: Range) -> Iterator[tuple[int, int, int]]:
        for field in walk_fields(self._body, *place):
            self._count_other()
            yield field

    def _count_other(self) -> None:
        self._others += 1
        if self._others > self._most:
            raise self._too_many(self._others)

    def _too_many(self, number: int) -> RecordError:
        message = f"the request has {number} spans or log records or more"
        detail = f"{message}; ten times limits.records allow {self._most}"
        return RecordError("too_many_records", "", detail, hint="Send smaller batches")

    def _is_sane(self, start: int, end: int, schema: Schema) -> bool:
        """Walk through a large message before the decoder makes an object of each part."""
        pending = [(start, end, schema)]
        walked = 0
        try:
            while pending:
                start, end, schema = pending.pop()
                for tag, inner, inner_end in walk_fields(self._body, start, end):
                    walked += 1
                    if walked > _MOST_MESSAGES or self._walked + walked > _MOST_WALKED:
                        return False
                    if tag in schema:
                        pending.append((inner, inner_end, schema[tag]))
        finally:
            self._walked += walked
        return True


def malformed(error: object) -> RecordError:
    """The refusal of a body that is no such message."""
    hint = "send an OTLP export request, or fix the Content-Type"
    return RecordError("malformed", "", f"no OTLP protobuf: {error}", hint=hint)


def walk_fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Tag and range of each field of a message, which ends at ``end``.

    Raises:
        RecordError: it is no message.
        IndexError: it ends too early.
    """
    while at < end:
        field = _field(body, at, end)
        yield field
        at = field[2]


def _field(body: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Tag and range of a field; of a field without a length the range is empty."""
    tag = body[at]
    at += 1
    if tag > 0x7F:
        tag, at = _varint(body, at - 1)
    kind = tag & 7
    if kind == 2:
        size = body[at]
        at += 1
        if size > 0x7F:
            size, at = _varint(body, at - 1)
        stop = at + size
    elif kind == 0:
        _, at = _varint(body, at)
        stop = at
    elif kind in (1, 5):
        at = stop = at + (8 if kind == 1 else 4)
    else:
        raise malformed(f"wire type {kind}")
    if stop > end:
        raise malformed(_TOO_EARLY)
    return tag, at, stop


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer, and the place behind it."""
    number = shift = 0
    while shift < 70:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise malformed("a number is too long")
