"""What is asked of ragmon: metrics, probes, report, queries, and refusals."""

import asyncio
import gzip
import html
import logging
import re
import threading
from urllib.parse import quote, urlencode

import msgspec
import pytest
import requests
import zstandard

from ragmon.clock import ManualClock, SystemClock
from ragmon.config import load
from ragmon.daemon.build import build_engine
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.schedule import Job, Schedule
from ragmon.errors import ReadTimeoutError, StoreBusyError, StoreError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from ragmon.stores.sqlite.shard import SqliteShard
from ragmon.web import openapi
from ragmon.web.api import Api
from ragmon.web.auth import Authorizer
from tests.support.daemons import running
from tests.support.http import PROBLEM
from tests.support.limits import body_limits
from tests.support.wait import eventually

PAST_S = 30.0


def send(site, pipeline: str, count: int, **fields):
    now = SystemClock().now() - PAST_S
    made = [
        {"query_id": f"{pipeline}-{at}", "pipeline": pipeline, "timestamp": now + at / 100} | fields
        for at in range(count)
    ]
    assert site.post("/v1/queries", made).json["accepted"] == count


def test_a_query_is_found_though_another_has_its_hash(daemon, monkeypatch):
    real = SqliteShard.hash

    def colliding(self, query_id, attempt=0):
        return real(self, query_id, attempt) if attempt else real(self, "all alike")

    monkeypatch.setattr(SqliteShard, "hash", colliding)
    send(daemon, "alike", 2)
    for at in range(2):
        found = daemon.get(f"/v1/queries/alike-{at}")
        assert (found.status, found.json["record"]["query_id"]) == (200, f"alike-{at}")
    assert daemon.get("/v1/queries/alike-2").status == 404


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_probes_say_ok(daemon, path):
    assert (daemon.get(path).status, daemon.get(path).text) == (200, "ok\n")


@pytest.mark.parametrize(
    ("accept", "media", "last"),
    [
        pytest.param("", "text/plain; version=0.0.4", "", id="nothing said"),
        pytest.param("text/plain", "text/plain; version=0.0.4", "", id="text"),
        pytest.param("*/*", "text/plain; version=0.0.4", "", id="anything"),
        pytest.param(
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text; version=1.0.0",
            "# EOF",
            id="Prometheus",
        ),
    ],
)
def test_metrics_come_in_the_form_that_is_asked_for(daemon, accept, media, last):
    answer = daemon.get("/metrics", accept=accept)
    assert answer.headers["content-type"].startswith(media)
    assert answer.text.endswith(f"{last}\n")
    assert "ragmon_build_info" in answer.text


def test_every_answer_includes_what_was_acknowledged_before(daemon):
    for at in range(1, 6):
        daemon.post("/v1/queries", {"pipeline": "fresh", "query_id": f"fresh-{at}"})
        assert daemon.total("ragmon_queries_total", pipeline="fresh") == at
        report = daemon.get("/v1/report?window=1h&pipeline=fresh").json
        assert report["queries"] == at
        assert len(daemon.get("/v1/queries?pipeline=fresh").json["queries"]) == at


def test_the_report_says_everything_of_one_pipeline(daemon):
    chunks = [{"id": "a", "score": 0.9}, {"id": "b", "score": 0.5}]
    send(daemon, "shop", 8, chunks=chunks, citations=["a"], latency_ms=100, version="v1")
    send(daemon, "shop-empty", 2, chunks=[])
    report = daemon.get("/v1/report?window=1h&pipeline=shop").json
    assert report["window"] == "1h"
    assert report["queries"] == 8
    assert report["alerts"] == []
    [shop] = report["pipelines"]
    attribution = shop["metrics"]["attribution"]
    assert attribution["estimate"] == 0.5
    assert attribution["lower"] <= 0.5 <= attribution["upper"]
    assert attribution["samples"] == 8
    assert shop["metrics"]["zero_result"]["estimate"] == 0.0
    assert shop["latency_ms"]["total"]["p50"] == pytest.approx(100, rel=0.01)
    assert [each["value"] for each in shop["slices"]] == ["v1"]
    everything = daemon.get("/v1/report?window=1h").json
    assert everything["queries"] >= 10
    assert {"shop", "shop-empty"} <= {each["pipeline"] for each in everything["pipelines"]}


def test_the_report_may_end_in_the_past(daemon):
    send(daemon, "past", 3)
    before = SystemClock().now() - PAST_S - 60
    assert daemon.get("/v1/report?window=1h&pipeline=past").json["queries"] == 3
    asked = daemon.get(f"/v1/report?window=1h&pipeline=past&end={before}").json
    assert asked["queries"] == 0
    assert asked["to"] == before


