"""The daemon as a whole: starting, housekeeping beside commits, recovering, ending."""

import contextlib
import re
import socket
import threading

import pytest
from structlog.testing import capture_logs

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.ingest.engine import WindowSnapshot
from ragmon.daemon.serve import Daemon
from ragmon.errors import SettingsError, StoreBusyError, StoreError, StoreFullError
from ragmon.loops import Loop
from tests.support.daemons import running
from tests.support.http import Site
from tests.support.paths import ROOT
from tests.support.stand_in_model import StandInModel
from tests.support.wait import eventually


def settings(data_dir, **flags):
    given = {"port": 0, "data_dir": str(data_dir), "judge.grounding.enabled": False} | flags
    return load(None, given, {}).settings


# --------------------------------------------------------------------------------- start


def test_a_store_that_cannot_be_restored_ends_the_daemon(tmp_path):
    daemon = Daemon(settings(tmp_path / "data"), SystemClock())

    def damaged() -> int:
        raise StoreError("the windows cannot be read")

    daemon._engine.restore = damaged
    with capture_logs() as logged, pytest.raises(StoreError, match="cannot be read"):
        daemon.run()
    assert any(each["event"] == "start_failed" for each in logged)
    with running(tmp_path / "data") as site:  # everything was given back
        assert site.get("/readyz").status == 200


def test_a_daemon_is_ready_once_its_alerts_are_restored(tmp_path):
    daemon = Daemon(settings(tmp_path / "data"), SystemClock())
    restore, states = daemon._alerting.restore, []

    def watched() -> None:
        states.append(Site(daemon.url).get("/readyz").status)
        restore()

    def on_ready(url: str) -> None:
        states.append(Site(url).get("/readyz").status)
        daemon.stop()

    daemon._alerting.restore = watched
    daemon.run(on_ready)
    assert states == [503, 200]


