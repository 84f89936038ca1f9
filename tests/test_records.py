"""What the wire forms of a record mean, and what they may not be."""

import msgspec
import pytest
from hypothesis import given, settings

from ragmon.records import (
    MAX_CHUNKS,
    MAX_ID,
    UNSTAMPED,
    Chunk,
    Feedback,
    Label,
    Latency,
    QueryRecord,
    Tokens,
)
from tests.support.examples import query_records


def query(text: str) -> QueryRecord:
    return msgspec.json.decode(text, type=QueryRecord)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        pytest.param("{}", "timestamp", UNSTAMPED, id="no timestamp"),
        pytest.param('{"timestamp": null}', "timestamp", UNSTAMPED, id="timestamp null"),
        pytest.param('{"timestamp": 1700000000}', "timestamp", 1.7e9, id="whole seconds"),
        pytest.param('{"timestamp": 1700000000.25}', "timestamp", 1700000000.25, id="fractions"),
        pytest.param(
            '{"timestamp": "2023-11-14T22:13:20Z"}', "timestamp", 1.7e9, id="RFC 3339, UTC"
        ),
        pytest.param(
            '{"timestamp": "2023-11-15T00:13:20.5+02:00"}', "timestamp", 1.7e9 + 0.5, id="offset"
        ),
        pytest.param('{"timestamp": 0}', "timestamp", 0.0, id="1970"),
        pytest.param("{}", "latency_ms", None, id="no latency"),
        pytest.param('{"latency_ms": 250}', "latency_ms", Latency(250.0), id="latency as a number"),
        pytest.param(
            '{"latency_ms": {"retrieval": 3.5}}', "latency_ms", Latency(None, 3.5), id="one stage"
        ),
        pytest.param('{"feedback": "positive"}', "feedback", 1.0, id="positive"),
        pytest.param('{"feedback": "negative"}', "feedback", -1.0, id="negative"),
        pytest.param('{"feedback": 0}', "feedback", 0.0, id="neither"),
        pytest.param('{"feedback": null}', "feedback", None, id="unrated"),
        pytest.param("{}", "chunks", None, id="chunks not recorded"),
        pytest.param('{"chunks": []}', "chunks", [], id="nothing retrieved"),
        pytest.param('{"chunks": [{"id": "a"}]}', "chunks", [Chunk("a")], id="a bare chunk"),
        pytest.param("{}", "citations", None, id="citations not recorded"),
        pytest.param('{"citations": []}', "citations", [], id="cites nothing"),
        pytest.param('{"grades": {"a": 2}}', "grades", {"a": 2.0}, id="grades"),
        pytest.param('{"tokens": {"prompt": 7}}', "tokens", Tokens(7), id="tokens"),
        pytest.param("{}", "pipeline", "default", id="the default pipeline"),
        pytest.param('{"later": {"deeply": [1]}}', "query_id", "", id="unknown fields are ignored"),
    ],
)
def test_meaning(text, field, expected):
    value = getattr(query(text), field)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param('{"timestamp": -1}', "timestamp", id="before 1970"),
        pytest.param('{"timestamp": true}', "timestamp", id="a truth value"),
        pytest.param('{"timestamp": "1700000000"}', "timestamp", id="seconds as a string"),
        pytest.param('{"timestamp": "2023-11-14T22:13:20"}', "timestamp", id="no time zone"),
        pytest.param('{"timestamp": 1e12}', "timestamp", id="milliseconds"),
        pytest.param('{"pipeline": ""}', "pipeline", id="an empty pipeline"),
        pytest.param('{"query_id": 5}', "query_id", id="a number as id"),
        pytest.param(f'{{"query_id": "{"x" * (MAX_ID + 1)}"}}', "query_id", id="an id too long"),
        pytest.param('{"chunks": [{"score": 1}]}', "chunks[0]", id="a chunk without an id"),
        pytest.param('{"chunks": [{"id": ""}]}', "chunks[0].id", id="an empty chunk id"),
        pytest.param('{"chunks": [{"id": "a", "score": "1"}]}', "chunks[0].score", id="score"),
        pytest.param('{"chunks": [{"id": "a", "score": 1e13}]}', "chunks[0].score", id="huge"),
        pytest.param('{"chunks": [{"id": "a", "score": 1e999}]}', "chunks[0].score", id="infinite"),
        pytest.param('{"chunks": [{"id": "a", "score": NaN}]}', "", id="not a number"),
        pytest.param('{"citations": [1]}', "citations[0]", id="a citation by number"),
        pytest.param('{"latency_ms": -1}', "latency_ms", id="a negative latency"),
        pytest.param('{"latency_ms": {"total": -1}}', "latency_ms.total", id="a negative stage"),
        pytest.param('{"feedback": "good"}', "feedback", id="another word"),
        pytest.param('{"feedback": 1.5}', "feedback", id="beyond one"),
        pytest.param('{"tokens": {"prompt": 1.5}}', "tokens.prompt", id="half a token"),
        pytest.param('{"cost_usd": -0.1}', "cost_usd", id="a negative cost"),
        pytest.param('{"tags": {"a": 1}}', "tags[...]", id="a tag that is no text"),
    ],
)
def test_refusals(text, field):
    with pytest.raises(msgspec.DecodeError) as caught:
        query(text)
    if field:
        assert str(caught.value).endswith(f"`$.{field}`")