def test_an_unknown_pipeline_has_an_empty_report(daemon):
    report = daemon.get("/v1/report?pipeline=nobody").json
    assert (report["queries"], report["pipelines"], report["metrics"]) == (0, [], {})


def test_queries_come_newest_first_and_no_more_than_asked(daemon):
    send(daemon, "list", 7)
    found = daemon.get("/v1/queries?pipeline=list&limit=3").json["queries"]
    assert [each["record"]["query_id"] for each in found] == ["list-6", "list-5", "list-4"]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param("1h", 2, id="an hour ago"),
        pytest.param("10s", 0, id="ten seconds ago"),
        pytest.param("{unix}", 2, id="unix seconds"),
        pytest.param("2020-01-01T00:00:00Z", 2, id="RFC 3339"),
        pytest.param("2020-01-01T00:00:00", 2, id="without a zone is UTC"),
        pytest.param("", 2, id="nothing"),
    ],
)
def test_queries_since(daemon, request, since, expected):
    pipeline = f"since-{request.node.callspec.id}".replace(" ", "-")
    send(daemon, pipeline, 2)
    since = since.format(unix=SystemClock().now() - 3_600)
    found = daemon.get(f"/v1/queries?pipeline={pipeline}&since={since}").json["queries"]
    assert len(found) == expected


def test_failing_names_alternatives(daemon):
    send(daemon, "fail", 2, chunks=[])
    daemon.post("/v1/queries", {"pipeline": "fail", "query_id": "fail-error", "error": "boom"})
    daemon.post("/v1/queries", {"pipeline": "fail", "query_id": "fail-not"})

    def failing(names: str) -> set[str]:
        found = daemon.get(f"/v1/queries?pipeline=fail&failing={names}").json["queries"]
        return {each["record"]["query_id"] for each in found}

    assert failing("zero_result") == {"fail-0", "fail-1"}
    assert failing("error") == {"fail-error"}
    assert failing("zero_result,error") == {"fail-0", "fail-1", "fail-error"}


def test_one_query_has_everything_known_of_it(daemon):
    send(daemon, "one", 1, chunks=[{"id": "a"}], citations=["a"])
    daemon.post("/v1/feedback", {"query_id": "one-0", "rating": "negative", "comment": "no"})
    daemon.post("/v1/labels", {"query_id": "one-0", "relevant_ids": ["a"]})
    found = daemon.get("/v1/queries/one-0").json
    assert set(found) >= {"record", "signals", "verdicts", "feedback", "failure_mode"}
    assert found["record"]["chunks"] == [{"id": "a"}]
    assert found["signals"]["attribution"] == 1.0
    assert found["feedback"]["rating"] == -1.0
    assert found["failure_mode"] == "generation"


@pytest.mark.parametrize(
    "query_id",
    [
        pytest.param("trace/with/slashes", id="slashes"),
        pytest.param("a b?c=d&e#f%20", id="characters that URLs reserve"),
        pytest.param("naïve 🙂", id="other scripts"),
        pytest.param("0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331", id="trace and span"),
    ],
)
def test_any_id_can_be_asked_for(daemon, query_id):
    daemon.post("/v1/queries", {"query_id": query_id})
    answer = daemon.get(f"/v1/queries/{quote(query_id, safe='')}")
    assert answer.json["record"]["query_id"] == query_id


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        pytest.param("GET", "/nowhere", 404, "not_found", id="no such path"),
        pytest.param("GET", "/v1/queries/none", 404, "not_found", id="no such query"),
        pytest.param("GET", "/v1/queries/", 404, "not_found", id="no id"),
        pytest.param("GET", "/v1/queries/%00", 404, "not_found", id="NUL as an id"),
        pytest.param("POST", "/metrics", 405, "method", id="POST of metrics"),
        pytest.param("DELETE", "/v1/queries/a", 405, "method", id="DELETE of a query"),
        *(
            pytest.param("GET", f"/v1/report?{asked}", 400, "bad_parameter", id=f"report {asked}")
            for asked in (
                "window=soon",
                "window=0",
                "window=9s",
                "window=99999d",
                "window=nan",
                "window=-1h",
                f"window={'9' * 400}",
                "end=soon",
                "end=nan",
                "end=-1",
                "end=-1e300",
            )
        ),
        *(
            pytest.param("GET", f"/v1/queries?{asked}", 400, "bad_parameter", id=f"queries {asked}")
            for asked in (
                "limit=0",
                "limit=1001",
                "limit=-1",
                "limit=many",
                "limit=%C2%B2",
                f"limit={'1' * 5000}",
                "since=soon",
                "since=%C2%B2d",
                f"since={'1' * 5000}d",
                "since=nan",
                "since=inf",
                "failing=everything",
                "failing=zero_result,nope",
                "until=soon",
                "until=-1",
                "order=oldest",
            )
        ),
    ],
)
def test_refusals_are_problems_and_counted(daemon, method, path, status, reason):
    labels = {"source": "api", "reason": reason}
    before = daemon.total("ragmon_rejected_total", **labels)
    answer = daemon.request(method, path)
    assert answer.status == status
    assert answer.headers["content-type"] == PROBLEM
    assert answer.json["status"] == status
    assert answer.json["detail"]
    assert len(answer.body) < 10_000
    assert daemon.total("ragmon_rejected_total", **labels) == before + 1


