"""``POST /v1/logs`` in both encodings: evaluations, and the feedback and labels they become."""

import itertools

import msgspec

from ragmon.errors import RecordError
from ragmon.sources.otlp.receiver import logs
from ragmon.sources.otlp.traces.feedback import changes_for, stamped
from tests.fuzz import json_text, otlp
from tests.fuzz.guard import said_why
from tests.fuzz.source import Source
from tests.fuzz.worlds import BOUNDS, NOW

WORDS = [b'"logRecords":[', b'"eventName":"gen_ai.evaluation.result"', b'"attributes":[',
         b'"gen_ai.evaluation.score.value"', b'"traceId":"']  # fmt: skip


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
    try:
        parts = list(logs.evaluations(body, "protobuf" if is_protobuf else "json"))
    except RecordError as error:
        said_why(error)
        return
    for each in itertools.chain.from_iterable(parts):
        try:
            evaluation = stamped(each.evaluation, NOW, BOUNDS)
        except RecordError as error:
            said_why(error)
            continue
        for change in changes_for("q", [evaluation]):
            stored = msgspec.msgpack.encode(change)
            assert msgspec.msgpack.decode(stored, type=type(change)) == change