def test_a_port_that_is_taken_is_said_so(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            Daemon(settings(tmp_path / "data", port=port), SystemClock())
    assert "another host or port" in str(caught.value)


def test_what_a_daemon_that_cannot_be_built_held_is_given_back(tmp_path):
    with pytest.raises(SettingsError, match="unknown kind 'nope'") as caught:
        Daemon(settings(tmp_path / "data", sinks=[{"kind": "nope"}]), SystemClock())
    with running(tmp_path / "data") as site:
        assert site.get("/readyz").status == 200
    assert caught.tb  # and with it all that the constructor made


def test_a_second_daemon_on_the_same_data_is_refused(daemon):
    data_dir = daemon.daemon.settings.data_dir
    with pytest.raises(StoreBusyError, match="in use by another ragmon"):
        Daemon(settings(data_dir), SystemClock())
    assert daemon.post("/v1/queries", b"{}").status == 200


def test_ipv6_is_served(tmp_path):
    with running(tmp_path / "data", host="::1") as site:
        assert site.url.startswith("http://[::1]:")
        assert site.get("/readyz").status == 200


# -------------------------------------------------------------------------------- trouble


class Refusing:
    """Commits that are refused until told otherwise."""

    def __init__(self, real) -> None:
        self.real = real
        self.refuses = True

    def commit(self, group, now):
        if self.refuses:
            raise StoreFullError("no space left for the test")
        self.real.commit(group, now)


def test_readiness_comes_back_without_traffic(tmp_path):
    # Whoever is not ready gets no traffic, so a commit cannot be what makes it ready again.
    with running(tmp_path / "data", snapshot_every=0.05) as site:
        site.post("/v1/queries", {"query_id": "before"})
        site.writer.commits = commits = Refusing(site.writer.commits)
        save = site.daemon._engine.state.save_windows
        full = StoreFullError("no space left for the test")

        def refused(*_):
            raise full

        site.daemon._engine.state.save_windows = refused
        with capture_logs():
            assert site.post("/v1/queries", b"{}").status == 503
            answer = site.get("/readyz")
            assert answer.status == 503
            assert "no space left" in answer.text
            eventually(lambda: site.writer.last_error is full, "it tries, and fails")
        site.daemon._engine.state.save_windows = save
        eventually(lambda: site.get("/readyz").status == 200, "ready once there is space")
        commits.refuses = False
        assert site.post("/v1/queries", b"{}").status == 200


def test_commits_go_on_while_a_snapshot_is_made_ready(tmp_path, monkeypatch):
    reached, release = threading.Event(), threading.Event()
    prepare = WindowSnapshot.prepare

    def held(taken):
        reached.set()
        assert release.wait(20)
        prepare(taken)

    monkeypatch.setattr(WindowSnapshot, "prepare", held)
    with running(tmp_path / "data", snapshot_every=0.05) as site:
        try:
            assert site.post("/v1/queries", {"query_id": "a"}).status == 200
            assert reached.wait(10)
            assert site.post("/v1/queries", {"query_id": "b"}).status == 200
        finally:
            release.set()


def test_a_snapshot_that_fails_makes_it_unready(tmp_path):
    with running(tmp_path / "data", snapshot_every=0.05) as site:
        state_store = site.daemon._engine.state

        def refused(*_):
            raise StoreFullError("no space left for windows")

        state_store.save_windows = refused
        with capture_logs():
            assert site.post("/v1/queries", b"{}").status == 200
            eventually(lambda: site.get("/readyz").status == 503, "it is not ready")
        del state_store.save_windows
        eventually(lambda: site.get("/readyz").status == 200, "it is ready again")


# --------------------------------------------------------------------------- housekeeping


def test_commits_go_on_between_the_steps_of_housekeeping(tmp_path):
    with running(tmp_path / "data") as site:
        daemon, shard = site.daemon, site.daemon._engine.shard
        reached, committed, steps = threading.Event(), threading.Event(), []

        def step(*_):
            steps.append(len(steps))
            reached.set()
            return 0 if committed.is_set() else 1  # as if there was always more

        shard.expire = step
        expiring = threading.Thread(target=daemon._maintenance.expire)
        expiring.start()
        assert reached.wait(10)
        assert site.post("/v1/queries", b"{}").status == 200
        committed.set()
        expiring.join(10)
        assert not expiring.is_alive()
        assert len(steps) > 1


def test_however_much_came_in_expires_at_once(tmp_path):
    """A number of steps at most would be a rate at most: a busier daemon would fill the disk."""
    with running(tmp_path / "data") as site:
        left = [1] * 300 + [0]
        site.daemon._engine.shard.expire = lambda *_: left.pop(0) if left else 0
        site.daemon._maintenance.expire()
        assert left == []


def test_housekeeping_ends_with_the_daemon(tmp_path):
    with running(tmp_path / "data") as site:
        shard = site.daemon._engine.shard
        reached, release = threading.Event(), threading.Event()
        steps = []

        def step(*_):
            steps.append(1)
            reached.set()
            release.wait(10)
            return 1

        shard.expire = step
        expiring = threading.Thread(target=site.daemon._maintenance.expire)
        expiring.start()
        assert reached.wait(10)
        site.daemon.stop()
        release.set()
        expiring.join(10)
        assert len(steps) <= 2


# ---------------------------------------------------------------------------------- the end


def test_what_was_counted_is_there_after_a_restart(tmp_path):
    with running(tmp_path / "data", snapshot_every="1h") as site:
        site.post("/v1/queries", [{"pipeline": "kept", "chunks": []}] * 10)
    with running(tmp_path / "data") as site:
        assert site.total("ragmon_queries_total", pipeline="kept") == 10
        assert site.total("ragmon_zero_result_queries_total", pipeline="kept") == 10


def test_a_request_under_way_is_answered_before_the_end(tmp_path):
    with running(tmp_path / "data") as site:
        answers = []
        with site.stalled_writer():
            asking = threading.Thread(
                target=lambda: answers.append(site.post("/v1/queries", {"query_id": "last"}))
            )
            asking.start()
            eventually(lambda: site.writer.queued_bytes, "the batch waits")
            site.daemon.stop()
        asking.join(10)
        assert answers[0].json["accepted"] == 1
    with running(tmp_path / "data") as site:
        assert site.get("/v1/queries/last").status == 200


def test_after_the_end_nobody_listens(tmp_path):
    with running(tmp_path / "data") as site:
        url = site.url
    with pytest.raises(OSError, match="refused"):
        Site(url).wire()


# --------------------------------------------------------------------------------- loops

_LOOPS = (
    "writer",
    "schedule",
    "clock-watch",
    "memory",
    "secrets",
    "token-use",
    "audit",
    "sink-",
    "jsonl",
    "otlp",
    "metrics-push",
    "otlp-export",
    "otlp-limit",
    "erasure",
    "grounding",
    "local-judge",
    "judge-",
    "service-manager",
    "anchors",
    "quarantine-retry",
)
_ANCHOR = (
    '{"query": "q", "answer": "It is 1.", "faithful": 1.0, "chunks": [{"id": "c", "text": "1"}]}'
)


def test_every_loop_that_starts_is_watched(tmp_path, monkeypatch):
    """One that was left out would hang, or end, unseen by ``/livez`` and ``ragmon_loop_*``."""
    started: list[Loop] = []
    start = Loop.start
    monkeypatch.setattr(Loop, "start", lambda loop: (started.append(loop), start(loop))[1])
    for name, content in (("token", "secret\n"), ("anchors", _ANCHOR), ("log", "")):
        (tmp_path / name).write_text(content)
    stand_in = StandInModel(tmp_path / "stand-in")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    everything = {
        "auth__tokens": [
            {"name": "app", "token_file": str(tmp_path / "token"), "scopes": ["read"]}
        ],
        "sinks": [{"kind": "stdout"}],
        "sources": [{"kind": "jsonl", "path": str(tmp_path / "log")}],
        "otlp_export": {"endpoint": "http://127.0.0.1:9/v1/traces"},
        "metrics__otlp__endpoint": "http://127.0.0.1:9/v1/metrics",
        "judge__grounding__enabled": True,
        "judge__local": {"kind": "nli", "model": str(stand_in.model)},
        "judge__llm__base_url": "http://127.0.0.1:9/v1",
        "judge__llm__model": "tiny",
        "judge__anchors": str(tmp_path / "anchors"),
    }
    with stand_in.installed(), running(tmp_path / "data", **everything) as site:
        supervisor = site.daemon._supervisor
        missing = {loop.heartbeat.loop for loop in started} - set(supervisor.last_turns())
        page = site.with_token("secret").get("/metrics").text
        assert site.get("/livez").status == 200
    assert not missing
    for name in _LOOPS:
        assert any(loop.heartbeat.loop.startswith(name) for loop in started), f"{name} is missing"
        assert f'ragmon_loop_last_turn_timestamp_seconds{{loop="{name}' in page


def test_no_kind_of_loop_is_left_out_of_the_test_above():
    """Every place that makes a loop, by the beginning of its name."""
    made = "\n".join(path.read_text() for path in (ROOT / "ragmon").rglob("*.py"))
    names = re.findall(r'\bLoop\(\s*f?"([a-z-]+)', made)
    names += re.findall(r'(?:loop: str = |judge=[A-Z_]+, loop=)"([a-z-]+)"', made)  # of followers
    # Tests of golden sets, of the store in PostgreSQL, of workers and of topics have these
    elsewhere = "probes", "lease", "following", "bodies", "produce"
    assert {*names, "jsonl"} == {*_LOOPS, *elsewhere}


# --------------------------------------------------------------------------------- connections


def test_open_connections_are_shown_beside_their_limit(tmp_path):
    with running(tmp_path / "data", limits__connections=40) as site:
        with contextlib.ExitStack() as clients:
            for _ in range(5):
                clients.enter_context(site.wire())
            assert eventually(lambda: site.total("ragmon_http_connections") >= 5, "are counted")
            assert "ragmon_http_connections_limit 40\n" in site.get("/metrics").text
        assert eventually(lambda: site.total("ragmon_http_connections") < 5, "are closed")
