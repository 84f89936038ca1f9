"""Spans as they may wait on disk when ``privacy.text`` is redact or drop.

A record is made fit to be stored when its trace is complete; until then its spans lie in the
store, and hold the same texts. JSON is opened, so that numbers in it are not taken for secrets.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ragmon.sources.otlp.reading.documents import ID_KEYS
from ragmon.sources.otlp.reading.values import loads
from ragmon.sources.otlp.spans import Event, Span

Redact = Callable[[str], str]

_encode = msgspec.json.Encoder().encode
_MOST_DEPTH = 32  # a text of nested brackets would exhaust the stack


def scrub(spans: Iterable[Span], redact: Redact) -> list[Span]:
    """The spans with every text redacted; ids, times, numbers and names stay."""
    return [
        replace(
            span,
            attributes=_scrub(span.attributes, redact),
            message=redact(span.message) if span.message else "",
            events=tuple(
                Event(event.name, event.time_ns, _scrub(event.attributes, redact))
                for event in span.events
            ),
        )
        for span in spans
    ]


def _scrub(value: Any, redact: Redact, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _scrub_text(value, redact, depth)
    if depth >= _MOST_DEPTH:
        return None  # nothing that ragmon reads lies so deep
    if isinstance(value, dict):
        return {
            key: item
            if key in ID_KEYS or key.endswith(".document.id")
            else _scrub(item, redact, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_scrub(item, redact, depth + 1) for item in value]
    return None if isinstance(value, bytes) else value  # an embedding tells what the text says


def _scrub_text(text: str, redact: Redact, depth: int) -> str:
    """A text redacted as a whole, or value by value where it is JSON."""
    structure = loads(text) if depth < _MOST_DEPTH else text
    if structure is text:
        return redact(text)
    return _encode(_scrub(structure, redact, depth + 1)).decode()
