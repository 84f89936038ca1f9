"""Bodies to records: the lines are numbered as they stand, decoded together or one by one."""

import tracemalloc

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragmon.decode import Decoder, ignored_fields, rejection
from ragmon.errors import MemoryLimitError, RecordError
from ragmon.event_time import Bounds
from ragmon.memory import MemoryBudget, MemoryReservation
from ragmon.records import Feedback, QueryRecord
from ragmon.sources import bodies
from ragmon.sources.bodies import RejectedLines, Terms, decode_body
from tests.support.hostile import ATTACKS

NOW = 1_750_000_000.0
BOUNDS = Bounds(NOW - 7 * 86_400, NOW + 300)

query = Decoder(QueryRecord)


def terms(most: int = 10_000, limit: int = 1 << 40) -> Terms:
    return Terms(NOW, BOUNDS, most, MemoryReservation(MemoryBudget(limit)))


def found(body, content_type="", decode=query):
    """(line, record), then (line, reason) of every line that was refused."""
    parts = list(decode_body(decode, body, content_type, terms()))
    good = [pair for part in parts for pair in zip(part.lines, part.records, strict=True)]
    bad = [(each.line, each.reason) for part in parts for each in part.rejections]
    return good, bad


def numbers(pairs):
    """Every line that is not blank."""
    return sorted(number for each in pairs for number, _ in each)


TWO = b'{"query_id":"a"}', b'{"query_id":"b"}'
NDJSON = "application/x-ndjson"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        pytest.param(TWO[0], "application/json", [1], id="one object"),
        pytest.param(b'{\n "query_id":\n "a"\n}', "", [1], id="one object over several lines"),
        pytest.param(b"[" + b",".join(TWO) + b"]", "application/json", [1, 2], id="an array"),
        pytest.param(b" \n [" + b",".join(TWO) + b"]\n", "", [1, 2], id="an array after a blank"),
        pytest.param(b"[]", "application/json", [], id="an empty array"),
        pytest.param(b"\n".join(TWO), NDJSON, [1, 2], id="NDJSON"),
        pytest.param(b"\n".join(TWO) + b"\n", NDJSON + "; charset=utf-8", [1, 2], id="with a LF"),
        pytest.param(b"\r\n".join(TWO), NDJSON, [1, 2], id="with CR LF"),
        pytest.param(b"\n\n" + b"\n \n".join(TWO), NDJSON, [3, 5], id="blank lines are counted"),
        pytest.param(b"\n".join(TWO), "", [1, 2], id="NDJSON that does not say so"),
        pytest.param(b"\n".join(TWO), "application/json", [1, 2], id="NDJSON that says JSON"),
        pytest.param(b"", NDJSON, [], id="no line"),
        pytest.param(b"[" + b",".join(TWO) + b"]", NDJSON, [1, 2], id="an array that says NDJSON"),
        pytest.param(b"[1]\n" + TWO[0], NDJSON, [1, 2], id="NDJSON whose first line is an array"),
        pytest.param(b"[oops\n" + TWO[0], NDJSON, [1, 2], id="NDJSON whose first line is broken"),
    ],
)
def test_a_body_becomes_numbered_lines(body, content_type, expected):
    assert numbers(found(body, content_type)) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'[{"query_id":"a"},', id="half an array"),
        pytest.param(b'[{"query_id":"a"}] {}', id="something after the array"),
        pytest.param(b"[" * 100_000, id="100,000 brackets"),
    ],
)
def test_a_broken_array_is_no_body(body):
    with pytest.raises(RecordError) as caught:
        found(body, "application/json")
    assert caught.value.reason == "malformed"
    assert "JSON object" in caught.value.hint


@given(st.binary(max_size=200))
@example(b"\xff")
@example(b"[" * 200)
def test_any_bytes_are_records_or_a_refusal(body):
    try:
        for part in decode_body(query, body, "", terms()):
            ignored_fields(part.sample, QueryRecord)
    except RecordError:
        return


# ----------------------------------------------------------------- together and one by one

LONG = "long " * 600


