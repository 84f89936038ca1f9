"""Feedback as the SDKs of tracing tools send it: Langfuse scores and Phoenix annotations."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ragmon.errors import RecordError
from ragmon.memory import MemoryReservation
from ragmon.sources.bodies import check_number
from ragmon.sources.json_scan import count_byte, count_objects
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.reading.values import number
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.wire.limits import reserve_json

LANGFUSE = "/api/public/scores"
PHOENIX = {"/v1/span_annotations": "span_id", "/v1/trace_annotations": "trace_id"}

Scored = tuple[str, SpanEvaluation, str]  # query id, evaluation, the sender's own id


def check(path: str, body: bytes, most: int, memory: MemoryReservation) -> None:
    """Refuse a request that is too large to be decoded.

    Raises:
        RecordError: it has more scores than ``most``.
        MemoryLimitError: it would take too much memory.
    """
    if count_byte(body, b"{") > most:
        check_number(count_objects(body, 2 if path == LANGFUSE else 3, most), most)
    reserve_json(memory, body)


def read(path: str, body: bytes, targets: Targets) -> tuple[list[Scored], list[str]]:
    """The evaluations of a request with the query of each, and the reasons of refused ones.

    Raises:
        RecordError: it is no JSON of this kind.
    """
    try:
        content = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError("malformed", "", f"no JSON: {error}") from None
    if path == LANGFUSE:
        return _collect(map(_langfuse, _items(content)), targets)
    data = content.get("data") if isinstance(content, dict) else None
    key = PHOENIX[path]
    return _collect((_phoenix(each, key) for each in _items(data)), targets)


_Named = tuple[str, str, SpanEvaluation, str]  # trace id, span id, evaluation, own id


def _items(content: Any) -> list[dict[str, Any]]:
    items = content if isinstance(content, list) else [content]
    if not all(isinstance(each, dict) for each in items):
        raise RecordError("invalid", "", "expected an object or a list of objects")
    return items


def _collect(named: Iterable[_Named], targets: Targets) -> tuple[list[Scored], list[str]]:
    accepted, refused = [], []
    for trace_id, span_id, evaluation, own_id in named:
        query_id = targets.find(span_id) or trace_id
        if not query_id:
            refused.append("unknown_span" if span_id else "no_target")
        elif not evaluation.name:
            refused.append("invalid")
        else:
            accepted.append((query_id, evaluation, own_id))
    return accepted, refused


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
        ),
        str(item.get("id") or ""),
    )


def _phoenix(item: dict[str, Any], key: str) -> _Named:
    raw = item.get("result")
    result: dict[str, Any] = raw if isinstance(raw, dict) else {}
    target = _hex(item.get(key))
    return (
        target if key == "trace_id" else "",
        target if key == "span_id" else "",
        SpanEvaluation(
            str(item.get("name") or ""),
            number(result.get("score")),
            _text(result.get("label")),
            _text(result.get("explanation")),
            str(item.get("annotator_kind") or "").upper(),
            str(item.get("identifier") or ""),
        ),
        "",
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool) else number(value)


def _hex(value: Any) -> str:
    return value.lower()[:256] if isinstance(value, str) else ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
