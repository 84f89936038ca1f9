"""OTLP requests as fuzz bytes choose them: the same trees as JSON and as protobuf."""

import functools
import json
import struct
from pathlib import Path
from typing import Any

from tests.fuzz.source import Source
from tests.support.otlp import FOLDERS, captured

NOW_NS = 1_795_000_000 * 10**9
Tree = dict[str, Any]
"""A request as OTLP/JSON has it."""

_VOCABULARY = Path(__file__).with_name("vocabulary.json")
_MOST_BODY = 4_096
_WEIRD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 2**63, -(2**70), 10**400, "", "x", "\0", "é😀", [], {},
    [1], [[1]], {"a": 1}, [None], {"values": None}, {"values": 5},
    {"values": [None, 1, {"key": None}, {"key": 1, "value": 2}]}, "NaN", "Infinity", "1e999",
    "9" * 5_000, "[[", "[" * 600, "{'a':" * 200,
    '{"messages":[{"role":"user","content":[{"text":null}]}]}',
    '[["human","hi"]]', '{"inputs":{"inputs":{"inputs":1}}}', "['a', 1, None, (2,)]",
    "{'a': b'x', 'c': {1,2}}", '[{"page_content":1,"metadata":"[1]"}]',
    '{"nodes":[{"node":{"text":5},"score":"x"}]}', '[{"document":{"document":{"document":{}}}}]',
    "[[1,2],[3,4]]", '[["doc", 0.5], ["doc2", "x"]]',
    '{"type":"constructor","id":[1,2],"kwargs":{"content":[]}}',
    '{"role":{"value":["x"]},"content":1}',
    '[{"role":["user"],"content":"x"}]', '{"id": {"a":1}, "type": {"b":2}, "content": {}}',
    "Document(id=1, text='x\\'", "ChatMessage(content=[])", '["",""]', '["", " a"]',
    "Question: a\n\n\n\n\nContext:\n[1] b\n\nAnswer:",
    "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]",
)  # fmt: skip
_KINDS = (
    "stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue",
    "bytesValue", "x",
)  # fmt: skip
_EVENTS = (
    "exception", "gen_ai.choice", "gen_ai.user.message", "gen_ai.evaluation.result",
    "gen_ai.content.prompt", "x",
)  # fmt: skip
_LOG_EVENTS = (
    "gen_ai.evaluation.result", "x", "gen_ai.client.inference.operation.details",
    "gen_ai.user.message", "gen_ai.choice", "gen_ai.assistant.message",
)  # fmt: skip
_MORE_KEYS = (
    "exception.stacktrace", "exception.message", "content", "gen_ai.evaluation.name",
    "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label", "service.name",
    "service.version", "deployment.environment", "annotations.0.annotation.name",
    "annotations.0.annotation.score", "annotations.0.annotation.label",
    "annotations.0.annotation.annotator_kind", "openinference.span.kind", "input.value",
    "output.value", "retrieval.documents.0.document.id", "retrieval.documents.0.document.content",
    "retrieval.documents.0.document.score", "retrieval.documents.999999.document.id",
)  # fmt: skip
_IDS = tuple(f"{number:016x}" for number in range(1, 9))


@functools.cache
def vocabulary() -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """(keys, values) of attributes, taken once from the captures: kept inputs count in them."""
    content = json.loads(_VOCABULARY.read_text(encoding="utf-8"))
    return tuple(content["keys"]), tuple(content["values"])


@functools.cache
def small_bodies() -> tuple[bytes, ...]:
    """Captured requests in protobuf that are small enough to be mutated as they are."""
    bodies = [
        each.plain
        for name in FOLDERS
        for each in captured(name)
        if "json" not in each.content_type and each.path != "/v1/logs"
    ]
    return tuple(body for body in bodies if len(body) <= _MOST_BODY)


def request(source: Source) -> Tree:
    """A trace of some spans."""
    trace_id = f"{source.number(8):032x}"
    spans = [_span(source, trace_id) for _ in range(1 + source.below(5))]
    scope = {"name": source.choose(("", "x", "openinference.instrumentation.langchain"))}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": source.several(2, lambda: _attribute(source))},
                "scopeSpans": [{"scope": scope, "spans": spans}],
            }
        ]
    }


def log_request(source: Source) -> Tree:
    """Some log records, most of them evaluations."""
    return {
        "resourceLogs": [{"scopeLogs": [{"logRecords": source.several(4, lambda: _log(source))}]}]
    }


def any_value(source: Source, depth: int = 0) -> Any:
    """An attribute's value: captured, of a chosen kind, or not what it should be."""
    kind = source.below(8)
    if kind < 4:
        return source.choose(vocabulary()[1])
    if kind == 7:
        return source.choose(_WEIRD)
    name = source.choose(_KINDS)
    if name == "arrayValue" and depth < 4:
        return {name: {"values": source.several(3, lambda: any_value(source, depth + 1))}}
    if name == "kvlistValue" and depth < 4:
        return {name: {"values": source.several(3, lambda: _attribute(source, depth + 1))}}
    return {name: source.text(60) if kind == 6 else source.choose(_WEIRD)}


def as_json(tree: Tree) -> bytes:
    """As OTLP/JSON."""
    return json.dumps(tree).encode()


def _attribute(source: Source, depth: int = 0) -> Tree:
    return {"key": source.choose(vocabulary()[0]), "value": any_value(source, depth)}


