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


def scrub(spans: Iterable[Span], redact: Redact) -> list[Span]:
    """The spans with every text redacted; ids, times, numbers and names stay."""
    return [
        replace(
            span,
            attributes=_scrub(span.attributes, redact),
            message=redact(span.message) if span.message else "",
            events=tuple(
                Event(each.name, each.time_ns, _scrub(each.attributes, redact))
                for each in span.events
            ),
        )
        for span in spans
    ]


def _scrub(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        held = loads(value)
        return redact(value) if held is value else _encode(_scrub(held, redact)).decode()
    if isinstance(value, dict):
        return {
            key: each if key in ID_KEYS or key.endswith(".document.id") else _scrub(each, redact)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_scrub(each, redact) for each in value]
    return value
