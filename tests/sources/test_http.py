"""``POST /v1/queries``, ``/v1/feedback`` and ``/v1/labels``: every answer they can give."""

import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
import zstandard

from ragmon.access import ANONYMOUS
from ragmon.clock import SystemClock
from ragmon.errors import StoreError, StoreFullError
from ragmon.sources.http import HttpSource, IngestSinks, Options
from tests.support.daemons import running
from tests.support.http import NDJSON, PROBLEM
from tests.support.limits import body_limits
from tests.support.wait import eventually

OK = {"accepted": 1, "duplicates": 0, "rejected": []}


def queries(pipeline: str, *ids: str) -> list[dict[str, str]]:
    return [{"query_id": each, "pipeline": pipeline} for each in ids]


def counted(site, pipeline: str) -> float:
    return site.total("ragmon_queries_total", pipeline=pipeline)


def refusals(site, source: str, reason: str) -> float:
    return site.total("ragmon_rejected_total", source=source, reason=reason)


# ------------------------------------------------------------------------- what is kept

LINES = b'{"pipeline":"%s","query":"a"}\n{"pipeline":"%s","query":"b"}\n'


@pytest.mark.parametrize(
    ("body", "headers", "accepted"),
    [
        pytest.param(b'{"pipeline":"P"}', {}, 1, id="one object, no content type"),
        pytest.param(b'{"pipeline":"P"}', {"content-type": "application/json"}, 1, id="one object"),
        pytest.param(
            b'{\n  "pipeline":\n  "P"\n}', {"content-type": "application/json"}, 1, id="pretty"
        ),
        pytest.param(
            b'[{"pipeline":"P"},{"pipeline":"P"}]',
            {"content-type": "application/json"},
            2,
            id="an array",
        ),
        pytest.param(b"[]", {"content-type": "application/json"}, 0, id="an empty array"),
        pytest.param(
            b'{"pipeline":"P"}\n{"pipeline":"P"}\n', {"content-type": NDJSON}, 2, id="NDJSON"
        ),
        pytest.param(b'{"pipeline":"P"}\r\n{"pipeline":"P"}', {}, 2, id="NDJSON unannounced"),
        pytest.param(
            gzip.compress(b'{"pipeline":"P"}\n{"pipeline":"P"}\n'),
            {"content-type": NDJSON, "content-encoding": "gzip"},
            2,
            id="gzip",
        ),
        pytest.param(
            zstandard.compress(b'[{"pipeline":"P"},{"pipeline":"P"}]'),
            {"content-type": "application/json", "content-encoding": "ZSTD"},
            2,
            id="zstd",
        ),
    ],
)
def test_every_form_is_taken(daemon, request, body, headers, accepted):
    if headers.get("content-encoding"):
        pipeline = "P"
        before = counted(daemon, "P")
    else:
        pipeline, before = request.node.callspec.id, 0
        body = body.replace(b'"P"', msgspec.json.encode(pipeline))
    answer = daemon.request("POST", "/v1/queries", body, headers)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {"accepted": accepted, "duplicates": 0, "rejected": []}
    assert counted(daemon, pipeline) == before + accepted


def test_a_chunked_body_is_taken(daemon):
    parts = iter([b'{"pipeline":', b'"chunked"}'])
    assert daemon.request("POST", "/v1/queries", parts).json == OK
    assert counted(daemon, "chunked") == 1


