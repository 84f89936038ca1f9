"""Bytes to records: every bad line is explained, every good one kept, nothing raises."""

import math
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragmon.decode import Decoder, ignored_fields, rejection
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.records import Feedback, Label, QueryRecord

NOW = 1_750_000_000.0
BOUNDS = Bounds(NOW - 7 * 86_400, NOW + 300)

query = Decoder(QueryRecord)
feedback = Decoder(Feedback)
label = Decoder(Label)


def refused(line: bytes, decode=query) -> RecordError:
    with pytest.raises(RecordError) as caught:
        decode(line, NOW, BOUNDS)
    return caught.value


# ------------------------------------------------------------------------------- bad lines


@pytest.mark.parametrize(
    ("line", "reason", "field", "message"),
    [
        pytest.param(b'{"query": "a"', "malformed", "", "truncated", id="half an object"),
        pytest.param(b"", "malformed", "", "truncated", id="nothing"),
        pytest.param(b"hello", "malformed", "", "malformed", id="no JSON"),
        pytest.param(b'{"query":"a"}{', "malformed", "", "trailing", id="something after it"),
        pytest.param(b"{'query':'a'}", "malformed", "", "malformed", id="Python's repr"),
        pytest.param(b'{"cost_usd":NaN}', "malformed", "", "malformed", id="NaN"),
        pytest.param(b'{"cost_usd":Infinity}', "malformed", "", "malformed", id="Infinity"),
        pytest.param(b'{"mine":NaN}', "malformed", "", "malformed", id="NaN in an unknown field"),
        pytest.param(b'{"query":"a\x00b"}', "malformed", "", "malformed", id="a raw NUL"),
        pytest.param(b'{"query":"a\nb"}', "malformed", "", "malformed", id="a raw line break"),
        pytest.param(b'{"query":"\\ud800"}', "malformed", "", "surrogate", id="a lone surrogate"),
        pytest.param(
            b'{"mine":"\\udc00"}', "malformed", "", "surrogate", id="half a pair, unknown field"
        ),
        pytest.param(b"\xef\xbb\xbf{}", "malformed", "", "malformed", id="a byte order mark"),
        pytest.param(b"null", "invalid", "", "expected object, got null", id="null"),
        pytest.param(b"[]", "invalid", "", "expected object, got array", id="an array"),
        pytest.param(b'"text"', "invalid", "", "expected object, got str", id="a text"),
        pytest.param(
            b'{"chunks":[{"id":"a","score":"high"}]}',
            "invalid",
            "chunks[0].score",
            "expected number, got str",
            id="a wrong type at depth",
        ),
        pytest.param(
            b'{"chunks":[{"id":"a"},{"score":1}]}',
            "invalid",
            "chunks[1].id",
            "missing required field id",
            id="a chunk without an id",
        ),
        pytest.param(b'{"chunks":{}}', "invalid", "chunks", "array", id="chunks as an object"),
        pytest.param(
            b'{"chunks":["a"]}', "invalid", "chunks[0]", "expected object", id="chunks as texts"
        ),
        pytest.param(b'{"cost_usd":1e999}', "invalid", "cost_usd", "out of range", id="1e999"),
        pytest.param(
            b'{"chunks":[{"id":"a","score":-1e999}]}',
            "invalid",
            "chunks[0].score",
            "out of range",
            id="-1e999 at depth",
        ),
        pytest.param(
            b'{"tokens":{"prompt":1' + b"0" * 400 + b"}}",
            "invalid",
            "tokens.prompt",
            "<= 1000000000000",
            id="an integer of 400 digits",
        ),
        pytest.param(
            b'{"tokens":{"prompt":9223372036854775807}}',
            "invalid",
            "tokens.prompt",
            "<= 1000000000000",
            id="the largest 64-bit integer",
        ),
        pytest.param(
            b'{"latency_ms":-1}', "invalid", "latency_ms", ">= 0.0", id="a negative latency"
        ),
        pytest.param(
            b'{"latency_ms":"12"}', "invalid", "latency_ms", "got str", id="a number as text"
        ),
        pytest.param(b'{"timestamp":true}', "invalid", "timestamp", "got bool", id="true as time"),
        pytest.param(
            b'{"timestamp":"2025-06-15T12:00:00"}',
            "invalid",
            "timestamp",
            "timezone",
            id="a time without a zone",
        ),
        pytest.param(b'{"timestamp":"noon"}', "invalid", "timestamp", "RFC3339", id="noon"),
        pytest.param(b'{"timestamp":1e300}', "invalid", "timestamp", "<=", id="a time of 1e300"),
        pytest.param(b'{"timestamp":-1}', "invalid", "timestamp", ">= 0.0", id="before 1970"),
        pytest.param(
            b'{"timestamp":0}', "too_old", "timestamp", "is more than 20254d old", id="1970"
        ),
        pytest.param(
            b'{"timestamp":"0001-01-01T00:00:00Z"}',
            "too_old",
            "timestamp",
            "before 1970",
            id="year 1",
        ),
        pytest.param(
            b'{"timestamp":"9999-12-31T23:59:59Z"}',
            "future",
            "timestamp",
            "in the future",
            id="year 9999",
        ),
        pytest.param(b'{"feedback":"great"}', "invalid", "feedback", "great", id="unknown rating"),
        pytest.param(b'{"feedback":1.5}', "invalid", "feedback", "<= 1.0", id="rating above 1"),
        pytest.param(b'{"tags":{"a":3}}', "invalid", "tags[...]", "expected str", id="a tag of 3"),
        pytest.param(b'{"pipeline":""}', "invalid", "pipeline", ">= 1", id="an empty pipeline"),
        pytest.param(
            b'{"query_id":"' + b"a" * 257 + b'"}', "invalid", "query_id", "<= 256", id="a long id"
        ),
        pytest.param(
            b'{"query":"' + b"a" * 1_000_001 + b'"}', "invalid", "query", "length", id="a long text"
        ),
        pytest.param(
            b'{"chunks":[' + b",".join([b'{"id":"a"}'] * 1001) + b"]}",
            "invalid",
            "chunks",
            "<= 1000",
            id="too many chunks",
        ),
        pytest.param(b'{"query":"\xff"}', "encoding", "", "at byte 10", id="invalid UTF-8"),
        pytest.param(
            b'{"model":"m","chunks":[{"id":"a","text":"b\xe9t\xe9"}]}',
            "encoding",
            "",
            "at byte 42",
            id="invalid UTF-8 at depth",
        ),
        pytest.param(
            b'{"query":"\xed\xa0\x80"}', "encoding", "", "UTF-8", id="an encoded surrogate"
        ),
        pytest.param(b'{"mine":"\xff"}', "encoding", "", "UTF-8", id="bad UTF-8, unknown field"),
        pytest.param(b'{"\xff":1}', "encoding", "", "UTF-8", id="invalid UTF-8 in a name"),
        pytest.param(
            b'{"mine":' + b"[" * 100_000, "too_deep", "", "deep", id="100,000 open brackets"
        ),
        pytest.param(
            b'{"mine":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "too_deep",
            "",
            "deep",
            id="100,000 brackets, all closed",
        ),
        pytest.param(
            b'{"mine":' + b'{"a":' * 100_000, "too_deep", "", "deep", id="100,000 open braces"
        ),
    ],
)
def test_a_bad_query_says_what_where_and_what_to_do(line, reason, field, message):
    error = refused(line)
    assert (error.reason, error.field) == (reason, field)
    assert message in error.args[0]
    assert len(error.hint) > 5


