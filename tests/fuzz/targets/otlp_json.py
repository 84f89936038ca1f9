"""``POST /v1/traces`` in JSON: decoded, scrubbed, packed, mapped to queries, explained."""

from collections.abc import Callable, Iterator

import msgspec

from ragmon.decode import Decoder
from ragmon.errors import RecordError
from ragmon.privacy import redact_text
from ragmon.records import QueryRecord
from ragmon.sources.otlp import doctor
from ragmon.sources.otlp.receiver.results import Results
from ragmon.sources.otlp.receiver.scrub import scrub
from ragmon.sources.otlp.receiver.targets import Targets
from ragmon.sources.otlp.spans import DecodedSpans, Span, pack, unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.sources.otlp.wire import json as wire
from tests.fuzz import json_text, otlp
from tests.fuzz.guard import said_why
from tests.fuzz.source import Source
from tests.fuzz.worlds import BOUNDS, NOW

_ORIGINAL = Decoder(QueryRecord)
WORDS = [b'"traceId":"', b'"attributes":[', b'"stringValue":"', b'"arrayValue":{"values":[',
         b'"kvlistValue":{"values":[', b'"spanId":"', b'"key":"', b'"value":{']  # fmt: skip


def seeds() -> list[bytes]:
    """A trace as it is, and choices that make traces."""
    tree = otlp.request(Source(bytes(range(7, 200))))
    plain = bytes([1, 0]) + otlp.as_json(tree)
    return [plain, *choices()]


def choices() -> list[bytes]:
    """Bytes that make traces of several spans."""
    return [bytes([0, 0]) + bytes((step * at + step) % 256 for at in range(size))
            for step in (3, 5, 7, 11, 29, 53, 101, 197) for size in (60, 250)]  # fmt: skip


def run(data: bytes) -> None:
    """Every span is kept or refused with a reason, and mapping fails for none."""
    source = Source(data)
    is_raw, is_scrubbed = source.byte() & 1, source.chance(64)
    if is_raw:
        body = source.rest()
    else:
        body = otlp.as_json(otlp.request(source))
        body = json_text.damaged(source, body) if source.chance(24) else body
    check(body, wire.decode, is_scrubbed=is_scrubbed)


def check(
    body: bytes, decode: Callable[[bytes], Iterator[DecodedSpans]], *, is_scrubbed: bool
) -> None:
    """The way of a request from the wire to records."""
    by_trace: dict[bytes, list[bytes]] = {}
    try:
        for part in decode(body):
            _check_counts(part)
            spans = scrub(part.spans, redact_text) if is_scrubbed else part.spans
            rows = pack(spans)
            assert sum(row.spans for row in rows) == len(part.spans), "a span is lost"
            for row in rows:
                by_trace.setdefault(row.trace_id, []).append(row.body)
    except RecordError as error:
        said_why(error)
        return
    for bodies in by_trace.values():
        spans = unpack(bodies)
        assert pack(spans)[0].trace_id == spans[0].trace_id
        check_mapping(spans)


def _check_counts(part: DecodedSpans) -> None:
    assert all(count > 0 for count in (*part.refused.values(), *part.dropped.values()))
    assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in part.spans)


def check_mapping(spans: list[Span]) -> None:
    """The way of one trace from spans to records."""
    results = Results(Targets(), NOW, BOUNDS)
    results.add(spans)
    results.add_feedback(map_trace(spans, NOW))
    for record in results.records:
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=QueryRecord)
        assert stored == record
        assert _ORIGINAL(msgspec.json.encode(record), NOW, BOUNDS) == record
    for change in results.changes:
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(change), type=type(change))
        assert again == change
    msgspec.json.encode(doctor.explain(spans, NOW))
