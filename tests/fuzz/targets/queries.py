"""Bodies of ``POST /v1/queries``: decoded, admitted, observed, folded, stored and described."""

from typing import Any

import msgspec
import numpy as np

from ragmon import queries
from ragmon.decode import Decoder, Rejection, elements, ignored_fields, rejection
from ragmon.errors import RecordError
from ragmon.memory import MemoryBudget, MemoryReservation
from ragmon.pipeline import Pipeline
from ragmon.records import QueryRecord
from ragmon.sources.bodies import Terms, decode_body
from ragmon.windows import Windows
from ragmon.windows.observations import Observations, pack, unpack
from tests.fuzz import json_text as json
from tests.fuzz.source import Source
from tests.fuzz.worlds import BOUNDS, NOW, PRIVACIES, pipeline, windows

DECODE = Decoder(QueryRecord)
CONTENT_TYPES = ("", "application/json", "application/x-ndjson", "application/jsonl", "text/plain")
REASONS = {"malformed", "encoding", "too_deep", "invalid", "too_old", "future"}
_MOST_RECORDS, _MOST_BYTES = 10_000, 1 << 30  # limits.records and limits.memory
_CHUNK = json.fields(
    {
        "id": json.text,
        "score": json.number,
        "text": json.text,
        "source": json.text,
        "x": json.value,
    },
    most=5,
)
_GOOD_CHUNK = json.literal(
    '{"id":"c-1","score":0.9,"text":"Paris is the capital."}', '{"id":"c-2"}', '{"id":"c-1"}'
)
_FIELDS: dict[str, json.Value] = {
    "query_id": json.text,
    "timestamp": lambda source: source.choose((json.number, json.text))(source),
    "pipeline": json.text,
    "version": json.text,
    "tags": json.mapping(json.literal('"tenant"', '"env"', '"x"'), json.text),
    "query": json.text,
    "answer": json.text,
    "chunks": json.listing(lambda source: source.choose((_GOOD_CHUNK, _CHUNK))(source)),
    "citations": json.listing(json.literal('"c-1"', '"c-2"', '"x"', "1")),
    "latency_ms": lambda source: source.choose((json.number, _STAGES))(source),
    "feedback": lambda source: source.choose((json.literal('"positive"', "-1"), json.number))(
        source
    ),
    "relevant_ids": json.listing(json.literal('"c-1"', '"c-2"', '"x"')),
    "grades": json.mapping(json.literal('"c-1"', '"c-2"'), json.number),
    "error": json.text,
    "model": json.text,
    "tokens": json.fields({"prompt": json.number, "completion": json.number, "x": json.value}),
    "cost_usd": json.number,
    "session_id": json.text,
    "user_id": json.text,
    "trace_id": json.text,
    "span_id": json.text,
    "environment": json.text,
    "retrieval_query": json.text,
    "steps": json.listing(
        json.fields(
            {
                "kind": json.literal('"retrieval"', '"tool"', '"x"'),
                "tool": json.text,
                "chunk_ids": json.listing(json.literal('"c-1"', '"x"')),
                "failed": json.value,
            }
        )
    ),
    "query_answer_similarity": json.number,
    "embeddings": json.fields(
        {"query": json.listing(json.number), "answer": json.listing(json.number)}
    ),
    "unknown": json.value,
    "Query": json.text,
    "latency": json.number,
}
_STAGES = json.fields(
    {"total": json.number, "retrieval": json.number, "generation": json.number, "x": json.value}
)
_RECORD = json.fields(_FIELDS)

WORDS = [f'"{name}":'.encode() for name in _FIELDS]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(QueryRecord).decode
_folded: dict[str, list[Any]] = {}


def seeds() -> list[bytes]:
    """A plain record, several in each form, and choices that make records with many fields."""
    record = b'{"query":"q","answer":"a [1]","chunks":[{"id":"c-1","score":0.5}],"latency_ms":5}'
    plain = [record, b"[" + record + b"," + record + b"]", record + b"\n" + record]
    raw = [
        bytes([1, form, privacy]) + body for body in plain for form in (0, 2) for privacy in (0, 1)
    ]
    return raw + [bytes([0, form, 2]) + bytes((step * at) % 256 for at in range(120))
                  for step in (3, 7, 11, 29, 53, 101) for form in range(4)]  # fmt: skip