ODD = ['"it\'s"', "a\nb\r\n\tc", "🇩🇪 Köln", "é" * 128, "a+b & c=d #1 %20", " "]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_queries_of_a_version_or_tag_whatever_it_is_called(daemon, request, value):
    pipeline = f"odd-{request.node.callspec.id}"
    batch = [
        {
            "query_id": f"{pipeline}-{at}",
            "pipeline": pipeline,
            "version": own,
            "tags": {"k.ey": own},
        }
        for at, own in enumerate([value, f"{value}x", ""])
    ]
    assert daemon.post("/v1/queries", batch).json["accepted"] == 3
    for name in ("version", "tag.k.ey"):
        for own in (value, ""):
            asked = urlencode({"pipeline": pipeline, name: own})
            found = daemon.get(f"/v1/queries?{asked}").json["queries"]
            expected = {each["query_id"] for each in batch if each["version"] == own}
            assert {each["record"]["query_id"] for each in found} == expected


def test_queries_until_a_moment(daemon):
    now = SystemClock().now() - PAST_S
    send(daemon, "until", 3)
    stamps = [each["record"]["timestamp"] for each in queries_of(daemon, "pipeline=until")]
    assert queries_of(daemon, f"pipeline=until&until={now - 60}") == []
    found = queries_of(daemon, f"pipeline=until&since={stamps[2]!r}&until={stamps[0]!r}")
    assert [each["record"]["query_id"] for each in found] == ["until-1", "until-0"]
    assert len(queries_of(daemon, "pipeline=until&until=10s")) == 3


def test_the_slowest_come_first(daemon):
    slow = {"query_id": "slowest", "pipeline": "order", "latency_ms": 900}
    others = [{"pipeline": "order", "latency_ms": at} for at in range(5)]
    daemon.post("/v1/queries", [slow, *others, {"pipeline": "order", "query_id": "unknown"}])
    found = queries_of(daemon, "pipeline=order&order=slowest&limit=3")
    assert [each["record"]["latency_ms"]["total"] for each in found] == [900, 4, 3]
    assert len(queries_of(daemon, "pipeline=order&order=slowest")) == 6


def queries_of(site, asked: str) -> list[dict]:
    return site.get(f"/v1/queries?{asked}").json["queries"]


@pytest.mark.parametrize(
    ("method", "path", "source", "says"),
    [
        pytest.param(
            "GET", "/v1/queries?untill=1h", "api", "did you mean 'until'?", id="a typing error"
        ),
        pytest.param(
            "GET", "/v1/queries?Version=a", "api", "did you mean 'version'?", id="capitals"
        ),
        pytest.param(
            "GET", "/v1/queries?tags.tenant=a", "api", "did you mean 'tag.tenant'?", id="a tag"
        ),
        pytest.param(
            "GET", "/v1/queries?tenant=a", "api", "did you mean 'tag.tenant'?", id="a bare tag"
        ),
        pytest.param("GET", "/v1/queries?tag.=a", "api", "'tag.KEY'", id="a tag without a key"),
        pytest.param("GET", "/v1/queries?limit=5&=a", "api", "parameter ''", id="no name"),
        pytest.param("GET", f"/v1/queries?{'x' * 5000}=a", "api", "takes pipeline", id="long"),
        pytest.param("GET", "/v1/queries?%F0%9F%98%80=a", "api", "'😀'", id="no letters"),
        pytest.param("GET", "/v1/report?windows=1h", "api", "did you mean 'window'?", id="report"),
        pytest.param("GET", "/v1/alerts?status=open", "api", "did you mean 'state'?", id="alerts"),
        pytest.param("GET", "/v1/queries/a?limit=1", "api", "takes no parameters", id="none"),
        pytest.param("GET", "/?windw=1h", "api", "did you mean 'window'?", id="the overview"),
        pytest.param("GET", "/metrics?name=a", "api", "takes no parameters", id="metrics"),
        pytest.param("GET", "/livez?a=b", "api", "takes no parameters", id="a probe"),
        pytest.param("HEAD", "/v1/queries?a=b", "api", "", id="HEAD"),
        pytest.param("DELETE", "/v1/users/a?dryrun=1", "api", "mean 'dry_run'?", id="a change"),
        pytest.param("POST", "/v1/queries?a=b", "http", "takes no parameters", id="records"),
        pytest.param("POST", "/v1/feedback?a=b", "feedback", "no parameters", id="feedback"),
        pytest.param("POST", "/v1/traces?a=b", "otlp", "takes no parameters", id="traces"),
        pytest.param("GET", "/v1/traces?lst=1", "otlp", "did you mean 'last'?", id="past traces"),
        pytest.param(
            "POST", "/v1/span_annotations?a=b", "otlp_feedback", "mean 'sync'?", id="annotations"
        ),
    ],
)
def test_unknown_parameters_are_refused_with_the_nearest_name(daemon, method, path, source, says):
    labels = {"source": source, "reason": "unknown_parameter"}
    before = daemon.total("ragmon_rejected_total", **labels)
    answer = daemon.request(method, path)
    assert answer.status == 400
    assert says in answer.text
    assert len(answer.body) < 1_000
    assert daemon.total("ragmon_rejected_total", **labels) == before + 1