def test_100_continue_is_answered(daemon):
    body = b'{"pipeline":"continue"}'
    with daemon.wire() as wire:
        wire.sendall(
            b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        assert wire.recv(100).startswith(b"HTTP/1.1 100 ")
        wire.sendall(body)
        assert b"200 OK" in wire.recv(1_000)


def test_good_lines_of_a_bad_batch_are_kept_and_the_bad_ones_explained(daemon):
    before = {reason: refusals(daemon, "http", reason) for reason in ("invalid", "malformed")}
    body = (
        b'{"pipeline":"mixed","query_id":"mixed-1"}\n'
        b'{"pipeline":"mixed","chunks":[{"id":"a","score":"high"}]}\n'
        b"\n"
        b"oops\n"
        b'{"pipeline":"mixed","query_id":"mixed-2"}\n'
        b'{"pipeline":"mixed","timestamp":1}\n'
    )
    answer = daemon.post("/v1/queries", body, content_type=NDJSON)
    assert answer.status == 200
    assert (answer.json["accepted"], answer.json["duplicates"]) == (2, 0)
    told = [(each["line"], each["field"]) for each in answer.json["rejected"]]
    assert told == [(2, "chunks[0].score"), (4, ""), (6, "timestamp")]
    assert answer.json["rejected"][0]["error"] == "expected number, got str"
    assert all(each["remedy"] for each in answer.json["rejected"])
    assert counted(daemon, "mixed") == 2
    assert daemon.get("/v1/queries/mixed-2").status == 200
    for reason, was in before.items():
        assert refusals(daemon, "http", reason) == was + 1
    assert refusals(daemon, "http", "too_old") >= 1


def test_the_position_in_an_array_is_its_line(daemon):
    answer = daemon.post("/v1/queries", b'[{"pipeline":"array"},3,{"pipeline":"array"}]')
    assert answer.json["accepted"] == 2
    assert [each["line"] for each in answer.json["rejected"]] == [2]


@pytest.mark.parametrize(
    ("path", "source", "body", "content_type"),
    [
        pytest.param("/v1/queries", "http", b"{}\n" * 10_001, NDJSON, id="queries"),
        pytest.param("/v1/queries", "http", b"[" + b"1," * 300_000 + b"1]", "", id="an array"),
        pytest.param("/v1/feedback", "feedback", b"1\n" * 10_001, NDJSON, id="feedback"),
        pytest.param("/v1/labels", "label", b"1\n" * 10_001, NDJSON, id="labels"),
    ],
)
def test_too_many_records_are_413(daemon, path, source, body, content_type):
    before = refusals(daemon, source, "too_many_records")
    packed = gzip.compress(body)
    answer = daemon.post(path, packed, content_type=content_type, content_encoding="gzip")
    assert answer.status == 413
    assert "limits.records allows 10000" in answer.json["detail"]
    assert refusals(daemon, source, "too_many_records") == before + 1


def test_a_batch_without_a_good_line_is_422(daemon):
    answer = daemon.post("/v1/queries", b'{"query":1}\n{"query":2}', content_type=NDJSON)
    assert answer.status == 422
    assert answer.json["accepted"] == 0
    assert [each["line"] for each in answer.json["rejected"]] == [1, 2]


def test_more_errors_than_are_listed_are_counted(daemon):
    before = refusals(daemon, "http", "invalid")
    answer = daemon.post("/v1/queries", [{"query": 1}] * 150 + [{"pipeline": "many"}])
    assert answer.status == 200
    assert len(answer.json["rejected"]) == 100
    assert answer.json["rejected_total"] == 150
    assert refusals(daemon, "http", "invalid") == before + 150


def test_unknown_fields_of_the_first_record_are_named_with_the_nearest(daemon):
    answer = daemon.post("/v1/queries", [{"chunk": [], "hobby": 1}, {"anwser": "x"}])
    assert answer.json["accepted"] == 2
    assert answer.json["ignored_fields"] == {"chunk": "chunks", "hobby": None}


# --------------------------------------------------------------------------- duplicates


def test_the_same_id_again_is_a_duplicate_and_not_counted_twice(daemon):
    first = daemon.post("/v1/queries", queries("twice", "twice-1", "twice-2", "twice-1"))
    assert first.json == {"accepted": 2, "duplicates": 1, "rejected": []}
    again = daemon.post("/v1/queries", queries("twice", "twice-1", "twice-3"))
    assert again.json == {"accepted": 1, "duplicates": 1, "rejected": []}
    assert counted(daemon, "twice") == 3


def test_a_batch_of_duplicates_is_no_failure(daemon):
    daemon.post("/v1/queries", queries("again", "again-1"))
    answer = daemon.post("/v1/queries", queries("again", "again-1"))
    assert (answer.status, answer.json["duplicates"]) == (200, 1)


def test_the_same_id_at_the_same_time_is_counted_once(daemon):
    def send(_):
        return daemon.post("/v1/queries", queries("race", "race-1")).json

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(32)))
    assert sum(each["accepted"] for each in answers) == 1
    assert sum(each["duplicates"] for each in answers) == 31
    assert counted(daemon, "race") == 1


# ------------------------------------------------------------------ feedback and labels


def test_feedback_and_labels_are_answered_in_the_same_form(daemon):
    daemon.post("/v1/queries", queries("rated", "rated-1"))
    rated = daemon.post("/v1/feedback", {"query_id": "rated-1", "rating": "positive"})
    assert (rated.status, rated.json) == (200, OK)
    labelled = daemon.post("/v1/labels", [{"query_id": "rated-1", "faithful": 1}, {}])
    assert (labelled.status, labelled.json["accepted"]) == (200, 1)
    assert [each["field"] for each in labelled.json["rejected"]] == ["query_id"]
    assert daemon.total("ragmon_feedback_total", pipeline="rated", rating="positive") == 1


