"""Requests of kilobytes that unpack to megabytes of the smallest things that can be sent."""

from collections.abc import Callable
from typing import NamedTuple

SIZE = 16 << 20
NDJSON, JSON, PROTOBUF = "application/x-ndjson", "application/json", "application/x-protobuf"


class Attack(NamedTuple):
    """One hostile request."""

    name: str
    path: str
    media: str
    body: Callable[[], bytes]


def repeated(part: bytes, before: bytes = b"", after: bytes = b"") -> Callable[[], bytes]:
    """A body of ``SIZE`` bytes that is mostly the same part again and again."""
    return lambda: before + part * ((SIZE - len(before) - len(after)) // len(part)) + after


def many_tags() -> bytes:
    """A query with a million tags, each of its own name."""
    return b'{"tags":{' + b",".join(b'"%d":"a"' % at for at in range(1 << 20)) + b"}}"


def large_record() -> bytes:
    """A query of 18 MB, each text of which is allowed."""
    return b'{"chunks":[%s{"id":"a"}]}' % (b'{"id":"a","text":"%s"},' % (b"a " * 450_000) * 20)


def long_words() -> bytes:
    """Queries of 9 MB in all, each with a word of its own that is 149 kB long."""
    chunk = b'{"answer":"because","chunks":[{"id":"a","text":"alpha %d%s"}]}'
    return b"\n".join(chunk % (at, b"z" * 149_000) for at in range(60))


def empty_spans() -> bytes:
    """Spans of two bytes in protobuf."""
    return _field(0x0A, _field(0x12, b"\x12\x00" * (SIZE // 2)))


def _field(tag: int, body: bytes) -> bytes:
    size, length = len(body), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([tag, *length, size]) + body


SPANS = b'{"resourceSpans":[{"scopeSpans":[{"spans":['
QUERIES, TRACES = "/v1/queries", "/v1/traces"
ATTACKS = (
    Attack("lines {}", QUERIES, NDJSON, repeated(b"{}\n")),
    Attack("lines 1", QUERIES, NDJSON, repeated(b"1\n")),
    Attack("labels 1", "/v1/labels", NDJSON, repeated(b"1\n")),
    Attack("array of 1", QUERIES, JSON, repeated(b"1,", b"[", b"1]")),
    Attack("array of {}", QUERIES, JSON, repeated(b"{},", b"[", b"{}]")),
    Attack("one long field name", QUERIES, JSON, repeated(b"a", b'{"', b'":1}')),
    Attack("nested lists", QUERIES, JSON, repeated(b"[],", b'{"x":[', b"[]]}")),
    Attack("numbers", QUERIES, JSON, repeated(b"1,", b'{"x":[', b"1]}")),
    Attack("tags", QUERIES, JSON, many_tags),
    Attack("chunks", QUERIES, JSON, repeated(b'{"id":"a"},', b'{"chunks":[', b'{"id":"a"}]}')),
    Attack("one large record", QUERIES, JSON, large_record),
    Attack("long words", QUERIES, NDJSON, long_words),
    Attack("OTLP JSON spans {}", TRACES, JSON, repeated(b"{},", SPANS, b"{}]}]}]}")),
    Attack("OTLP protobuf, empty spans", TRACES, PROTOBUF, empty_spans),
    Attack("scores {}", "/api/public/scores", JSON, repeated(b"{},", b"[", b"{}]")),
)
