"""Mapping of records by JMESPath: what is found, what is counted, and which errors name what."""

import json

import pytest

from ragmon.decode import Decoder
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.mapping import RecordMapping
from ragmon.records import QueryRecord

ORIGINAL = {
    "id": 17,
    "at_ms": 1_700_000_000_500,
    "when": "2023-11-14 22:13:20",
    "input": {"question": "What is the fee?"},
    "docs": [{"key": "a", "s": 0.5, "body": "x"}, {"key": "b", "s": 0.25}],
    "attributes": '{"model": "m-1"}',
    "customer": {"plan": 3, "trial": False},
}
FIELDS = {
    "query_id": "to_string(id)",
    "timestamp": "multiply(at_ms, `0.001`)",
    "query": "input.question",
    "answer": "output.text",
    "chunks": "docs[].{id: key, score: s, text: body}",
    "model": "parse_json(attributes).model",
    "pipeline": "'shop'",
    "tags.plan": "customer.plan",
    "tags.trial": "customer.trial",
    "latency_ms.total": "`12`",
}


def test_a_record_is_made_of_what_the_expressions_find():
    mapping = RecordMapping(FIELDS)
    line = mapping.line(json.dumps(ORIGINAL).encode())
    record = Decoder(QueryRecord)(line, 1.7e9 + 60.0, Bounds(0.0, 2e9))
    assert record.query_id == "17"
    assert record.timestamp == 1_700_000_000.5
    assert record.query == "What is the fee?"
    assert record.answer is None
    assert [(chunk.id, chunk.score) for chunk in record.chunks] == [("a", 0.5), ("b", 0.25)]
    assert record.model == "m-1"
    assert record.pipeline == "shop"
    assert record.tags == {"plan": "3", "trial": "false"}
    assert record.latency_ms.total == 12
    assert mapping.take_missing() == {"answer": 1}
    assert mapping.take_missing() == {}


def test_the_whole_record_comes_first_and_others_change_it():
    mapping = RecordMapping({"tags.from": "'import'", ".": "record"})
    original = {"record": {"query": "q", "tags": {"tenant": "acme"}}}
    assert mapping(original) == {"query": "q", "tags": {"tenant": "acme", "from": "import"}}
    with pytest.raises(RecordError, match="no object"):
        mapping({"record": 3})


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2023-11-14 22:13:20", "2023-11-14T22:13:20Z"),
        ("2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
        ("2023-11-14T22:13:20-05:00", "2023-11-14T22:13:20-05:00"),
        (None, None),
    ],
)
def test_utc_adds_a_zone_where_there_is_none(time, expected):
    mapping = RecordMapping({"timestamp": "utc(t)", "query": "q"})
    assert mapping({"t": time, "q": "?"}).get("timestamp") == expected


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({}, "give a field", id="nothing"),
        pytest.param({"querry": "a"}, "'querry' is no field.*did you mean `query`", id="a typo"),
        pytest.param({"tokens.promt": "a"}, "did you mean `tokens.prompt`", id="a typo inside"),
        pytest.param({"query.text": "a"}, "no field", id="nothing is inside"),
        pytest.param({"tags.": "a"}, "no field", id="no key"),
        pytest.param({"query": "a b"}, "query: 'a b'.*character 3", id="two words"),
        pytest.param({"query": "a["}, "query: 'a\\['.*character 3", id="not closed"),
        pytest.param({"query": "a ^ b"}, "query: 'a \\^ b'", id="no such sign"),
        pytest.param({"query": ""}, "1 to 2000", id="empty"),
        pytest.param({"query": 3}, "is a text", id="a number"),
        pytest.param({"query": "a.lenght(b)"}, "'lenght'.*did you mean `length`", id="a function"),
        pytest.param({"query": "[" * 1_900}, "query: ", id="very deep"),
    ],
)
def test_a_bad_mapping_is_named_with_its_place(fields, says):
    with pytest.raises(ValueError, match=says):
        RecordMapping(fields)


@pytest.mark.parametrize(
    "original",
    [{"a": {"b": 1}}, {"a": True}, {"a": [1, "x"]}],
)
def test_what_cannot_be_computed_is_refused_with_the_field(original):
    with pytest.raises(RecordError) as refused:
        RecordMapping({"query": "length(sort(a))"})(original)
    assert (refused.value.field, refused.value.reason) == ("query", "mapping")


@pytest.mark.parametrize("original", [{}, [1], "text", 3, None, {"other": 1}])
def test_an_original_without_any_of_the_fields_is_refused(original):
    """Every field of a record is optional: it would be stored as one without any."""
    with pytest.raises(RecordError, match="finds anything"):
        RecordMapping({"query": "a.b", "pipeline": "'shop'"})(original)


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000, b""])
def test_a_line_that_is_no_json(line):
    with pytest.raises(RecordError) as refused:
        RecordMapping({"query": "a"}).line(line)
    assert refused.value.reason == "malformed"


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        pytest.param(
            "multiply(to_number(a), `1000`)",
            b'{"a":"' + b"9" * 4_299 + b'"}',
            id="a number of thousands of digits",
        ),
        pytest.param("to_string(a)", b'{"a":' + b"[" * 990 + b"]" * 990 + b"}", id="deep nesting"),
    ],
)
def test_a_line_that_cannot_be_computed_costs_only_itself(expression, line):
    mapping = RecordMapping({"query": expression})
    with pytest.raises(RecordError, match=r"cannot be computed|recursion"):
        mapping.line(line)