@pytest.mark.parametrize(
    ("decode", "line", "field", "message"),
    [
        pytest.param(feedback, b"{}", "query_id", "missing", id="feedback on nothing"),
        pytest.param(feedback, b'{"query_id":"a"}', "rating", "missing", id="no rating"),
        pytest.param(
            feedback, b'{"query_id":"","rating":1}', "query_id", ">= 1", id="an empty query id"
        ),
        pytest.param(
            feedback, b'{"query_id":"a","rating":"ok"}', "rating", "ok", id="an unknown rating"
        ),
        pytest.param(
            feedback, b'{"query_id":"a","rating":null}', "rating", "null", id="a rating of null"
        ),
        pytest.param(
            label,
            b'{"query_id":"a"}',
            "",
            "needs relevant_ids, grades, faithful or scores",
            id="no truth",
        ),
        pytest.param(
            label, b'{"query_id":"a","faithful":2}', "faithful", "<= 1.0", id="faithful above 1"
        ),
        pytest.param(
            label, b'{"query_id":"a","grades":{"d":"x"}}', "grades[...]", "got str", id="a text"
        ),
    ],
)
def test_bad_feedback_and_labels_are_explained_too(decode, line, field, message):
    error = refused(line, decode)
    assert (error.reason, error.field) == ("invalid", field)
    assert message in error.args[0]
    assert len(error.hint) > 5


