"""A defect in a loop of a running daemon costs one turn, is counted, and loses nothing."""

import threading

import msgspec
import pytest

from ragmon.clock import SystemClock
from ragmon.daemon.judging.grounding_follower import GroundingFollower
from ragmon.daemon.notify.routing import notifications
from ragmon.daemon.notify.sink_worker import SinkWorker
from ragmon.sources.jsonl import JsonlSource
from ragmon.sources.otlp.receiver.worker import MappingWorker
from tests.support.alerts import story
from tests.support.daemons import running
from tests.support.receiver import receiving
from tests.support.wait import eventually
from tests.web.test_pipelines import traces

pytestmark = pytest.mark.end_to_end

WAIT_S = 60.0  # the machine may be busy
ANSWER = {"answer": "alpha beta.", "chunks": [{"id": "c", "text": "alpha beta gamma"}]}


@pytest.fixture
def once(monkeypatch):
    """Replaces a method by one that fails the first time."""

    def install(owner, name: str) -> threading.Event:
        method, failed = getattr(owner, name), threading.Event()

        def replaced(*args, **kwargs):
            if not failed.is_set():
                failed.set()
                raise RuntimeError("a defect")
            return method(*args, **kwargs)

        monkeypatch.setattr(owner, name, replaced)
        return failed

    return install


def is_healed(site, loop: str) -> None:
    """It was counted, and readiness and liveness say that all is well."""
    assert site.total("ragmon_loop_failures_total", loop=loop) == 1.0
    assert site.total("ragmon_loop_last_turn_timestamp_seconds", loop=loop) > 0
    assert (site.get("/livez").status, site.get("/readyz").status) == (200, 200)


def test_a_follower_of_a_file_reads_every_line_once(tmp_path, once):
    failed = once(JsonlSource, "_deliver")
    log = tmp_path / "queries.jsonl"
    log.write_text('{"query_id": "a"}\n{"query_id": "b"}\n', encoding="utf-8")
    source = {"kind": "jsonl", "path": str(log), "poll_s": 0.05}
    with running(tmp_path / "data", sources=[source]) as site:
        eventually(lambda: site.get("/v1/queries/b").status == 200, "it was read", WAIT_S)
        assert failed.is_set()
        assert site.get("/v1/report?window=1h").json["queries"] == 2
        is_healed(site, f"jsonl:{log}")


def test_traces_are_mapped_all_the_same(tmp_path, once):
    failed = once(MappingWorker, "_fetch")
    trace = "0123456789abcdef0123456789abcdef"
    with running(tmp_path / "data", otlp__linger="0.1s") as site:
        body = msgspec.json.encode(traces(trace, "0123456789abcdef", "docs"))
        assert site.post("/v1/traces", body, content_type="application/json").status == 200
        eventually(lambda: site.get(f"/v1/queries/{trace}").status == 200, "mapped", WAIT_S)
        assert failed.is_set()
        is_healed(site, "otlp")


def test_notifications_are_delivered_once(tmp_path, once):
    failed = once(SinkWorker, "_try")
    with receiving() as receiver:
        sink = {"kind": "webhook", "name": "chat", "url": receiver.url}
        with running(tmp_path / "data", sinks=[sink]) as site:
            daemon = site.daemon
            outbox, rows = daemon._engine.state.outbox(), story(1)[:1]
            due = notifications(rows, daemon._delivery.routes)
            daemon._engine.thread.submit(lambda: outbox.put(due)).result()
            daemon._delivery.wake()
            eventually(
                lambda: site.total("ragmon_notifications_total", outcome="delivered"),
                "it is delivered",
                WAIT_S,
            )
            assert failed.is_set()
            assert site.get("/v1/notifications").json["waiting"] == 0
            assert len(receiver.accepted) == 1
            is_healed(site, "sink-chat")


def test_answers_are_judged_all_the_same(tmp_path, once):
    failed = once(GroundingFollower, "_judge")
    with running(tmp_path / "data", judge__grounding__enabled=True) as site:
        assert site.post("/v1/queries", {"query_id": "a", **ANSWER}).status == 200
        eventually(lambda: site.total("ragmon_judged_total", outcome="scored"), "judged", WAIT_S)
        assert failed.is_set()
        is_healed(site, "grounding")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_the_writer_everybody_is_told_at_once_and_it_is_started_again(
    tmp_path, monkeypatch
):
    with running(tmp_path / "data") as site:
        assert site.post("/v1/queries", {"query_id": "before"}).status == 200
        loop, supervisor = site.writer.loop, site.daemon._supervisor
        with monkeypatch.context() as patch:
            patch.setattr(supervisor, "revive", lambda: None)
            patch.setattr(loop, "_try", _end_thread)
            loop.wake()
            eventually(lambda: loop.has_ended, "the writer's thread has ended", WAIT_S)
            clock = SystemClock()
            started = clock.monotonic()
            refused = site.post("/v1/queries", {"query_id": "during"})
            answers = [site.get(path).status for path in ("/metrics", "/readyz", "/livez")]
            assert (refused.status, answers) == (503, [503] * 3)
            assert refused.headers["retry-after"]
            assert "writer" in site.get("/readyz").text
            assert clock.monotonic() - started < 5.0
        eventually(lambda: site.get("/livez").status == 200, "it is started again", WAIT_S)
        assert site.post("/v1/queries", {"query_id": "during"}).json["accepted"] == 1
        assert site.get("/v1/report?window=1h").json["queries"] == 2
        is_healed(site, "writer")


def _end_thread(_):
    raise SystemExit
