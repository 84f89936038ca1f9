"""Content that came in log events, put into the spans it belongs to: pure.

Spans and log events of one trace come in any order; they are joined whenever the trace is mapped.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from ragmon.sources.otlp.reading.log_events import MESSAGES
from ragmon.sources.otlp.spans import FORBIDDEN, Event, Span


class JoinedSpans(NamedTuple):
    """Spans with the content of their log events, and why events joined none."""

    spans: Sequence[Span]
    left_out: Mapping[bytes, str] = MappingProxyType({})  # reasons by the id of the event


def join_content(spans: Sequence[Span]) -> JoinedSpans:
    """Join log events with their spans; what a span says itself stays as it is.

    Args:
        spans: of one trace, with its log events.
    """
    by_span: dict[bytes, list[Span]] = {}
    for event in spans:
        if event.is_log_event:
            by_span.setdefault(event.parent_id, []).append(event)
    if not by_span:
        return JoinedSpans(spans)
    joined: list[Span] = []
    left_out: dict[bytes, str] = {}
    for span in spans:
        if span.is_log_event:
            continue
        events = by_span.pop(span.span_id, ())
        admitted = [event for event in events if _may_join(event, span)]
        left_out |= {event.span_id: FORBIDDEN for event in events if event not in admitted}
        joined.append(_with_content(span, admitted) if admitted else span)
    lost = (event for events in by_span.values() for event in events)
    return JoinedSpans(joined, left_out | {event.span_id: "no_span" for event in lost})


def _may_join(event: Span, span: Span) -> bool:
    """True for a sender of every pipeline, or one with the limits of the span's own."""
    return not event.sender_pipelines or event.sender_pipelines == span.sender_pipelines


def _with_content(span: Span, events: Iterable[Span]) -> Span:
    attributes = dict(span.attributes)
    messages = list(span.events)
    for event in sorted(events, key=lambda event: event.start_ns):
        if event.name in MESSAGES:
            messages.append(Event(event.name, event.start_ns, event.attributes))
            continue
        for key, value in event.attributes.items():
            if attributes.get(key) in (None, "", []):
                attributes[key] = value
    return replace(span, attributes=attributes, events=tuple(messages))