def test_a_parameter_is_given_once(daemon):
    labels = {"source": "api", "reason": "repeated_parameter"}
    before = daemon.total("ragmon_rejected_total", **labels)
    answer = daemon.get("/v1/queries?version=a&version=b")
    assert (answer.status, answer.json["detail"].split(":")[0]) == (400, "version")
    assert daemon.total("ragmon_rejected_total", **labels) == before + 1


def test_every_parameter_of_the_document_is_known(daemon):
    for endpoint in openapi.ENDPOINTS:
        path = re.sub("{.*?}", "1", endpoint.path)
        for parameter in endpoint.asked:
            asked = parameter.name.replace("KEY", "tenant")
            answer = daemon.request(endpoint.method, f"{path}?{asked}=1")
            refusal = f"unknown parameter '{asked}'"
            assert refusal not in html.unescape(answer.text), f"{endpoint.name} {asked}"
    refused = daemon.get("/v1/report?unheard=1")
    assert "unknown parameter 'unheard'" in refused.text


def test_405_says_what_is_allowed(daemon):
    allowed = daemon.request("POST", "/metrics").headers["allow"]
    assert set(allowed.replace(" ", "").split(",")) == {"GET", "HEAD"}


def test_not_ready_until_restored(tmp_path):
    with running(tmp_path / "data") as site:
        site.daemon._monitor.restored = False
        assert site.get("/readyz").status == 503
        assert "rebuilding" in site.get("/readyz").text
        assert site.get("/livez").status == 200
        site.daemon._monitor.restored = True
        assert site.get("/readyz").status == 200


def test_loops_that_no_longer_turn_are_not_alive(tmp_path):
    clock = ManualClock(1_750_000_000)
    given = load(None, {"data_dir": str(tmp_path)}, {}).settings
    engine = build_engine(given, clock)
    supervisor, own = Supervisor(), OwnMetrics()
    monitor = LiveMonitor(engine, given, own, clock, lambda _: [], supervisor=supervisor)
    schedule = Schedule(clock, lambda _job: None)
    supervisor.watch(lambda: schedule.loops)
    (problem,) = monitor.stalled()
    assert re.fullmatch(r"loop writer has ended \(last turn \d{4}-\d\d-\d\dT[\d:]{8}Z\)", problem)
    engine.writer.start()
    assert monitor.stalled() == []
    schedule.every(15.0, "evaluate", monitor.evaluate, stall_s=45.0, must_succeed=True)
    clock.sleep(59)
    assert monitor.stalled() == []
    clock.sleep(2)
    (problem,) = monitor.stalled()
    assert problem == (
        "loop job-evaluate has not turned since 2025-06-15T15:06:40Z (61 s; its limit is 60 s)"
    )
    (evaluate,) = [each for each in schedule.loops if isinstance(each, Job)]
    evaluate()
    assert monitor.stalled() == []
    assert engine.writer.stop(10)
    (problem,) = monitor.stalled()
    assert problem.startswith("loop writer has ended (last turn 2")
    engine.store.close()


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_large_answers_are_compressed_as_accepted(tmp_path, coding):
    with running(tmp_path / "data") as site:
        for path in ("/metrics", "/openapi.json", "/"):
            plain = requests.get(site.url + path, headers={"accept-encoding": "identity"})
            headers = {"accept-encoding": f"br;q=1, {coding};q=0.5"}
            with requests.get(site.url + path, headers=headers, stream=True) as answer:
                body = answer.raw.read(decode_content=False)
            assert answer.headers.get("content-encoding", "identity") == coding
            assert "Accept-Encoding" in answer.headers["vary"]
            assert int(answer.headers["content-length"]) == len(body)
            if coding == "gzip":
                body = gzip.decompress(body)
            elif coding == "zstd":
                reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
                body = reader.read()
            first = plain.content.splitlines()[0]
            assert body.splitlines()[0] == first
            assert len(body) > 1_000
        small = requests.get(site.url + "/livez", headers={"accept-encoding": coding})
        assert "content-encoding" not in small.headers