NUL_FIELDS = [
    (query, b'{"query_id":"a\\u0000"}', "query_id"),
    (query, b'{"pipeline":"\\u0000"}', "pipeline"),
    (query, b'{"version":"1\\u0000"}', "version"),
    (query, b'{"session_id":"\\u0000"}', "session_id"),
    (query, b'{"user_id":"\\u0000"}', "user_id"),
    (query, b'{"trace_id":"\\u0000"}', "trace_id"),
    (query, b'{"span_id":"\\u0000"}', "span_id"),
    (query, b'{"environment":"\\u0000"}', "environment"),
    (query, b'{"model":"\\u0000"}', "model"),
    (query, b'{"chunks":[{"id":"a"},{"id":"\\u0000"}]}', "chunks[1].id"),
    (query, b'{"citations":["a","b\\u0000"]}', "citations[1]"),
    (query, b'{"relevant_ids":["\\u0000"]}', "relevant_ids[0]"),
    (query, b'{"grades":{"\\u0000":1}}', "grades"),
    (query, b'{"tags":{"a\\u0000":"b"}}', "tags"),
    (query, b'{"tags":{"a":"\\u0000"}}', "tags"),
    (feedback, b'{"query_id":"\\u0000","rating":1}', "query_id"),
    (label, b'{"query_id":"\\u0000","faithful":1}', "query_id"),
    (label, b'{"query_id":"a","labeller":"\\u0000","faithful":1}', "labeller"),
    (label, b'{"query_id":"a","relevant_ids":["\\u0000"]}', "relevant_ids[0]"),
]


@pytest.mark.parametrize(
    ("decode", "line", "field"), [pytest.param(*row, id=row[1].decode()) for row in NUL_FIELDS]
)
def test_nul_is_refused_wherever_it_names_something(decode, line, field):
    error = refused(line, decode)
    assert (error.reason, error.field) == ("invalid", field)
    assert "NUL" in error.args[0]


def test_nul_in_a_text_is_harmless():
    assert query(b'{"answer":"a\\u0000b"}', NOW, BOUNDS).answer == "a\0b"
    assert query(b'{"query_id":"\\\\u0000"}', NOW, BOUNDS).query_id == "\\u0000"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        pytest.param(b'{"pipeline":""}', "empty", id="too short is not cured by shortening"),
        pytest.param(b'{"query_id":"' + b"a" * 300 + b'"}', "hash", id="a long id can be hashed"),
        pytest.param(b'{"feedback":7}', '"positive"', id="feedback names its words"),
        pytest.param(b'{"timestamp":"noon"}', "RFC 3339", id="timestamps name their forms"),
        pytest.param(b'{"chunks":3}', '"id"', id="chunks show one"),
        pytest.param(b'{"query":"\xff"}', "UTF-8", id="encodings name the right one"),
        pytest.param(b"{", "one complete JSON object", id="halves say that wholes are wanted"),
        pytest.param(b'{"timestamp":0}', "retention.records", id="old ones name the setting"),
        pytest.param(b'{"timestamp":9999999999}', "max_clock_skew", id="future ones do, too"),
    ],
)
def test_a_remedy_fits_its_error(line, hint):
    assert hint in refused(line).hint


def test_a_rejection_carries_all_of_it():
    error = refused(b'{"chunks":[{"id":"a","score":"x"}]}')
    made = rejection(3, error)
    assert (made.line, made.field, made.error) == (
        3,
        "chunks[0].score",
        "expected number, got str",
    )
    assert made.remedy


