"""Feedback as the SDKs of tracing tools send it: Langfuse scores and Phoenix annotations."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ragmon.errors import RecordError
from ragmon.json_scan import count_byte, count_objects
from ragmon.memory import MemoryReservation
from ragmon.records import timestamp_of
from ragmon.sources.bodies import check_number
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.reading.values import number
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.wire.limits import reserve_json

LANGFUSE = "/api/public/scores"
PHOENIX = {"/v1/span_annotations": "span_id", "/v1/trace_annotations": "trace_id"}
PARAMETERS = ("sync",)
"""Parameters of Phoenix's SDKs: whether to wait, as ragmon always does."""

_ANNOTATORS = {"ANNOTATION": "HUMAN", "EVAL": "LLM"}
"""Of Langfuse's scores by their source; those sent by an API may be anybody's."""
_AT_ONCE = 200  # two milliseconds
_NONE = msgspec.Raw(b"null")


class _Annotations(msgspec.Struct):
    """The body of Phoenix's clients."""

    data: msgspec.Raw


class _LangfuseScore(msgspec.Struct, rename="camel"):
    """A score; its fields are decoded one by one, since a client may send anything in them."""

    trace_id: msgspec.Raw = _NONE
    observation_id: msgspec.Raw = _NONE
    name: msgspec.Raw = _NONE
    value: msgspec.Raw = _NONE
    string_value: msgspec.Raw = _NONE
    comment: msgspec.Raw = _NONE
    source: msgspec.Raw = _NONE
    timestamp: msgspec.Raw = _NONE
    id: msgspec.Raw = _NONE


class _PhoenixAnnotation(msgspec.Struct):
    """An annotation, decoded likewise."""

    trace_id: msgspec.Raw = _NONE
    span_id: msgspec.Raw = _NONE
    name: msgspec.Raw = _NONE
    annotator_kind: msgspec.Raw = _NONE
    identifier: msgspec.Raw = _NONE
    created_at: msgspec.Raw = _NONE
    result: msgspec.Raw = _NONE


class _PhoenixResult(msgspec.Struct):
    """The values of an annotation."""

    score: msgspec.Raw = _NONE
    label: msgspec.Raw = _NONE
    explanation: msgspec.Raw = _NONE


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


def parts(path: str, body: bytes) -> list[list[msgspec.Raw]]:
    """The scores of a request as they stand in its body, some hundred at a time, not yet decoded.

    Raises:
        RecordError: it is no JSON of this kind.
    """
    try:
        content = msgspec.json.decode(body, type=msgspec.Raw)
        if path != LANGFUSE:
            content = msgspec.json.decode(content, type=_Annotations).data
        items = _list_of(content)
        return [items[at : at + _AT_ONCE] for at in range(0, len(items), _AT_ONCE)]
    except msgspec.ValidationError:
        raise RecordError("invalid", "", "expected an object or a list of objects") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError("malformed", "", f"no JSON: {error}") from None


def _list_of(content: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        return [content]


def read(
    path: str, items: Iterable[msgspec.Raw], targets: Targets, stamp: Stamp
) -> tuple[list[Scored], list[RecordError]]:
    """The evaluations of some scores with the query of each, and the errors of refused ones.

    Args:
        path: of the request.
        items: of the request.
        targets: to find queries by their spans.
        stamp: gives an evaluation the time that it is stored with, or raises RecordError.
    """
    named = _langfuse if path == LANGFUSE else _phoenix
    accepted, refused = [], []
    for item in items:
        try:
            trace_id, span_id, evaluation, own_id = named(item)
            query_id = _query_id(trace_id, span_id, targets)
            if not evaluation.name:
                raise RecordError("invalid", "name", "is empty", hint="name the score")
            accepted.append((query_id, stamp(evaluation), own_id))
        except msgspec.ValidationError:
            refused.append(RecordError("invalid", "", "expected an object"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            refused.append(RecordError("malformed", "", f"no JSON: {error}"))
        except RecordError as error:
            refused.append(error)
    return accepted, refused


_Named = tuple[str, str, SpanEvaluation, str]  # trace id, span id, evaluation, own id


def _query_id(trace_id: str, span_id: str, targets: Targets) -> str:
    query_id = targets.find(span_id) or trace_id
    if query_id:
        return query_id
    if span_id:
        hint = "name the trace as well, or send the score once its trace was received"
        raise RecordError("unknown_span", "", "no query is known of this span", hint=hint)
    hint = "name the trace or the span that is scored"
    raise RecordError("no_target", "", "names neither a trace nor a span", hint=hint)


def _langfuse(item: msgspec.Raw) -> _Named:
    score = msgspec.json.decode(item, type=_LangfuseScore)
    value = _plain(score.value)
    worded = isinstance(value, str) and number(value) is None
    return (
        _hex(_plain(score.trace_id)),
        _hex(_plain(score.observation_id)),
        SpanEvaluation(
            str(_plain(score.name) or ""),
            None if worded else _number(value),
            str(value) if worded else _text(_plain(score.string_value)),
            _text(_plain(score.comment)),
            _ANNOTATORS.get(str(_plain(score.source)), ""),
            timestamp=_time(_plain(score.timestamp)),
        ),
        str(_plain(score.id) or ""),
    )


def _phoenix(item: msgspec.Raw) -> _Named:
    annotation = msgspec.json.decode(item, type=_PhoenixAnnotation)
    result = _PhoenixResult()
    if _begins(annotation.result, b"{"):
        result = msgspec.json.decode(annotation.result, type=_PhoenixResult)
    return (
        _hex(_plain(annotation.trace_id)),
        _hex(_plain(annotation.span_id)),
        SpanEvaluation(
            str(_plain(annotation.name) or ""),
            number(_plain(result.score)),
            _text(_plain(result.label)),
            _text(_plain(result.explanation)),
            str(_plain(annotation.annotator_kind) or "").upper(),
            str(_plain(annotation.identifier) or ""),
            timestamp=_time(_plain(annotation.created_at)),
        ),
        "",
    )


def _plain(raw: msgspec.Raw) -> Any:
    """A string, a number, a truth value or None; None as well for a list or an object."""
    return None if _begins(raw, b"[{") else msgspec.json.decode(raw)


def _begins(raw: msgspec.Raw, with_one_of: bytes) -> bool:
    return memoryview(raw)[0] in with_one_of


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
