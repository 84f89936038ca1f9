"""Protobuf messages as trees of fields, without their schema: to change one and fit the lengths."""

import random
from collections.abc import Callable

from tests.fuzz.otlp import varint

Field = tuple[int, bytes]
"""(tag, content): of a length-delimited field without its length."""


def mutated(body: bytes, chance: random.Random, bytewise: Callable[[bytes], bytes]) -> bytes:
    """The message with one field changed; not a message: changed as bytes are."""
    fields = _fields(body)
    if not fields:
        return bytewise(body)
    at = chance.randrange(len(fields))
    tag, content = fields[at]
    kind = chance.random()
    if kind < 0.1:
        fields.insert(at, fields[chance.randrange(len(fields))])
    elif kind < 0.2:
        del fields[at]
    elif kind < 0.25:
        fields[at] = (tag ^ 8 * chance.randrange(1, 16), content)
    elif kind < 0.75 and tag & 7 == 2 and len(content) > 2:
        fields[at] = (tag, mutated(content, chance, bytewise))
    else:
        fields[at] = (tag, bytewise(content))
    return b"".join(map(_encoded, fields))


def _encoded(field: Field) -> bytes:
    tag, content = field
    return varint(tag) + (varint(len(content)) if tag & 7 == 2 else b"") + content


def _fields(body: bytes) -> list[Field]:
    """The fields of a message; none when it is no message."""
    fields, at = [], 0
    while at < len(body):
        tag, at = _varint(body, at)
        end = _end(body, at, tag & 7)
        if tag & 7 == 2:
            size, at = _varint(body, at)
            end = at + size
        if not at <= end <= len(body) or tag < 8:
            return []
        fields.append((tag, body[at:end]))
        at = end
    return fields


def _end(body: bytes, at: int, wire_type: int) -> int:
    if wire_type == 0:
        return _varint(body, at)[1]
    return at + {1: 8, 2: 0, 5: 4}.get(wire_type, len(body) + 1)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(body) and shift < 64:
        number |= (body[at] & 127) << shift
        shift += 7
        at += 1
        if body[at - 1] < 128:
            return number, at
    return 0, len(body) + 1