def line(**fields):
    return msgspec.json.encode({"query_id": "q", "timestamp": NOW, "query": LONG, **fields})


LINES = {
    "good": line(),
    "of umlauts": line(answer="Größe 漢字 🎈" * 9),
    "without an id": line(query_id=""),
    "with zeros": line(answer="0000 000 u0 10000", cost_usd=1000000.0001),
    "with what looks like a NUL": line(answer="u0000 \\u0000"),
    "with a NUL in a text": line(answer="\0"),
    "with a NUL in a name": line(pipeline="a\0"),
    "shifted by one, with a NUL in a name": line(model="m", pipeline="\0"),
    "from the future": line(timestamp=NOW + 900.0),
    "too old": line(timestamp=1.0),
    "of a wrong type": line(cost_usd="cheap"),
    "of invalid UTF-8": line(answer="?").replace(b"?", b"\xff"),
    "of invalid UTF-8 in an unknown field": line(mine="?").replace(b"?", b"\xff"),
    "two objects": line() + b" " + line(),
    "two objects that touch": line() + line(),
    "the first half of an object": line()[:9],
    "the second half of an object": line()[9:],
    "ends in CR": line() + b"\r",
    "begins with a blank": b" " + line(),
    "an array": b"[]",
    "blank": b"  ",
    "empty": b"",
    "nested too deeply": b'{"mine":' + b"[" * 9_999,
}


def one_by_one(body, decode=query):
    good, bad = [], []
    for number, each in enumerate(body.split(b"\n"), 1):
        if each.strip():
            try:
                good.append((number, decode(each, NOW, BOUNDS)))
            except RecordError as error:
                bad.append((number, rejection(number, error).reason))
    return good, bad


def comparable(pairs):
    """Ids that were left out are drawn at random."""
    good, bad = pairs
    return [at for at, _ in good], [each for _, each in good if each.query_id == "q"], bad


def test_lines_come_to_the_same_together_and_one_by_one():
    checked = 0
    for name, each in LINES.items():
        for before, after in ((5, 5), (0, 60), (60, 0)):
            for end in (b"", b"\n"):
                body = b"\n".join([line()] * before + [each] + [line()] * after) + end
                assert comparable(found(body, NDJSON)) == comparable(one_by_one(body)), name
                checked += 1
    assert checked == 6 * len(LINES)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(LINES)), max_size=90))
@example(["two objects", "empty", *["good"] * 5])
@example(["the first half of an object", "the second half of an object", *["good"] * 5])
def test_any_lines_come_to_the_same_together_and_one_by_one(names):
    body = b"\n".join([line(), *(LINES[name] for name in names)])
    assert comparable(found(body, NDJSON)) == comparable(one_by_one(body))


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        pytest.param("good", True, id="good"),
        pytest.param("of umlauts", True, id="not ASCII"),
        pytest.param("with zeros", True, id="zeros that are no NUL"),
        pytest.param("without an id", True, id="without an id"),
        pytest.param("with a NUL in a name", False, id="a NUL"),
        pytest.param("too old", False, id="too old"),
        pytest.param("empty", False, id="a blank line"),
        pytest.param("two objects", False, id="two objects on a line"),
    ],
)
def test_which_lines_are_decoded_together(kind, whole):
    text = b"\n".join([line(), LINES[kind], line()])
    records = query.whole(text, NOW, BOUNDS)
    assert (records is not None) is whole
    assert records is None or [each.timestamp for each in records] == [NOW] * 3


def test_what_is_left_out_is_filled_in_together_too():
    text = b"\n".join([b'{"query":"a"}', b'{"query":"b"}'])
    records = query.whole(text, NOW, BOUNDS)
    assert [each.timestamp for each in records] == [NOW, NOW]
    assert len({each.query_id for each in records}) == 2
    old = b'{"query_id":"q","rating":1,"timestamp":5}'
    assert Decoder(Feedback).whole(old, NOW, BOUNDS)[0].timestamp == 5.0


# --------------------------------------------------------------------------- bounds


