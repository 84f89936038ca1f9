"""``POST /v1/logs`` in both encodings: evaluations and the feedback and labels they become, content
and the spans that it joins; and ``POST /v1/metrics``, which is only counted.
"""

import msgspec

from ragmon.errors import RecordError
from ragmon.sources.otlp.receiver import logs, metrics
from ragmon.sources.otlp.receiver.responses import Encoding
from ragmon.sources.otlp.spans import Span, pack, unpack
from ragmon.sources.otlp.traces.feedback import changes_for, stamped
from tests.fuzz import json_text, otlp
from tests.fuzz.guard import said_why
from tests.fuzz.otlp import NOW_NS
from tests.fuzz.source import Source
from tests.fuzz.targets.otlp_json import check_mapping
from tests.fuzz.worlds import BOUNDS, NOW

WORDS = [b'"logRecords":[', b'"eventName":"gen_ai.evaluation.result"', b'"attributes":[',
         b'"gen_ai.evaluation.score.value"', b'"traceId":"', b'"body":{"kvlistValue":{"values":[',
         b'"gen_ai.input.messages"', b'"gen_ai.choice"']  # fmt: skip


def seeds() -> list[bytes]:
    """Log records of each encoding, and choices that make them."""
    tree = otlp.log_request(Source(bytes(range(100, 200))))
    plain = [bytes([1]) + otlp.as_json(tree), bytes([3]) + otlp.as_protobuf(tree)]
    return plain + [bytes([form]) + bytes((step * at + 3) % 256 for at in range(120))
                    for step in (3, 7, 29, 53) for form in (0, 2)]  # fmt: skip


def run(data: bytes) -> None:
    """Refused as a whole, or every evaluation becomes changes that can be stored."""
    source = Source(data)
    form = source.byte()
    is_raw, is_protobuf = form & 1, form & 2
    if is_raw:
        body = source.rest()
    else:
        tree = otlp.log_request(source)
        body = otlp.as_protobuf(tree) if is_protobuf else otlp.as_json(tree)
        body = json_text.damaged(source, body) if source.chance(24) else body
    encoding: Encoding = "protobuf" if is_protobuf else "json"
    _check_points(body, encoding)
    try:
        parts = list(logs.decode(body, encoding))
    except RecordError as error:
        said_why(error)
        return
    _check_content([span for part in parts for span in part.content.spans])
    for each in (logged for part in parts for logged in part.evaluations):
        try:
            evaluation = stamped(each.evaluation, NOW, BOUNDS)
        except RecordError as error:
            said_why(error)
            continue
        for change in changes_for("q", [evaluation]):
            stored = msgspec.msgpack.encode(change)
            assert msgspec.msgpack.decode(stored, type=type(change)) == change


def _check_points(body: bytes, encoding: Encoding) -> None:
    """Metrics have the same messages down to the records."""
    renamed = body.replace(b"resourceLogs", b"resourceMetrics").replace(
        b"scopeLogs", b"scopeMetrics"
    )
    try:
        assert metrics.count_points(renamed, encoding, most=1_000) >= 0
    except RecordError as error:
        said_why(error)


def _check_content(events: list[Span]) -> None:
    """Store every event as it is, and join it with a model call."""
    for trace_id in {event.trace_id for event in events}:
        own = [event for event in events if event.trace_id == trace_id]
        assert all(event.is_log_event for event in own)
        calls = [
            Span(trace_id, name, b"", "chat", NOW_NS, NOW_NS + 5, {"gen_ai.operation.name": "chat"})
            for name in sorted({event.parent_id for event in own[:3]})
        ]
        stored = unpack([row.body for row in pack([*own, *calls])])
        assert len(stored) == len({event.span_id for event in own}) + len(calls)
        check_mapping(stored)
