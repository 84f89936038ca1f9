"""The rule for times of events over every source: the table of the guide, cell by cell."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from ragmon.access import ANONYMOUS
from ragmon.clock import ManualClock
from ragmon.sources import IngestOutcome, SourceContext, http, jsonl
from tests.support.limits import body_limits
from tests.support.otlp import NOW, TRACE, CountedOutcomes, as_json, exchange, rig, span

DAY = 86_400.0
GOOD = NOW - 10.0
MISSING, NO_TIME = "missing", "noon"
QUERIES, CHANGES = "a query", "a change"
EVALUATION = "gen_ai.evaluation.result"
RETRIEVAL = {"openinference.span.kind": "RETRIEVER", "input.value": "why?", "output.value": "[]"}


class Way:
    """A way in, and what came out behind it."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.counters = CountedOutcomes()
        self.stored = []

    def submit(self, submission) -> None:
        kept = [*submission.records, *submission.changes]
        self.stored += [each.timestamp for each in kept]
        submission.reply(IngestOutcome(accepted=len(kept)))

    def refused(self):
        ends = ("accepted", "duplicate")
        return [
            reason
            for (_, reason), count in self.counters.counts.items()
            for _ in range(count)
            if reason not in ends
        ]


def lines(times, **fields):
    """Lines of JSON, with RFC 3339 times as clients write them."""
    timed = [{} if time is MISSING else {"timestamp": text(time)} for time in times]
    content = [{"query_id": f"q{at}", **fields, **each} for at, each in enumerate(timed)]
    return "\n".join(map(json.dumps, content)).encode() + b"\n"


def text(time):
    return time if time is NO_TIME else datetime.fromtimestamp(time, UTC).isoformat()


def by_http(path, **fields):
    def send(way, times):
        limits = body_limits()
        options = http.Options(
            limits=limits, records=99, listed_errors=9, retention_s=7 * DAY, max_skew_s=300.0
        )
        now = ManualClock(NOW).now
        sinks = http.IngestSinks(way, way)
        source = http.HttpSource(options, sinks, way.counters, lambda *_: ANONYMOUS, now)
        headers = [(b"content-type", b"application/x-ndjson")]
        scope = {"path": path, "method": "POST", "headers": headers, "query_string": b""}
        answer = asyncio.run(exchange(source, scope, [lines(times, **fields)]))
        assert answer.status == 200

    return send


def by_file(records, **fields):
    def send(way, times):
        path = way.folder / "rag.log"
        path.write_bytes(lines(times, **fields))
        positions: dict[str, bytes] = {}

        class Sink:
            """Of the way, which keeps no positions."""

            def submit(self, submission):
                positions.update(submission.offsets)
                way.submit(submission)

        context = SourceContext(
            sink=Sink(),
            counters=way.counters,
            clock=ManualClock(NOW),
            offset=positions.get,
            retention_s=7 * DAY,
            max_skew_s=300.0,
        )
        source = jsonl.JsonlSource(jsonl.Options(path=path, records=records), context)
        assert source.step()  # it is seen
        assert source.step()

    return send


def nanoseconds(time):
    return 0 if time is MISSING else time if time is NO_TIME else int(time * 1e9)


def over_otlp(path, make):
    def send(way, times):
        with rig(way.folder / "data") as site:
            submit = site.engine.writer.submit

            def seen(submission):
                way.stored += [each.timestamp for each in submission.records]
                way.stored += [each.timestamp for each in submission.changes]
                submit(submission)

            site.engine.writer.submit = seen
            way.counters = site.counters
            body = make(times)
            assert site.send(body, path, content_type="application/json").status == 200
            site.wait()

    return send


def spans(times):
    """Traces of one span each."""
    made = []
    for at, time in enumerate(times):
        start = nanoseconds(time)
        end = start + 10**7 if isinstance(start, int) and start > 0 else start
        name = bytes([at + 1]) * 16
        made.append(span(at + 1, 0, RETRIEVAL, trace_id=name, start_ns=start, end_ns=end))
    return as_json(*made)


def evaluation(at, time):
    values = {"name": {"stringValue": f"user-{at}"}, "score.value": {"doubleValue": 1.0}}
    return {
        "timeUnixNano": str(nanoseconds(time)),
        "attributes": [
            {"key": f"gen_ai.evaluation.{key}", "value": value} for key, value in values.items()
        ],
    }


def events(times):
    """One span that is part of no query, with its evaluations."""
    request = json.loads(as_json(span(1)))
    wire = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    wire["events"] = [{"name": EVALUATION, **evaluation(*pair)} for pair in enumerate(times)]
    return json.dumps(request).encode()


def log_records(times):
    records = [
        {"eventName": EVALUATION, "traceId": TRACE.hex(), **evaluation(*pair)}
        for pair in enumerate(times)
    ]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


