"""Log events that hold the content of a span: questions and answers as OpenTelemetry logs them.

Content stands in the attributes (``gen_ai.client.inference.operation.details``) or in the body (one
event a message, as Semantic Kernel and the conventions before 1.37 write them; the messages of a
call together, as AWS's distribution does). An event becomes a span of its own kind, so that it is
stored, bounded and erased as spans are, and joins its span when the trace is mapped.
"""

from typing import Any, NamedTuple

import msgspec
import xxhash

from ragmon.sources.otlp.reading.values import first
from ragmon.sources.otlp.spans import MAX_NAME, Attributes, Resource, Span

MESSAGES = {
    "gen_ai.user.message": "user",
    "gen_ai.system.message": "system",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
    "gen_ai.content.prompt": "user",
    "gen_ai.content.completion": "assistant",
}
"""Names of events that are one message each, and its role."""
DETAILS = "gen_ai.client.inference.operation.details"

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_CONTENT = (
    _INPUT, _OUTPUT, "gen_ai.system_instructions", "gen_ai.retrieval.documents",
    "gen_ai.retrieval.query.text", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
)  # fmt: skip
_OF_MESSAGE = (
    "content", "message", "gen_ai.event.content", "gen_ai.prompt", "gen_ai.completion", "parts",
)  # fmt: skip
_NAMES = ("event.name", "logrecord.event.name", "event_name")
_READ = ("gen_ai.", "session.id", "user.id", "enduser.id")

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class LogEvent(NamedTuple):
    """The parts of a log record that can make it content."""

    name: str
    trace_id: bytes
    span_id: bytes
    time_ns: int
    attributes: Attributes
    body: Any


def name_of(event_name: str, attributes: Attributes) -> str:
    """The name of an event, which SDKs write as a field or as one of several attributes."""
    named = event_name or first(attributes, *_NAMES)
    return str(named[0] if isinstance(named, tuple) else named or "")[:MAX_NAME]


def may_hold_content(name: str, attributes: Attributes) -> bool:
    """True where the body is worth reading, whatever it is; of most log records it is not."""
    return name.startswith("gen_ai.") or any(key in attributes for key in _CONTENT)


def content_of(event: LogEvent) -> Attributes | None:
    """The content as attributes of a span, or of the event of one message; None without any."""
    if event.name in MESSAGES:
        message = _message(event)
        return None if message is None else {"content": message}
    read = {key: value for key, value in event.attributes.items() if key.startswith(_READ)}
    structure = _structure(event.body)
    if isinstance(structure, dict):
        own = {key: value for key, value in structure.items() if str(key).startswith("gen_ai.")}
        read = {**own, **read}
        for key, side in ((_INPUT, "input"), (_OUTPUT, "output")):
            if messages := _messages(structure.get(side)):
                read.setdefault(key, messages)
    return read if any(read.get(key) for key in _CONTENT) else None


def span_of(event: LogEvent, content: Attributes, resource: Resource) -> Span:
    """The event as it is stored; it has the same id whenever it is sent."""
    identity = _encode([event.span_id, event.name, event.time_ns, content])
    return Span(
        event.trace_id,
        xxhash.xxh3_128_digest(identity),
        event.span_id,
        event.name,
        event.time_ns,
        event.time_ns,
        content,
        resource=resource,
    )


def is_conversation(body: Any) -> bool:
    """True for the messages of a call in a body: ``{"input": {"messages": …}, "output": …}``."""
    return isinstance(body, dict) and any(_messages(body.get(side)) for side in ("input", "output"))


def _structure(body: Any) -> Any:
    """The structure in a JSON text; anything else as it is."""
    if not isinstance(body, str) or not body.lstrip().startswith(("{", "[")):
        return body
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return body


def _messages(side: Any) -> list[Any]:
    messages = side.get("messages") if isinstance(side, dict) else None
    return messages if isinstance(messages, list) else []


def _message(event: LogEvent) -> dict[str, Any] | None:
    """The message with its role; None without a text or parts."""
    structure = _structure(event.body)
    if not isinstance(structure, dict):
        structure = {"content": event.body} if event.body else {}
    entry = first(structure, *_OF_MESSAGE) or first(event.attributes, *_OF_MESSAGE)
    content = _structure(entry[0]) if entry else None
    if isinstance(content, dict) and (inner := first(content, *_OF_MESSAGE)):
        content = inner[0]
    if not content or not isinstance(content, str | list):
        return None
    return {"role": MESSAGES[event.name], "content": content}