def test_feedback_sent_twice_is_a_duplicate(daemon):
    daemon.post("/v1/queries", queries("rated", "rated-2"))
    told = {"query_id": "rated-2", "rating": -1, "timestamp": 1_000}
    assert daemon.post("/v1/feedback", told).json["accepted"] == 1
    assert daemon.post("/v1/feedback", told).json["duplicates"] == 1


@pytest.mark.parametrize(
    ("path", "source"), [("/v1/feedback", "feedback"), ("/v1/labels", "label")]
)
def test_refused_changes_are_counted_by_their_source(daemon, path, source):
    before = refusals(daemon, source, "invalid")
    answer = daemon.post(path, {"query_id": "a"})
    assert answer.status == 422
    assert refusals(daemon, source, "invalid") == before + 1


def test_feedback_on_too_many_unknown_queries_is_refused_by_line(tmp_path):
    with running(tmp_path / "data", limits__waiting=2) as site:
        told = [{"query_id": f"later-{at}", "rating": 1} for at in range(4)]
        answer = site.post("/v1/feedback", told)
        assert answer.status == 200
        assert answer.json["accepted"] == 2
        assert [each["line"] for each in answer.json["rejected"]] == [3, 4]
        assert "limits.waiting" in answer.json["rejected"][0]["remedy"]
        assert refusals(site, "feedback", "waiting_full") == 2
        assert site.post("/v1/feedback", told[2:3]).status == 422


