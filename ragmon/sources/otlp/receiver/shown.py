"""Stored spans for people: ids in hexadecimal, long texts cut."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ragmon.privacy import Policy, redact_text
from ragmon.sources.otlp.receiver.scrub import scrub
from ragmon.sources.otlp.spans import Span, unpack

_MOST_SPANS = 200
_MOST_TEXT = 2_000  # characters


def shown_spans(bodies: Sequence[bytes], text: Policy) -> tuple[list[dict[str, Any]], int]:
    """The first spans of a trace as JSON has them, and how many more there are."""
    try:
        spans = unpack(bodies)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return [], 0
    first = spans[:_MOST_SPANS]
    shown = scrub(first, redact_text) if text == "redact" else first
    return [_plain(span) for span in shown], len(spans) - len(first)


def _plain(span: Span) -> dict[str, Any]:
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": span.parent_id.hex(),
        "name": span.name,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "status": span.status,
        "message": _cut(span.message),
        "scope": span.scope,
        "service": span.resource.service,
        "attributes": _cut(span.attributes),
        "events": [
            {"name": event.name, "time_ns": event.time_ns, "attributes": _cut(event.attributes)}
            for event in span.events
        ],
    }


def _cut(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}…"
    if isinstance(value, bytes):
        return value[:_MOST_TEXT].hex()
    if isinstance(value, dict) and depth < 32:
        return {str(key): _cut(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list) and depth < 32:
        return [_cut(item, depth + 1) for item in value]
    return None if isinstance(value, dict | list) else value