def refusal(body, content_type="", most=10_000, limit=1 << 40):
    with pytest.raises((RecordError, MemoryLimitError)) as caught:
        list(decode_body(query, body, content_type, terms(most, limit)))
    return caught.value


LARGE = 300_000  # elements: beyond what is taken apart before it is counted


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b"{}\n" * 11, NDJSON, id="lines"),
        pytest.param(b"1\n" * 11, NDJSON, id="lines that are no records"),
        pytest.param(b"\n" * 11, NDJSON, id="blank lines"),
        pytest.param(b"[" + b"{}," * 10 + b"{}]", "", id="elements"),
        pytest.param(b"[" + b"{}," * LARGE + b"{}]", "", id="elements of a large array"),
        pytest.param(b"[" + b"1," * LARGE + b"1]", "", id="numbers"),
        pytest.param(b"[" + b"1," * LARGE + b"1]", NDJSON, id="an array that says NDJSON"),
        pytest.param(b"[oops\n" + b"{}\n" * 10, NDJSON, id="lines after a broken one"),
    ],
)
def test_more_records_than_allowed_are_refused_before_they_are_decoded(body, content_type):
    error = refusal(body, content_type, most=10)
    assert isinstance(error, RecordError)
    assert error.reason == "too_many_records"
    assert "limits.records allows 10" in str(error)
    assert "smaller batches" in str(error)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b"{}\n" * 10, NDJSON, id="lines"),
        pytest.param(b"\n".join([b"{}"] * 10), NDJSON, id="lines without a last line feed"),
        pytest.param(b"[" + b"{}," * 9 + b"{}]", "", id="elements"),
        pytest.param(b"{" + b"\n" * 50 + b"}", "", id="one object over many lines"),
        pytest.param(b"[{}" + b"\n" * 50 + b"]", "", id="an array over many lines"),
        pytest.param(
            b'[{"query":"' + b"a,{" * (1 << 18) + b'"},{}]', "", id="a text like a large array"
        ),
    ],
)
def test_as_many_records_as_allowed_pass(body, content_type):
    assert found(body, content_type)[1] == []
    assert list(decode_body(query, body, content_type, terms(10)))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}\n" * 1_000, id="many records"),
        pytest.param(b'{"query":"' + b"a" * 900_000 + b'"}', id="a long text"),
        pytest.param(b'{"tags":{' + b'"a":1,' * 200_000 + b'"b":1}}', id="a long line"),
    ],
)
def test_what_decoding_takes_is_reserved_before(body):
    assert not refusal(body, limit=2_000_000).retryable