def test_lists_are_bounded():
    chunk = '{"id": "a"}'
    assert len(query(f'{{"chunks": [{", ".join([chunk] * MAX_CHUNKS)}]}}').chunks) == MAX_CHUNKS
    with pytest.raises(msgspec.ValidationError, match="length"):
        query(f'{{"chunks": [{", ".join([chunk] * (MAX_CHUNKS + 1))}]}}')


@settings(deadline=None)
@given(query_records())
def test_stored_records_are_read_as_they_were(record):
    stored = msgspec.msgpack.encode(record)
    assert msgspec.msgpack.decode(stored, type=QueryRecord) == record
    assert msgspec.json.decode(msgspec.json.encode(record), type=QueryRecord) == record


def test_unknown_is_not_stored_and_empty_is():
    assert msgspec.json.encode(QueryRecord(query_id="q")) == b'{"query_id":"q"}'
    assert msgspec.json.encode(QueryRecord(chunks=[])) == b'{"chunks":[]}'


def test_records_do_not_change():
    with pytest.raises(AttributeError):
        QueryRecord(query_id="q").query_id = "other"


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        pytest.param('{"query_id": "q", "rating": "positive"}', 1.0, id="positive"),
        pytest.param('{"query_id": "q", "rating": "negative"}', -1.0, id="negative"),
        pytest.param('{"query_id": "q", "rating": 0.25}', 0.25, id="a number"),
    ],
)
def test_feedback(text, rating):
    found = msgspec.json.decode(text, type=Feedback)
    assert (found.rating, found.timestamp) == (rating, UNSTAMPED)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Feedback) == found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"rating": 1}', id="of no query"),
        pytest.param('{"query_id": "", "rating": 1}', id="an empty id"),
        pytest.param('{"query_id": "q"}', id="no rating"),
        pytest.param('{"query_id": "q", "rating": null}', id="rating null"),
        pytest.param('{"query_id": "q", "rating": 2}', id="beyond one"),
    ],
)
def test_feedback_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Feedback)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"relevant_ids": ["a"]}', {"relevant_ids": ["a"]}, id="relevant chunks"),
        pytest.param('{"relevant_ids": []}', {"relevant_ids": []}, id="none is relevant"),
        pytest.param('{"grades": {"a": 0}}', {"grades": {"a": 0.0}}, id="grades"),
        pytest.param('{"faithful": 1}', {"faithful": 1.0}, id="faithfulness"),
        pytest.param('{"faithful": 0, "labeller": "ann"}', {"labeller": "ann"}, id="a labeller"),
    ],
)
def test_label(text, expected):
    found = msgspec.json.decode(text.replace("{", '{"query_id": "q", ', 1), type=Label)
    assert {name: getattr(found, name) for name in expected} == expected
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Label) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"query_id": "q"}', "a label needs", id="a label that says nothing"),
        pytest.param('{"query_id": "q", "faithful": 1.1}', "<= 1.0", id="beyond one"),
        pytest.param('{"query_id": "q", "faithful": 1, "labeller": ""}', "length", id="nobody"),
    ],
)
def test_label_refused(text, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.json.decode(text, type=Label)