def _span(source: Source, trace_id: str) -> Tree:
    start = NOW_NS + source.number(4)
    span: Tree = {
        "traceId": source.choose((trace_id, "0" * 32, 5)) if source.chance(8) else trace_id,
        "spanId": source.choose(_IDS),
        "parentSpanId": source.choose(("", *_IDS, None, "zz")),
        "name": source.choose(("chain", "retriever", "llm", "x" * 300)),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + source.number(4)),
        "attributes": source.several(8, lambda: _attribute(source)),
        "kind": source.below(6),
    }
    if source.chance(64):
        span["events"] = source.several(3, lambda: _event(source))
    if source.chance(32):
        span["links"] = [{"traceId": trace_id, "spanId": source.choose(_IDS)}]
    if source.chance(64):
        span["status"] = {
            "code": source.choose((2, 0, 1, "STATUS_CODE_ERROR", None, -1)),
            "message": "boom",
        }
    if source.chance(16):
        span[source.choose(tuple(span))] = source.choose(_WEIRD)
    return span


def _event(source: Source) -> Tree:
    return {
        "name": source.choose(_EVENTS),
        "timeUnixNano": str(NOW_NS + source.number(4)),
        "attributes": source.several(3, lambda: _attribute(source)),
    }


def _log(source: Source) -> Tree:
    return {
        "eventName": source.choose(_LOG_EVENTS),
        "traceId": source.choose(("0" * 31 + "1", "0" * 32, "zz", "")),
        "spanId": source.choose(("", *_IDS, "zz")),
        "timeUnixNano": source.choose((str(NOW_NS), 0, "-5", "99999999999999999999", 1.5, None)),
        "attributes": source.several(5, lambda: _attribute(source)),
        "body": _body(source),
    }


def _body(source: Source) -> Any:
    """The text of a message, a message, or any value."""
    kind = source.below(4)
    if kind == 3:
        return any_value(source)
    key = source.choose(("content", "message", "input", "output", "messages", "role", "parts"))
    pair = {"key": key, "value": any_value(source)}
    inner = {"kvlistValue": {"values": [pair, *source.several(2, lambda: _attribute(source))]}}
    outer = source.choose(("input", "message", "content"))
    return (
        inner
        if kind == 0
        else {"kvlistValue": {"values": [{"key": outer, "value": inner}]}}
        if kind == 1
        else {"stringValue": json.dumps({key: source.text(40)})}
    )


# --------------------------------------------------------------------------- protobuf

_NUMBERS: dict[str, dict[str, tuple[int, str]]] = {
    "request": {"resourceSpans": (1, "resource_spans"), "resourceLogs": (1, "resource_logs")},
    "resource_spans": {"resource": (1, "resource"), "scopeSpans": (2, "scope_spans")},
    "resource_logs": {"resource": (1, "resource"), "scopeLogs": (2, "scope_logs")},
    "resource": {"attributes": (1, "attribute")},
    "scope_spans": {"scope": (1, "scope"), "spans": (2, "span")},
    "scope_logs": {"scope": (1, "scope"), "logRecords": (2, "log")},
    "scope": {"name": (1, "text")},
    "span": {
        "traceId": (1, "hex"), "spanId": (2, "hex"), "parentSpanId": (4, "hex"),
        "name": (5, "text"),
        "kind": (6, "whole"), "startTimeUnixNano": (7, "fixed"), "endTimeUnixNano": (8, "fixed"),
        "attributes": (9, "attribute"), "events": (11, "event"), "links": (13, "link"),
        "status": (15, "status"),
    },
    "log": {
        "timeUnixNano": (1, "fixed"), "body": (5, "value"), "attributes": (6, "attribute"),
        "traceId": (9, "hex"),
        "spanId": (10, "hex"), "eventName": (12, "text"),
    },
    "event": {"timeUnixNano": (1, "fixed"), "name": (2, "text"), "attributes": (3, "attribute")},
    "link": {"traceId": (1, "hex"), "spanId": (2, "hex")},
    "status": {"message": (2, "text"), "code": (3, "whole")},
    "attribute": {"key": (1, "text"), "value": (2, "value")},
    "value": {
        "stringValue": (1, "text"), "boolValue": (2, "whole"), "intValue": (3, "whole"),
        "doubleValue": (4, "double"), "arrayValue": (5, "array"), "kvlistValue": (6, "pairs"),
        "bytesValue": (7, "text"),
    },
    "array": {"values": (1, "value")},
    "pairs": {"values": (1, "attribute")},
}  # fmt: skip


def as_protobuf(tree: Tree, kind: str = "request") -> bytes:
    """As protobuf; what has the wrong type becomes a field of another wire type."""
    body = bytearray()
    for name, (number, inner) in _NUMBERS[kind].items():
        if name in tree:
            values = tree[name] if isinstance(tree[name], list) else [tree[name]]
            for value in values:
                body += _field(number, inner, value)
    return bytes(body)


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind in _NUMBERS:
        return length_delimited(number, as_protobuf(value if isinstance(value, dict) else {}, kind))
    if kind == "hex" and isinstance(value, str):
        return length_delimited(number, _bytes_of(value))
    if kind == "text" and isinstance(value, str):
        return length_delimited(number, value.encode("utf-8", "surrogatepass"))
    try:
        if kind == "fixed":
            return varint(number << 3 | 1) + struct.pack("<Q", int(value) % 2**64)
        if kind == "double":
            return varint(number << 3 | 1) + struct.pack("<d", float(value))
        return varint(number << 3) + varint(int(value) % 2**64)
    except (TypeError, ValueError, OverflowError):
        return varint(number << 3 | 5) + b"\xff\xff\xff\xff"


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def length_delimited(number: int, body: bytes) -> bytes:
    """A field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(body)) + body