def test_a_page_that_nobody_asks_for_is_evaluated_all_the_same(tmp_path):
    with running(tmp_path / "data", evaluate_every=0.1) as site:
        evaluated_at = site.daemon._context.own.evaluated_at._value.get
        seen = evaluated_at()
        eventually(lambda: evaluated_at() > seen, "an evaluation has passed")


# ---------------------------------------------------------------------- reads in turn


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """A daemon that answers one read at a time, and is at it."""
    reached, release = threading.Event(), threading.Event()

    async def waiting(self, *_):
        reached.set()
        await asyncio.to_thread(release.wait, 20)
        return []

    monkeypatch.setattr(LiveMonitor, "queries", waiting)
    with running(tmp_path / "data", limits__reads=1) as site:
        reader = threading.Thread(target=site.get, args=("/v1/queries",))
        reader.start()
        assert reached.wait(10)
        try:
            yield site
        finally:
            release.set()
            reader.join(10)


@pytest.mark.parametrize("path", ["/", "/v1/report", "/v1/alerts", "/livez", "/metrics"])
def test_other_answers_do_not_wait_for_reads_of_queries(busy, path):
    assert busy.get(path).status == 200


def test_a_read_that_takes_too_long_is_given_up(tmp_path):
    clock = ManualClock(1_750_000_000)
    settings = load(None, {"data_dir": str(tmp_path)}, {}).settings
    engine = build_engine(settings, clock)
    monitor = LiveMonitor(
        engine, settings, OwnMetrics(), clock, lambda _pipeline: [], supervisor=Supervisor()
    )
    check = monitor._deadline()
    clock.sleep(59)
    check()
    clock.sleep(2)
    with pytest.raises(ReadTimeoutError, match=r"limits\.query_timeout"):
        check()
    engine.store.close()


# ---------------------------------------------------------------------- what goes wrong


class Broken:
    """A monitor whose every answer is an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def now(self) -> float:
        return 0.0

    async def report(self, window, pipeline, end=None, readable=None):
        raise self._error


def ask(path: str, error: Exception) -> tuple[int, dict[bytes, bytes], bytes, list[str]]:
    """Status, headers, body and counted reasons of one request to an API of its own."""
    counted: list[str] = []
    limits = body_limits()
    broken = Broken(error)
    access = Authorizer((), ManualClock(0.0))
    made = Api(broken, counted.append, access, limits=limits)
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def keep(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [],
        "root_path": "",
    }  # fmt: skip
    application = made.application()
    try:
        asyncio.run(application(scope, receive, keep))
    except type(error):  # passed on, so that the server logs it
        pass
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"], counted


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        pytest.param(StoreError("the disk is gone"), 503, "unavailable", id="the store fails"),
        pytest.param(StoreBusyError("locked"), 503, "unavailable", id="the store is locked"),
        pytest.param(ReadTimeoutError("too long"), 503, "query_timeout", id="it takes too long"),
        pytest.param(ZeroDivisionError("oops"), 500, "internal", id="a defect of ours"),
    ],
)
def test_errors_are_problems_too(error, status, reason):
    got, headers, body, counted = ask("/v1/report", error)
    assert got == status
    assert headers[b"content-type"] == PROBLEM.encode()
    assert (b"retry-after" in headers) == (status == 503)
    assert msgspec.json.decode(body)["status"] == status
    assert counted == [reason]


def test_a_defect_keeps_its_details_to_the_log():
    _, _, body, _ = ask("/v1/report", ZeroDivisionError("with a secret"))
    assert b"secret" not in body


def test_the_log_stays_quiet_over_refusals(daemon, caplog):
    with caplog.at_level(logging.WARNING):
        daemon.get("/nowhere")
        daemon.get("/v1/report?window=soon")
        daemon.post("/v1/queries", b"oops")
    assert caplog.records == []