def run(data: bytes) -> None:
    """Every line is accepted or refused, and what is accepted comes back equal."""
    source = Source(data)
    is_raw, content_type = source.byte() & 1, source.choose(CONTENT_TYPES)
    privacy = source.choose(PRIVACIES)
    body = source.rest() if is_raw else generated(source, _RECORD)
    records, refused = decoded(DECODE, QueryRecord, body, content_type)
    check_refused(refused)
    if records:
        check_records(records, pipeline(privacy), privacy)


def generated(source: Source, record: json.Value) -> bytes:
    """A body of records in one of its forms; some are long enough to be decoded as a whole."""
    records = [json.broken(source, record(source)) for _ in range(1 + source.below(4))]
    form = source.below(4)
    if form == 0:
        if source.chance(8):  # long enough to be decoded as a whole
            records *= 1 + 10_000 // max(20, sum(map(len, records)))
        body = source.choose(("\n", "\r\n", "\n\n", "\n \n")).join(records)
    elif form < 3:
        body = "[" + source.choose((",", ", ", ",\n", ",,")).join(records) + "]"
    else:
        body = records[0]
    return json.damaged(source, json.encoded(body)) if source.chance(48) else json.encoded(body)


def decoded(
    decode: Decoder[Any], kind: type, body: bytes, content_type: str
) -> tuple[list[Any], list[Rejection]]:
    """The records and refused lines of a body; every line is one of them."""
    records: list[Any] = []
    refused: list[Rejection] = []
    lines: list[int] = []
    terms = Terms(NOW, BOUNDS, _MOST_RECORDS, MemoryReservation(MemoryBudget(_MOST_BYTES)))
    try:
        for at, part in enumerate(decode_body(decode, body, content_type, terms)):
            if at == 0:
                msgspec.json.encode(ignored_fields(part.sample, kind))
            records += part.records
            lines += part.lines
            refused += part.rejections
    except RecordError as error:
        return [], [rejection(1, error)]
    assert len(lines) == len(records)
    numbers = sorted([*lines, *(each.line for each in refused)])
    assert numbers == expected_lines(body, content_type), "a line is lost or counted twice"
    return records, refused


def expected_lines(body: bytes, content_type: str) -> list[int]:
    """Numbers of the lines that hold something."""
    parts = elements(body, content_type)
    if parts is not None:
        return list(range(1, len(parts) + 1))
    return [at for at, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def check_refused(refused: list[Rejection]) -> None:
    """Each says what is wrong and what to do, in a form that can be sent."""
    for each in refused[:100]:
        assert each.error, each
        assert each.remedy, each
        assert each.reason in REASONS, each
    msgspec.json.encode(refused[:100])


def check_records(records: list[QueryRecord], of: Pipeline, privacy: str) -> None:
    """Stored, observed, folded and described, they stay what they are."""
    for record in records[:50]:
        again = DECODE(msgspec.json.encode(record), NOW, BOUNDS)
        assert again == record, "what was accepted is not accepted as the same again"
    admitted = [of.admit(record) for record in records]
    stored = [_encode(record) for record in admitted]
    assert [_decode(body) for body in stored] == admitted
    observations = of.observe(admitted)
    assert_equal(unpack(pack(observations, of.columns), of.columns), observations)
    check_fold(observations, of, privacy)
    described = queries.describe([(stored[0], None)], of)[0]
    assert described.record.query_id == admitted[0].query_id
    msgspec.json.decode(msgspec.json.encode(described))


def check_fold(observations: Observations, of: Pipeline, key: str) -> None:
    """Every record is counted, and no sum is spoilt."""
    state = _folded.get(key)
    if state is None or state[1] > 200:  # a finding should need one input, not a million
        state = _folded[key] = [windows(of), 0]
    state[1] += 1
    target: Windows = state[0]
    before = _counted(target)
    target.fold(observations)
    assert _counted(target) == before + len(observations)
    assert np.isfinite(target.totals.rows).all()


def _counted(target: Windows) -> float:
    """Queries of all pipelines, each counted in one."""
    numbers = [number for key, number in target.series.keys.items() if not key.dimension]
    return float(target.totals.queries[numbers].sum())


def assert_equal(one: Observations, other: Observations) -> None:
    """The same observations; unknown is equal to unknown."""
    assert one.slices == other.slices
    assert [tuple(dims) for dims in one.dims] == [tuple(dims) for dims in other.dims]
    assert np.array_equal(one.dim_index, other.dim_index)
    assert np.array_equal(one.timestamps, other.timestamps)
    assert np.array_equal(one.values, other.values, equal_nan=True)