def scores(times):
    timed = [{} if time is MISSING else {"timestamp": text(time)} for time in times]
    score = {"traceId": TRACE.hex(), "name": "user", "value": 1}
    return json.dumps([{**score, **each} for each in timed]).encode()


def annotations(times):
    timed = [{} if time is MISSING else {"created_at": text(time)} for time in times]
    one = {"trace_id": TRACE.hex(), "name": "user", "annotator_kind": "HUMAN"}
    data = [{**one, "result": {"score": 1}, **each} for each in timed]
    return json.dumps({"data": data}).encode()


WAYS = [
    pytest.param(by_http("/v1/queries"), QUERIES, id="HTTP queries"),
    pytest.param(by_http("/v1/feedback", rating=1), CHANGES, id="HTTP feedback"),
    pytest.param(by_http("/v1/labels", faithful=1), CHANGES, id="HTTP labels"),
    pytest.param(by_file("queries"), QUERIES, id="a file of queries"),
    pytest.param(by_file("feedback", rating=1), CHANGES, id="a file of feedback"),
    pytest.param(by_file("labels", faithful=1), CHANGES, id="a file of labels"),
    pytest.param(over_otlp("/v1/traces", spans), QUERIES, id="OTLP spans"),
    pytest.param(over_otlp("/v1/traces", events), CHANGES, id="evaluations in OTLP spans"),
    pytest.param(over_otlp("/v1/logs", log_records), CHANGES, id="OTLP log records"),
    pytest.param(over_otlp("/api/public/scores", scores), CHANGES, id="Langfuse scores"),
    pytest.param(over_otlp("/v1/trace_annotations", annotations), CHANGES, id="annotations"),
]


@pytest.mark.parametrize(
    ("time", "becomes"),
    [
        pytest.param(MISSING, {QUERIES: NOW, CHANGES: NOW}, id="missing"),
        pytest.param(-3_600.0, {QUERIES: "too_old", CHANGES: "too_old"}, id="before 1970"),
        pytest.param(
            NOW - 8 * DAY,
            {QUERIES: "too_old", CHANGES: NOW - 8 * DAY},
            id="older than retention",
        ),
        pytest.param(NOW + 200.0, {QUERIES: NOW + 200.0, CHANGES: NOW + 200.0}, id="within skew"),
        pytest.param(NOW + 400.0, {QUERIES: "future", CHANGES: "future"}, id="beyond skew"),
        pytest.param(NOW + 3e9, {QUERIES: "future", CHANGES: "future"}, id="a century ahead"),
        pytest.param(NO_TIME, {QUERIES: "invalid", CHANGES: "invalid"}, id="no time"),
    ],
)
@pytest.mark.parametrize(("send", "kind"), WAYS)
def test_every_source_has_the_same_rule_for_times(send, kind, time, becomes, tmp_path):
    way = Way(tmp_path)
    send(way, [GOOD, time, GOOD])
    outcome = becomes[kind]
    if isinstance(outcome, str):
        assert way.refused() == [outcome]
        assert way.stored == pytest.approx([GOOD, GOOD])
    else:
        assert way.refused() == []
        read = 62.0 if time is MISSING else 1.0  # a trace is read when it is complete
        assert sorted(way.stored) == pytest.approx(sorted([GOOD, outcome, GOOD]), abs=read)


@pytest.mark.parametrize(
    ("path", "make", "field"),
    [
        ("/v1/logs", log_records, "rejectedLogRecords"),
        ("/v1/traces", lambda times: spans([NO_TIME, *times[1:]]), "rejectedSpans"),
    ],
)
def test_a_sender_is_told_of_what_was_refused(tmp_path, path, make, field):
    with rig(tmp_path) as site:
        answer = site.send(make([NOW + 400.0, GOOD]), path, content_type="application/json")
    assert answer.status == 200
    assert answer.json()["partialSuccess"][field] == "1"


@pytest.mark.parametrize(
    ("path", "make"), [("/api/public/scores", scores), ("/v1/trace_annotations", annotations)]
)
def test_a_score_from_the_future_is_a_bad_request(tmp_path, path, make):
    with rig(tmp_path) as site:
        answer = site.send(make([NOW + 400.0]), path, content_type="application/json")
        assert site.counters.counts == {("otlp_feedback", "future"): 1}
    assert answer.status == 400
    assert "max_clock_skew" in answer.json()["detail"]


def test_a_log_record_without_a_time_has_the_time_it_was_observed(tmp_path):
    def observed(times):
        request = json.loads(log_records([MISSING for _ in times]))
        for record, time in zip(
            request["resourceLogs"][0]["scopeLogs"][0]["logRecords"], times, strict=True
        ):
            record["observedTimeUnixNano"] = str(nanoseconds(time))
            record["timeUnixNano"] = 0
        return json.dumps(request).encode()

    way = Way(tmp_path)
    over_otlp("/v1/logs", observed)(way, [GOOD])
    assert way.stored == pytest.approx([GOOD])