# ------------------------------------------------------------------------------ good lines


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        pytest.param(b"{}", "timestamp", NOW, id="a missing timestamp is now"),
        pytest.param(b'{"timestamp":null}', "timestamp", NOW, id="a null timestamp is now"),
        pytest.param(b'{"timestamp":1749999999}', "timestamp", NOW - 1, id="whole unix seconds"),
        pytest.param(b'{"timestamp":1749999999.5}', "timestamp", NOW - 0.5, id="with a fraction"),
        pytest.param(
            b'{"timestamp":"2025-06-15T15:06:39+00:00"}', "timestamp", NOW - 1, id="RFC 3339"
        ),
        pytest.param(
            b'{"timestamp":"2025-06-15T17:06:39.5+02:00"}', "timestamp", NOW - 0.5, id="other zones"
        ),
        pytest.param(b'{"timestamp":1750000300}', "timestamp", NOW + 300, id="within the skew"),
        pytest.param(
            b'{"timestamp":1749395200}', "timestamp", NOW - 7 * 86_400, id="as old as is kept"
        ),
        pytest.param(b"{}", "pipeline", "default", id="a missing pipeline is default"),
        pytest.param(b'{"feedback":"negative"}', "feedback", -1.0, id="words are ratings"),
        pytest.param(b'{"feedback":0}', "feedback", 0.0, id="a neutral rating"),
        pytest.param(b'{"chunks":null}', "chunks", None, id="null chunks are unknown"),
        pytest.param(b'{"chunks":[]}', "chunks", [], id="no chunks are known to be none"),
        pytest.param(
            b'{"query_id":"a","query_id":"b"}', "query_id", "b", id="the last of two keys counts"
        ),
        pytest.param(b'{"query_id":"a"} \r', "query_id", "a", id="a CR at the end of a line"),
        pytest.param(
            '{"query":"naïve 🙂 \\ud83d\\ude42"}'.encode(), "query", "naïve 🙂 🙂", id="any script"
        ),
        pytest.param(b'{"mine":{"deep":[1,2]}}', "query", None, id="unknown fields do no harm"),
    ],
)
def test_a_good_query_is_understood(line, field, expected):
    assert getattr(query(line, NOW, BOUNDS), field) == expected


def test_a_number_is_the_total_latency():
    assert query(b'{"latency_ms":12}', NOW, BOUNDS).latency_ms.total == 12.0


def test_queries_without_an_id_get_distinct_ones():
    made = {query(b"{}", NOW, BOUNDS).query_id for _ in range(100)}
    assert len(made) == 100


@pytest.mark.parametrize(
    ("decode", "line"),
    [
        pytest.param(feedback, b'{"query_id":"a","rating":1,"timestamp":%d}', id="feedback"),
        pytest.param(label, b'{"query_id":"a","faithful":1,"timestamp":%d}', id="label"),
    ],
)
def test_a_change_may_be_old_but_not_from_the_future(decode, line):
    # Its newest version counts: one from the year 9999 would shut out every later one.
    assert decode(line % 1_000_000_000, NOW, BOUNDS).timestamp == 1e9
    assert refused(line % (NOW + 86_400), decode).reason == "future"


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"])
@pytest.mark.parametrize(
    ("decode", "line"),
    [
        pytest.param(query, b'{"query_id":"a","timestamp":"%s"}', id="query"),
        pytest.param(feedback, b'{"query_id":"a","rating":1,"timestamp":"%s"}', id="feedback"),
        pytest.param(label, b'{"query_id":"a","faithful":1,"timestamp":"%s"}', id="label"),
    ],
)
def test_the_zero_time_of_a_client_is_refused(decode, line, time):
    # Stored, it could never be read again: the store admits no time before 1970.
    error = refused(line % time.encode(), decode)
    assert (error.reason, error.field) == ("too_old", "timestamp")
    assert "before 1970" in error.args[0]


# ------------------------------------------------------------------------------------ laws

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(QueryRecord.__struct_fields__) | st.text(max_size=8), inner, max_size=6
        )
    ),
    max_leaves=12,
)


@given(JSON)
@example({"timestamp": -1.0})
@example({"feedback": "positive", "latency_ms": {"total": 1}})
def test_any_json_is_a_finite_record_or_a_refusal(value):
    try:
        record = query(msgspec.json.encode(value), NOW, BOUNDS)
    except RecordError:
        return
    assert BOUNDS.oldest <= record.timestamp <= BOUNDS.newest
    assert record.query_id
    numbers = [record.cost_usd, record.feedback, *(c.score for c in record.chunks or ())]
    assert all(math.isfinite(number) for number in numbers if number is not None)
    assert msgspec.json.decode(msgspec.json.encode(record), type=QueryRecord) == record


