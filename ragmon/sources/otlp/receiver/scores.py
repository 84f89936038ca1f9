"""Feedback as the SDKs of tracing tools send it: Langfuse scores and Phoenix annotations."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ragmon.errors import RecordError
from ragmon.memory import MemoryReservation
from ragmon.records import timestamp_of
from ragmon.sources.bodies import check_number
from ragmon.sources.json_scan import count_byte, count_objects
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.reading.values import number
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.wire.limits import reserve_json

LANGFUSE = "/api/public/scores"
PHOENIX = {"/v1/span_annotations": "span_id", "/v1/trace_annotations": "trace_id"}
PARAMETERS = ("sync",)
"""Parameters of Phoenix's SDKs: whether to wait, as ragmon always does."""

Scored = tuple[str, SpanEvaluation, str]  # query id, evaluation, the sender's own id
Stamp = Callable[[SpanEvaluation], SpanEvaluation]


def check(path: str, body: bytes, most: int, memory: MemoryReservation) -> None:
    """Refuse a request that is too large to be decoded.

    Raises:
        RecordError: it has more scores than ``most``.
        MemoryLimitError: it would take too much memory.
    """
    if count_byte(body, b"{") > most:
        check_number(count_objects(body, 2 if path == LANGFUSE else 3, most), most)
    reserve_json(memory, body)


def read(
    path: str, body: bytes, targets: Targets, stamp: Stamp
) -> tuple[list[Scored], list[RecordError]]:
    """The evaluations of a request with the query of each, and the errors of refused ones.

    Args:
        path: of the request.
        body: of the request.
        targets: to find queries by their spans.
        stamp: gives an evaluation the time that it is stored with, or raises RecordError.

    Raises:
        RecordError: it is no JSON of this kind.
    """
    try:
        content = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError("malformed", "", f"no JSON: {error}") from None
    if path == LANGFUSE:
        return _collect(map(_langfuse, _items(content)), targets, stamp)
    data = content.get("data") if isinstance(content, dict) else None
    return _collect(map(_phoenix, _items(data)), targets, stamp)


_Named = tuple[str, str, SpanEvaluation, str]  # trace id, span id, evaluation, own id


def _items(content: Any) -> list[dict[str, Any]]:
    items = content if isinstance(content, list) else [content]
    if not all(isinstance(each, dict) for each in items):
        raise RecordError("invalid", "", "expected an object or a list of objects")
    return items


def _collect(
    named: Iterable[_Named], targets: Targets, stamp: Stamp
) -> tuple[list[Scored], list[RecordError]]:
    accepted, refused = [], []
    for trace_id, span_id, evaluation, own_id in named:
        try:
            query_id = _query_id(trace_id, span_id, targets)
            if not evaluation.name:
                raise RecordError("invalid", "name", "is empty", hint="name the score")
            accepted.append((query_id, stamp(evaluation), own_id))
        except RecordError as error:
            refused.append(error)
    return accepted, refused


def _query_id(trace_id: str, span_id: str, targets: Targets) -> str:
    query_id = targets.find(span_id) or trace_id
    if query_id:
        return query_id
    if span_id:
        hint = "name the trace as well, or send the score once its trace was received"
        raise RecordError("unknown_span", "", "no query is known of this span", hint=hint)
    hint = "name the trace or the span that is scored"
    raise RecordError("no_target", "", "names neither a trace nor a span", hint=hint)


def _langfuse(item: dict[str, Any]) -> _Named:
    value = item.get("value")
    worded = isinstance(value, str) and number(value) is None
    return (
        _hex(item.get("traceId")),
        _hex(item.get("observationId")),
        SpanEvaluation(
            str(item.get("name") or ""),
            None if worded else _number(value),
            str(value) if worded else _text(item.get("stringValue")),
            _text(item.get("comment")),
            "HUMAN" if item.get("source") == "ANNOTATION" else "",
            timestamp=_time(item.get("timestamp")),
        ),
        str(item.get("id") or ""),
    )


def _phoenix(item: dict[str, Any]) -> _Named:
    raw = item.get("result")
    result: dict[str, Any] = raw if isinstance(raw, dict) else {}
    return (
        _hex(item.get("trace_id")),
        _hex(item.get("span_id")),
        SpanEvaluation(
            str(item.get("name") or ""),
            number(result.get("score")),
            _text(result.get("label")),
            _text(result.get("explanation")),
            str(item.get("annotator_kind") or "").upper(),
            str(item.get("identifier") or ""),
            timestamp=_time(item.get("created_at")),
        ),
        "",
    )


def _time(value: Any) -> float:
    """Unix seconds as exports of both tools write them; NaN for what is no time."""
    try:
        return timestamp_of(value)
    except msgspec.ValidationError:
        return math.nan


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool) else number(value)


def _hex(value: Any) -> str:
    return value.lower()[:256] if isinstance(value, str) else ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
