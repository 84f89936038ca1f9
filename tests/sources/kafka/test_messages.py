"""Contents of messages: kinds, ids, and what is refused, each with its place."""

import msgspec
import pytest

from ragmon.errors import MemoryLimitError, RecordError
from ragmon.quarantine import LineContent, decode
from ragmon.records import Feedback, Label, Verdict
from ragmon.stores.protocols import SpanRow
from tests.support.jsonl import NOW
from tests.support.kafka_log import Reader

QUERY = b'{"query_id":"a","query":"?"}'


@pytest.fixture
def reader():
    return Reader()


def committed(reader):
    """Every submission of all there is to read."""
    kept = []
    submit = reader.disk.submit
    reader.disk.submit = lambda each: (kept.append(each), submit(each))[1]
    reader.read()
    return kept


def test_kinds_are_told_by_a_header(reader):
    reader.topic.write_raw(QUERY)
    reader.topic.write_raw(QUERY.replace(b'"a"', b'"b"'), kind=b"query")
    reader.topic.write_raw(b'{"query_id":"a","rating":"positive"}', kind=b"feedback")
    reader.topic.write_raw(b'{"query_id":"a","relevant_ids":["d"]}', kind=b"label")
    reader.topic.write_raw(b'{"query_id":"a","judge":"ours","score":0.5}', kind=b"verdict")
    [submission] = committed(reader)
    assert [each.query_id for each in submission.records] == ["a", "b"]
    assert [type(each) for each in submission.changes] == [Feedback, Label, Verdict]
    assert NOW <= submission.changes[2].timestamp < NOW + 1
    assert submission.source == "kafka"


