"""Large OTLP/JSON requests: read as small ones are, but never much of them at a time."""

import json as plain_json

import pytest

from ragmon import json_scan
from ragmon.errors import RecordError
from ragmon.json_scan import count_values
from ragmon.sources.otlp.receiver import logs
from ragmon.sources.otlp.wire import json
from tests.fuzz import otlp
from tests.fuzz.source import Source
from tests.support.otlp import FOLDERS, captured

IDS = '"traceId":"' + "a" * 32 + '","spanId":"' + "b" * 16 + '"'
PAIR = '{"key":"k","value":{"stringValue":"v"}}'
MANY = ",".join([PAIR] * (json.MOST_VALUES // 6))  # seven values each
SCANS = 1  # of a stretch, in one turn


def traces(spans: str, resource: str = "null") -> bytes:
    scopes = f'[{{"spans":[{spans}]}}]'
    return f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":{scopes}}}]}}'.encode()


def span(attributes: str = "", **lists: str) -> str:
    more = "".join(f',"{name}":[{content}]' for name, content in lists.items())
    return f'{{{IDS},"attributes":[{attributes}]{more}}}'


def decoded(body: bytes):
    """(spans, refused by reason, dropped by reason) of a request."""
    parts = list(json.decode(body))
    spans = [each for part in parts for each in part.spans]
    refused = {reason for part in parts for reason in part.refused}
    dropped = {reason for part in parts for reason in part.dropped}
    return spans, refused, dropped


@pytest.fixture
def parsed(monkeypatch):
    """Values of each text that was decoded at once, save the outline of the request."""
    counts: list[int] = []
    parse = json.parse

    def counted(body, decoder=json._decode_request):
        if decoder is not json._decode_large:
            counts.append(count_values(bytes(memoryview(body)), 1 << 40))
        return parse(body, decoder)

    monkeypatch.setattr(json, "parse", counted)
    return counts


def test_a_large_request_is_read_as_a_small_one(monkeypatch):
    bodies = [
        each.plain for name in FOLDERS for each in captured(name) if "json" in each.content_type
    ]
    bodies += [
        otlp.as_json(otlp.request(Source(bytes((step * at + step) % 256 for at in range(400)))))
        for step in (3, 5, 7, 11, 29, 53, 101, 197)
    ]
    assert len(bodies) > 8

    def read(body):
        try:
            return decoded(body)
        except RecordError as error:
            return error.reason

    small = [read(body) for body in bodies]
    monkeypatch.setattr(json, "_LARGE", 0)
    assert [read(body) for body in bodies] == small
    assert any(spans for spans, _, _ in (each for each in small if isinstance(each, tuple)))


@pytest.mark.parametrize(
    "wide",
    [
        pytest.param(span(MANY), id="attributes"),
        pytest.param(span(events=f'{{"attributes":[{MANY}]}}'), id="attributes of an event"),
        pytest.param(span(events=",".join(["{}"] * 2 * json.MOST_VALUES)), id="events"),
        pytest.param(span(links=",".join(["{}"] * 2 * json.MOST_VALUES)), id="links"),
    ],
)
def test_a_span_of_too_many_fields_costs_only_itself(parsed, wide):
    spans, refused, _ = decoded(traces(f"{span(PAIR)},{wide},{span(PAIR)}"))
    assert len(spans) == 2
    assert refused == {"too_many_fields"}
    assert max(parsed) < json.MOST_VALUES


def test_a_span_of_long_texts_is_no_wide_one():
    text = '{"key":"input.value","value":{"stringValue":"' + "x, {} []" * 100_000 + '"}}'
    spans, refused, dropped = decoded(traces(span(text)))
    assert (len(spans), refused, dropped) == (1, set(), set())


@pytest.mark.parametrize("body", [traces("", f'{{"attributes":[{MANY}]}}')], ids=["resource"])
def test_a_resource_of_too_many_fields_is_refused_with_the_limit(parsed, body):
    with pytest.raises(RecordError, match="100,000 texts, lists and objects") as caught:
        decoded(body)
    assert caught.value.reason == "too_many_fields"
    assert max(parsed, default=0) < json.MOST_VALUES


def test_many_spans_are_decoded_some_at_a_time(parsed):
    one = span(",".join([PAIR] * 200))
    parts = [part for part in json.decode(traces(",".join([one] * 600))) if part.spans]
    assert sum(len(part.spans) for part in parts) == 600
    assert max(len(part.spans) for part in parts) < 100
    assert max(parsed) < 2_000


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda body: json.decode(body, 10), id="traces"),
        pytest.param(lambda body: logs.decode(body, "json", 10), id="logs"),
    ],
)
def test_others_have_a_turn_while_objects_are_counted(monkeypatch, read):
    scans = 0
    scan = json_scan._scan

    def counted(*arguments):
        nonlocal scans
        scans += 1
        return scan(*arguments)

    monkeypatch.setattr(json_scan, "_scan", counted)
    body = b'{"x":' + b"[" * 20 + b",".join([b"{}"] * 1_000_000) + b"]" * 20 + b"}"
    worst = before = 0
    for _ in read(body):
        worst, before = max(worst, scans - before), scans
    assert scans > 20
    assert worst == SCANS


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(json.decode, id="traces"),
        pytest.param(lambda body: logs.decode(body, "json"), id="logs"),
    ],
)
def test_others_have_a_turn_between_counting_and_decoding(monkeypatch, read):
    steps: list[str] = []

    def noted(name):
        function = getattr(json, name)

        def call(*arguments):
            steps.append(name)
            return function(*arguments)

        monkeypatch.setattr(json, name, call)

    noted("reserve_json")
    noted("parse")
    body = b'{"x":"' + b" " * json._LARGE + b'"}'
    steps.extend("turn" for _ in read(body))
    assert steps[:3] == ["reserve_json", "turn", "parse"]


def test_empty_objects_above_the_spans_are_counted():
    scopes = b",".join([b"{}"] * 200)
    body = b'{"resourceSpans":[{"scopeSpans":[' + scopes + b"]}]}"
    with pytest.raises(RecordError, match="records") as caught:
        list(json.decode(body, 100))
    assert caught.value.reason == "too_many_records"


def test_a_log_record_of_too_many_fields_is_refused():
    record = f'{{"eventName":"gen_ai.evaluation.result","attributes":[{MANY}]}}'
    body = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}'.encode()
    with pytest.raises(RecordError, match="more than") as caught:
        list(logs.decode(body, "json"))
    assert caught.value.reason == "too_many_fields"


def test_outer_objects_are_counted_as_a_decoder_would():
    text = plain_json.dumps([{"a": {"b": {}}}, {"c": [{}]}]).encode()
    assert list(json_scan.count_outer_objects(text, 1)) == [0]
    assert list(json_scan.count_outer_objects(text, 2)) == [2]
    assert list(json_scan.count_outer_objects(text, 3)) == [3]
    assert list(json_scan.count_outer_objects(text, 4)) == [5]
