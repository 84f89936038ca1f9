"""Langfuse scores and Phoenix annotations: refused with a reason, or feedback to be stored."""

import json
from functools import partial

import msgspec

from ragmon.errors import RecordError
from ragmon.sources.otlp.receiver import scores
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.traces.feedback import changes_for, stamped
from tests.fuzz import json_text as text
from tests.fuzz.guard import said_why
from tests.fuzz.source import Source
from tests.fuzz.worlds import BOUNDS, NOW

_STAMP = partial(stamped, now=NOW, bounds=BOUNDS)
_PATHS = (scores.LANGFUSE, *sorted(scores.PHOENIX))
_ID = text.literal('"' + "a" * 32 + '"', '"' + "b" * 16 + '"', '""', '"\\u0000"')
_TIME: text.Value = text.literal('"0001-01-01T00:00:00Z"', '"noon"', "1795000000", "-1", "1e30")
_LANGFUSE: text.Value = text.fields(
    {
        "traceId": _ID,
        "observationId": _ID,
        "name": text.literal('"user-feedback"', '"faithfulness"', '"helpfulness"', '""'),
        "value": lambda source: source.choose((text.number, text.text))(source),
        "stringValue": text.text,
        "comment": text.text,
        "source": text.literal('"ANNOTATION"', '"API"', "1"),
        "id": text.text,
        "timestamp": _TIME,
        "dataType": text.literal('"NUMERIC"', '"CATEGORICAL"', '"BOOLEAN"'),
    }
)
_PHOENIX = text.fields(
    {
        "span_id": _ID,
        "trace_id": _ID,
        "name": text.literal('"correctness"', '"user"', '"faithfulness"', '""'),
        "annotator_kind": text.literal('"HUMAN"', '"LLM"', '"CODE"', "1"),
        "identifier": text.text,
        "created_at": _TIME,
        "result": text.fields({"score": text.number, "label": text.text, "explanation": text.text}),
    }
)
WORDS = [b'"traceId":"', b'"value":', b'"data":[', b'"result":{', b'"score":', b'"name":"']


def seeds() -> list[bytes]:
    """One of each kind, and choices that make them."""
    one = {"traceId": "a" * 32, "name": "user-feedback", "value": 1, "comment": "good"}
    other = {"data": [{"span_id": "b" * 16, "name": "user", "result": {"score": 1, "label": "up"}}]}
    plain = [bytes([1, path]) + json.dumps(body).encode()
             for path, body in ((0, one), (1, other), (2, other))]  # fmt: skip
    return plain + [bytes([0, path]) + bytes((step * at + 3) % 256 for at in range(80))
                    for step in (3, 7, 29, 53) for path in range(3)]  # fmt: skip


def run(data: bytes) -> None:
    """Every item is accepted or refused."""
    source = Source(data)
    is_raw, path = source.byte() & 1, source.choose(_PATHS)
    body = source.rest() if is_raw else _generated(source, path)
    try:
        items = [item for part in scores.parts(path, body) for item in part]
    except RecordError as error:
        said_why(error)
        return
    accepted, refused = scores.read(path, items, Targets(), _STAMP)
    assert len(accepted) + len(refused) == _count(path, body)
    for query_id, evaluation, own_id in accepted:
        for change in changes_for(query_id, [evaluation]):
            stored = msgspec.msgpack.encode(change)
            assert msgspec.msgpack.decode(stored, type=type(change)) == change
        msgspec.json.encode({"id": own_id})


def _generated(source: Source, path: str) -> bytes:
    item = _LANGFUSE if path == scores.LANGFUSE else _PHOENIX
    items = [item(source) for _ in range(1 + source.below(3))]
    body = items[0] if source.chance(64) else "[" + ",".join(items) + "]"
    if path != scores.LANGFUSE:
        body = f'{{"data":{body}}}'
    return text.encoded(text.broken(source, body))


def _count(path: str, body: bytes) -> int:
    content = body
    if path != scores.LANGFUSE:
        content = msgspec.json.decode(body, type=dict[str, msgspec.Raw])["data"]
    try:
        return len(msgspec.json.decode(content, type=list[msgspec.Raw]))
    except msgspec.ValidationError:
        return 1