@pytest.mark.parametrize(
    ("key", "query_id"),
    [
        pytest.param(b"of-the-key", "of-the-key", id="the key"),
        pytest.param(None, "rag/0/0", id="no key: its place"),
        pytest.param(b"\xff\x00", "rag/0/0", id="a key that is no text: its place"),
        pytest.param(b"k" * 300, "rag/0/0", id="a key that is too long: its place"),
    ],
)
def test_a_query_without_an_id_has_the_same_however_often_it_is_read(key, query_id):
    for _ in range(2):
        reader = Reader()
        reader.topic.write_raw(b'{"query":"?"}', key=key)
        assert reader.read() == [query_id]
        assert reader.source.figures.unkeyed == (key is None)


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        pytest.param(None, b"", "tombstone", id="a tombstone"),
        pytest.param(b"", b"", "malformed", id="nothing"),
        pytest.param(b"{", b"", "malformed", id="half an object"),
        pytest.param(b"\x00\x01", b"", "malformed", id="bytes"),
        pytest.param(b"[" + QUERY + b"]", b"", "invalid", id="an array"),
        pytest.param(QUERY + b"\n" + QUERY, b"", "malformed", id="two lines"),
        pytest.param(b'{"order":17,"total":3}', b"", "foreign", id="JSON of somebody else"),
        pytest.param(b'{"query_id":"x"}', b"", "foreign", id="an id alone"),
        pytest.param(b'{"query":"\xff"}', b"", "encoding", id="no UTF-8"),
        pytest.param(b"[" * 100_000, b"", "invalid", id="nested deeply"),
        pytest.param(b"x" * ((16 << 20) + 1), b"", "too_large", id="seventeen megabytes"),
        pytest.param(QUERY, b"order", "unknown_kind", id="a kind that is not known"),
        pytest.param(b"{}", b"feedback", "invalid", id="feedback without its fields"),
        pytest.param(b"{", b"verdict", "malformed", id="half a verdict"),
        pytest.param(b'{"query_id":"\xff"}', b"verdict", "encoding", id="a verdict, no UTF-8"),
        pytest.param(b'{"query_id":"a"}', b"verdict", "invalid", id="a verdict without a judge"),
        pytest.param(
            b'{"query_id":"a","judge":"j"}', b"verdict", "invalid", id="a verdict that says nothing"
        ),
        pytest.param(
            b'{"query_id":"a","judge":"j","score":1,"probability":0}', b"verdict", "invalid",
            id="a verdict that was impossible",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_is_counted_with_its_place_and_the_rest_is_read(
    reader, content, kind, reason
):
    reader.topic.write("before")
    reader.topic.write_raw(content, kind=kind)
    reader.topic.write("after")
    assert reader.read() == ["before", "after"]
    assert reader.disk.counted == {"accepted": 2, "duplicates": 0, reason: 1}
    [(source, counted, text)] = reader.disk.examples
    assert (source, counted) == ("kafka", reason)
    assert text.startswith("kafka topic rag, partition 0, offset 1: ")
    [item] = reader.disk.quarantined
    assert item.name == "kafka topic rag, partition 0, offset 1"
    assert isinstance(decode(item.body), LineContent)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(
            None, "no content. nothing is deleted by it; send DELETE /v1/users/", id="a tombstone"
        ),
        pytest.param(
            b"x" * ((16 << 20) + 1), "has 16,777,217 bytes. send at most 16,777,216",
            id="a byte too many",
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_by_how_much_and_what_to_do(reader, content, says):
    reader.topic.write_raw(content)
    reader.read()
    [(_, _, text)] = reader.disk.examples
    assert says in text


def test_what_is_refused_again_and_again_fills_neither_log_nor_quarantine(reader, capsys):
    for _ in range(1_000):
        reader.topic.write_raw(b"poison")
    assert reader.read() == []
    assert reader.disk.counted["malformed"] == 1_000
    assert len(reader.disk.quarantined) <= 300
    assert capsys.readouterr().out.count("message_refused") <= 60


def test_refusals_are_counted_once_they_are_durable(reader):
    reader.topic.write_raw(b"poison")
    reader.disk.trouble = [RuntimeError("defect")]
    with pytest.raises(RuntimeError):
        reader.source.step()
    assert "malformed" not in reader.disk.counted
    reader.read()
    assert reader.disk.counted["malformed"] == 1


def test_what_is_too_old_is_counted_and_not_kept(reader):
    old = {"query": "?", "timestamp": NOW - 8 * 86_400}
    reader.topic.write_raw(msgspec.json.encode(old))
    reader.read()
    assert reader.disk.counted["too_old"] == 1
    assert reader.disk.quarantined == []


def test_queries_of_another_form_are_mapped():
    reader = Reader(mapping={"query_id": "id", "query": "input.text", "tags.tenant": "who"})
    reader.topic.write_raw(b'{"id":"a","input":{"text":"?"},"who":"acme"}')
    reader.topic.write_raw(b'{"id":"b","input":{"text":"?"}}')
    reader.topic.write_raw(b'{"order":17}')
    assert reader.read() == ["a", "b"]
    assert reader.disk.counted["no tags.tenant"] >= 1


class FakeSpans:
    """Takes a span from each body, and may refuse."""

    def __init__(self, error=None):
        self.is_behind = False
        self.delivered = []
        self.error = error
        self.encodings = []

    def decode(self, body, encoding):
        self.encodings.append(encoding)
        if self.error is not None and body == b"bad":
            raise self.error
        return [SpanRow(body, 1, True, body)]

    def deliver(self, rows):
        self.delivered += rows


@pytest.mark.parametrize(("format_", "encoding"), [("otlp", "protobuf"), ("otlp_json", "json")])
def test_spans_are_delivered_once_they_are_durable(format_, encoding):
    spans = FakeSpans()
    reader = Reader(spans=spans, format=format_)
    reader.topic.write_raw(b"one")
    reader.topic.write_raw(b"two")
    [submission] = committed(reader)
    assert [row.body for row in submission.spans] == [b"one", b"two"]
    assert spans.delivered == list(submission.spans)
    assert spans.encodings == [encoding] * 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(RecordError("malformed", "", "no request"), "malformed", id="no request"),
        pytest.param(MemoryLimitError("4 GB", hint=""), "too_large", id="more than fits ever"),
    ],
)
def test_traces_that_cannot_be_taken_are_refused(error, reason):
    reader = Reader(spans=FakeSpans(error), format="otlp")
    reader.topic.write_raw(b"bad")
    reader.topic.write_raw(b"good")
    [submission] = committed(reader)
    assert [row.body for row in submission.spans] == [b"good"]
    assert reader.disk.counted[reason] == 1


def test_traces_wait_for_memory(reader):
    spans = FakeSpans(MemoryLimitError("in use", hint="", retry_after_s=2))
    reader = Reader(spans=spans, format="otlp")
    reader.topic.write_raw(b"bad")
    with pytest.raises(MemoryLimitError):
        reader.source.step()
    spans.error = None
    reader.read()
    assert [row.body for row in spans.delivered] == [b"bad"]


def test_traces_wait_while_too_many_are_to_be_mapped():
    class Behind(FakeSpans):
        asked = 0

        @property
        def is_behind(self):
            self.asked += 1
            return self.asked < 3

        @is_behind.setter
        def is_behind(self, _):
            pass

    spans = Behind()
    reader = Reader(spans=spans, format="otlp")
    reader.topic.write_raw(b"one")
    reader.read()
    assert spans.asked == 3
    assert len(spans.delivered) == 1