def packed(one, size=4 << 20):
    """As many of one record as have so many bytes."""
    return (one + b"\n") * (size // (len(one) + 1))


STEP = b'{"chunk_ids":[' + b'"a",' * 199 + b'"a"]}'
SMALL_TEXTS = {
    "ids": b'{"relevant_ids":[' + b'"a",' * 999 + b'"a"]}',
    "grades": b'{"grades":{' + b",".join(b'"%d":1' % at for at in range(1_000)) + b"}}",
    "chunks": b'{"chunks":[' + b'{"id":"a"},' * 999 + b'{"id":"a"}]}',
    "ids of steps": b'{"steps":[' + b",".join([STEP] * 50) + b"]}",
}


@pytest.mark.parametrize("one", SMALL_TEXTS.values(), ids=SMALL_TEXTS)
@pytest.mark.parametrize("is_array", [False, True], ids=["lines", "an array"])
def test_small_texts_are_reserved_as_what_they_take(one, is_array):
    body = packed(one)
    if is_array:
        body = b"[" + body.strip().replace(b"\n", b",") + b"]"
    asked = terms(100_000)
    tracemalloc.start()
    try:
        parts = list(decode_body(query, body, "", asked))
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert sum(len(part.records) for part in parts) > 100
    assert asked.memory.size > 0.8 * took


@pytest.mark.parametrize("one", SMALL_TEXTS.values(), ids=SMALL_TEXTS)
def test_more_texts_than_as_many_records_have_are_refused(one):
    error = refusal(packed(one, 2 << 20), most=1_000)
    assert error.reason == "too_many_records"
    assert "80,000 texts and names together" in str(error)


def test_a_record_that_is_too_wide_by_itself_costs_no_other():
    wide = b'{"tags":{' + b",".join(b'"%d":"a"' % at for at in range(60_000)) + b"}}"
    parts = list(decode_body(query, wide + b"\n" + TWO[0], NDJSON, terms(10)))
    assert [record.query_id for part in parts for record in part.records] == ["a"]
    assert [each.reason for part in parts for each in part.rejections] == ["too_many_values"]


def test_embeddings_of_many_records_are_no_texts():
    record = b'{"embedding":[' + b"0.5," * 1_535 + b"0.5]}"
    parts = decode_body(query, packed(record), NDJSON, terms(1_000))
    assert sum(len(part.records) for part in parts) > 500


def test_refusals_keep_the_first_lines_and_count_all():
    refusals = RejectedLines(2)
    made = {
        line: rejection(line, RecordError(reason, "", "is bad"))
        for line, reason in ((1, "invalid"), (2, "malformed"), (3, "invalid"), (4, "invalid"))
    }
    refusals.add([made[2], made[3], made[4]])
    refusals.add([])
    refusals.add([made[1]])  # told by the commit, later
    assert [each.line for each in refusals.listed] == [1, 2]
    assert refusals.by_reason == {"invalid": 3, "malformed": 1}
    assert refusals.total == 4


# ---- one record that holds a million values ---------------------------------------------------


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(each, id=each.name)
        for each in ATTACKS
        if each.name in ("nested lists", "numbers", "tags", "chunks")
    ],
)
@pytest.mark.parametrize("content_type", ["", "application/x-ndjson"])
def test_a_record_of_a_million_values_is_refused_before_it_is_decoded(hostile, content_type):
    """Its decoding would hold the interpreter for up to a second, in any thread."""

    def decode(*_):
        pytest.fail("it was decoded")

    decode.whole = decode
    terms = Terms(1e9, Bounds(0.0, 2e9), 10, MemoryReservation(MemoryBudget(1 << 40)))
    (part,) = decode_body(decode, hostile.body(), content_type, terms)
    (refused,) = part.rejections
    assert (refused.reason, refused.line) == ("too_many_values", 1)
    assert "50,000 texts, lists and objects" in refused.error
    assert refused.remedy.startswith("leave out fields")


@pytest.mark.parametrize("content_type", ["", NDJSON])
def test_a_record_larger_than_any_query_is_refused_before_it_is_decoded(content_type):
    """Whatever reads it later takes several times as much, and no limit of a read knows of it."""
    large = b'{"chunks":[%s{}]}' % (b'{"text":"%s"},' % (b"a " * 450_000) * 20)
    usual = b'{"query":"beside"}'
    body = b"\n".join([usual, large]) if content_type else b"[%s,%s]" % (usual, large)
    memory = MemoryReservation(MemoryBudget(6 * len(large)))
    parts = [
        *decode_body(Decoder(QueryRecord), body, content_type, terms(10)._replace(memory=memory))
    ]
    assert [record.query for part in parts for record in part.records] == ["beside"]
    (refused,) = [rejected for part in parts for rejected in part.rejections]
    assert (refused.reason, refused.line) == ("record_too_large", 2)
    assert "17 MiB" in refused.error
    assert "16 MiB" in refused.error


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"answer":"%s"}' % (rb"{\"a\": [1, 2]}, " * 40_000), id="JSON as text"),
        pytest.param(b'{"vectors":[%s0.25]}' % (b"0.25," * 200_000), id="numbers"),
    ],
)
def test_long_texts_and_lists_of_numbers_pass(body):
    assert len(body) > bodies._WIDE
    terms = Terms(1e9, Bounds(0.0, 2e9), 10, MemoryReservation(MemoryBudget(1 << 40)))
    (part,) = decode_body(Decoder(QueryRecord), body, "", terms)
    assert len(part.records) == 1