def test_too_many_labels_of_one_query_are_refused_by_line(daemon):
    daemon.post("/v1/queries", {"query_id": "labelled-often"})
    labels = [
        {"query_id": "labelled-often", "labeller": f"l{at}", "faithful": 1} for at in range(101)
    ]
    answer = daemon.post("/v1/labels", labels)
    assert (answer.status, answer.json["accepted"]) == (200, 100)
    assert answer.json["rejected"][0]["line"] == 101
    assert "labeller" in answer.json["rejected"][0]["remedy"]
    assert refusals(daemon, "label", "labels_full") == 1


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "reason"),
    [
        pytest.param("POST", "/v1/queries", b"[{},", {}, 400, "malformed", id="broken array"),
        pytest.param("PUT", "/v1/queries", b"{}", {}, 405, "method", id="PUT"),
        pytest.param("GET", "/v1/feedback", None, {}, 405, "method", id="GET of feedback"),
        pytest.param("DELETE", "/v1/labels", None, {}, 405, "method", id="DELETE of labels"),
        pytest.param(
            "POST",
            "/v1/queries",
            b"{}",
            {"content-encoding": "br"},
            415,
            "unsupported_encoding",
            id="brotli",
        ),
        pytest.param(
            "POST",
            "/v1/queries",
            gzip.compress(b"{}" * 100)[:-9],
            {"content-encoding": "gzip"},
            400,
            "bad_compression",
            id="half a gzip stream",
        ),
        pytest.param(
            "POST",
            "/v1/queries",
            b"{}",
            {"content-encoding": "zstd"},
            400,
            "bad_compression",
            id="zstd that is none",
        ),
        pytest.param(
            "POST", "/v1/queries", b"x" * 70_000, {}, 413, "too_large", id="larger than limits.body"
        ),
        pytest.param(
            "POST",
            "/v1/queries",
            gzip.compress(b"x" * 200_000),
            {"content-encoding": "gzip"},
            413,
            "too_large",
            id="a gzip bomb",
        ),
        pytest.param(
            "POST",
            "/v1/queries",
            zstandard.compress(b"x" * 200_000),
            {"content-encoding": "zstd"},
            413,
            "too_large",
            id="a zstd bomb",
        ),
        pytest.param(
            "POST",
            "/v1/queries",
            b"{}",
            {"x-long": "y" * 63_000, "x-longer": "y" * 3_000},
            431,
            "headers_too_large",
            id="headers",
        ),
    ],
)
def test_refusals_are_problems_and_counted(small, method, path, body, headers, status, reason):
    source = {"/v1/feedback": "feedback", "/v1/labels": "label"}.get(path, "http")
    before = refusals(small, source, reason)
    answer = small.request(method, path, body, headers)
    assert answer.status == status
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json["status"] == status
    assert answer.json["title"]
    assert answer.json["detail"]
    assert refusals(small, source, reason) == before + 1


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A daemon that takes small bodies only."""
    limits = {"limits__body": 65_536, "limits__decompressed": 131_072}
    with running(tmp_path_factory.mktemp("small") / "data", **limits) as site:
        yield site


@pytest.mark.parametrize("size", [70_000, 3_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_too_much_gets_to_read_why(small, size, chunked):
    part = b" " * 10_000
    body = (part for _ in range(size // len(part))) if chunked else b" " * size
    assert small.request("POST", "/v1/queries", body).status == 413


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/queries", {"GET", "HEAD", "POST"}),
        ("/v1/feedback", {"POST"}),
        ("/v1/labels", {"POST"}),
    ],
)
def test_405_says_what_is_allowed(daemon, path, allowed):
    answer = daemon.request("PATCH", path)
    assert set(answer.headers["allow"].replace(" ", "").split(",")) == allowed


# --------------------------------------------------------------------------- overload


def test_a_full_queue_is_503_and_keeps_nothing(tmp_path):
    body = queries("full", *(f"full-{at}" for at in range(50)))
    with running(tmp_path / "data", limits__queue=4_000) as site, ThreadPoolExecutor(1) as threads:
        with site.stalled_writer():
            first = threads.submit(site.post, "/v1/queries", body)
            eventually(lambda: site.writer.queued_bytes > 2_000, "the first batch waits")
            refused = [site.post("/v1/queries", queries("full", *"abc") * 20) for _ in range(3)]
            assert [each.status for each in refused] == [503] * 3
            assert {each.headers["content-type"] for each in refused} == {PROBLEM}
            assert all(1 <= int(each.headers["retry-after"]) <= 5 for each in refused)
            assert site.get("/livez").status == 200
        assert first.result(10).json["accepted"] == 50
        assert counted(site, "full") == 50
        assert site.get("/v1/queries/a").status == 404
        assert refusals(site, "http", "overloaded") == 3
        assert site.post("/v1/queries", queries("full", "a")).json == OK


def test_a_client_that_leaves_before_the_answer_does_no_harm(daemon):
    body = b'{"pipeline":"hasty","query_id":"hasty-1"}'
    with daemon.stalled_writer(), daemon.wire() as wire:
        head = b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(
            body
        )
        wire.sendall(head + body)
        eventually(lambda: daemon.writer.queued_bytes, "the batch waits")
    assert eventually(lambda: counted(daemon, "hasty"), "it is counted") == 1
    assert daemon.post("/v1/queries", body).json["duplicates"] == 1


class Failing:
    """Commits that fail as they are told, then are made by the real thing."""

    def __init__(self, real, *errors: Exception) -> None:
        self._real = real
        self._errors = list(errors)

    def commit(self, group, now):
        if self._errors:
            raise self._errors.pop(0)
        self._real.commit(group, now)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(StoreFullError("no space left"), "store_full", id="the disk is full"),
        pytest.param(StoreError("it hurts"), "store_error", id="the store refuses"),
        pytest.param(ZeroDivisionError("ours"), "store_error", id="a defect of ours"),
    ],
)
def test_a_failed_commit_is_503_and_leaves_no_trace(tmp_path, error, reason):
    with running(tmp_path / "data") as site:
        site.writer.commits = Failing(site.writer.commits, error)
        refused = site.post("/v1/queries", queries("failed", "failed-1"))
        assert refused.status == 503
        assert refused.headers["content-type"] == PROBLEM
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        assert refusals(site, "http", reason) == 1
        assert site.total("ragmon_ingest_queue_bytes") == 0
        assert site.post("/v1/queries", queries("failed", "failed-1")).json == OK
        assert counted(site, "failed") == 1


def test_a_request_that_the_end_cuts_off_is_told_to_come_again():
    class Silent:
        """A sink that never answers, and counters that are not read."""

        def submit(self, submission):
            waiting.set()

        def unmapped(self, source, field, count):
            """Counted nowhere."""

        def rejected(self, source, reason, count=1):
            counted.append((source, reason))

        def note_refusal(self, source, reason, at, text):
            """Kept nowhere."""

    counted, sent = [], []
    limits = body_limits()
    options = Options(limits=limits, records=10, listed_errors=1, retention_s=1e9, max_skew_s=300)
    source = HttpSource(
        options, IngestSinks(Silent(), Silent()), Silent(), lambda *_: ANONYMOUS, SystemClock().now
    )
    scope = {"path": "/v1/queries", "method": "POST", "headers": [], "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def keep(message):
        sent.append(message)

    async def cut_off():
        task = asyncio.create_task(source(scope, receive, keep))
        await asyncio.wait_for(waiting.wait(), 5)
        task.cancel()
        await task

    waiting = asyncio.Event()
    asyncio.run(cut_off())
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"2") in sent[0]["headers"]
    assert counted == [("http", "ending")]