# -------------------------------------------------------------------------- ignored fields


@pytest.mark.parametrize(
    ("line", "kind", "expected"),
    [
        pytest.param(b'{"query":"a"}', QueryRecord, {}, id="nothing to say"),
        pytest.param(b'{"chunk":[]}', QueryRecord, {"chunk": "chunks"}, id="nearly right"),
        pytest.param(
            b'{"latency":3,"anwser":"x","zzz":1}',
            QueryRecord,
            {"latency": "latency_ms", "anwser": "answer", "zzz": None},
            id="several",
        ),
        pytest.param(
            b'{"chunks":[{"id":"a","scores":1,"txet":""}]}',
            QueryRecord,
            {"chunks[0].scores": "chunks[0].score", "chunks[0].txet": "chunks[0].text"},
            id="within the first chunk",
        ),
        pytest.param(
            b'{"latency_ms":{"totl":1},"tokens":{"promt":3}}',
            QueryRecord,
            {"latency_ms.totl": "latency_ms.total", "tokens.promt": "tokens.prompt"},
            id="within latency and tokens",
        ),
        pytest.param(
            b'{"chunks":[{"id":"a"},{"idd":"b"}],"tokens":3}', QueryRecord, {}, id="further chunks"
        ),
        pytest.param(
            b'{"steps":[{"chunk_ids":["a"]},{"chunk_id":["b"]},{"chunk_id":["c"],"errr":"late"}]}',
            QueryRecord,
            {"steps[].chunk_id": "steps[].chunk_ids", "steps[].errr": None},
            id="within any step",
        ),
        pytest.param(
            b'{"latency_ms":"soon","anwser":"x"}',
            QueryRecord,
            {"anwser": "answer"},
            id="beside a value of another type",
        ),
        pytest.param(b'{"ratng":1}', Feedback, {"ratng": "rating"}, id="in feedback"),
        pytest.param(b'{"faithfull":1}', Label, {"faithfull": "faithful"}, id="in a label"),
        pytest.param(b"[1]", QueryRecord, {}, id="no object"),
        pytest.param(b'{"mine":1%s}' % (b"0" * 5000), QueryRecord, {}, id="5,000 digits"),
        pytest.param(b'{"\xff":1}', QueryRecord, {}, id="invalid UTF-8"),
        pytest.param(b"[" * 100_000, QueryRecord, {}, id="100,000 brackets"),
    ],
)
def test_unknown_fields_are_named_with_the_nearest_known_one(line, kind, expected):
    assert ignored_fields(line, kind) == expected


def test_the_list_of_unknown_fields_is_bounded():
    line = msgspec.json.encode({f"{'x' * 1000}{at}": at for at in range(1000)})
    found = ignored_fields(line, QueryRecord)
    assert 0 < len(found) <= 20
    assert max(map(len, found)) <= 100


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            msgspec.json.encode({"anser" + "x" * 900_000: 1}),
            {"anser" + "x" * 95: None},
            id="a long name is compared by its first 100 characters",
        ),
        pytest.param(
            msgspec.json.encode({"mood": "x" * (1 << 20)}), {}, id="a large record is not compared"
        ),
    ],
)
def test_looking_for_unknown_fields_costs_little(line, expected):
    tracemalloc.start()
    try:
        assert ignored_fields(line, QueryRecord) == expected
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("scores", "field"),
    [
        pytest.param('{"tone": 1.5}', "scores[...]", id="beyond one"),
        pytest.param('"good"', "scores", id="no scores by judge"),
        pytest.param('{"": 0.5}', "", id="a judge without a name"),
        pytest.param("{}", "", id="nothing said"),
    ],
)
def test_a_label_with_scores_that_are_none_is_refused(scores, field):
    assert refused(f'{{"query_id": "q1", "scores": {scores}}}'.encode(), label).field == field


def test_a_label_may_answer_what_custom_judges_ask():
    line = b'{"query_id": "q1", "scores": {"tone": 0.25, "length": 1}}'
    assert label(line, NOW, BOUNDS).scores == {"tone": 0.25, "length": 1.0}
