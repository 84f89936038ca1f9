"""SIGTERM ends the daemon in time whatever hangs, says what did, and loses nothing."""

import contextlib
import os
import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ragmon.daemon.ending import HUNG
from tests.support.daemons import Process
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

LIMIT_S = 12.0  # the promised ten, and a busy machine
QUIET = ("--judge.grounding.enabled", "false")

# Read by the interpreter at its start: replaces one method by one that never returns.
HANGING = """
import importlib, os, sys, threading
if sys.argv[:1] != ["-c"] and "ragmon.judges" not in " ".join(sys.orig_argv):
    module, cls, name, flag = os.environ["HANG"].split(":")
    def hang():
        owner = getattr(importlib.import_module(module), cls)
        method = getattr(owner, name)
        def instead(*args, **kwargs):
            if os.path.exists(flag):
                open(flag + ".reached", "w").close()
                threading.Event().wait()
            return method(*args, **kwargs)
        setattr(owner, name, instead)
    hang()
"""


class Hanging(Process):
    """A daemon in which one method hangs from when it is told to."""

    def __init__(self, folder: Path, method: str, *flags: str) -> None:
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(HANGING, encoding="utf-8")
        self.flag = folder / "hang"
        environment = {"PYTHONPATH": str(site), "HANG": f"{method}:{self.flag}"}
        super().__init__(folder / "data", *flags, environment=environment)

    def hang(self) -> None:
        self.flag.touch()

    def wait_until_it_hangs(self) -> None:
        reached = Path(f"{self.flag}.reached")
        eventually(reached.exists, "something hangs")

    def forced(self) -> dict:
        (event,) = [each for each in self.events() if each["event"] == "ended_by_force"]
        return event


def stored(data_dir: Path, query_id: str) -> bool:
    with Process(data_dir, *QUIET) as site:
        return site.get(f"/v1/queries/{query_id}").status == 200


@pytest.mark.parametrize(
    ("method", "flags", "hung"),
    [
        pytest.param(
            "ragmon.sources.otlp.receiver.worker:MappingWorker:step",
            QUIET,
            "otlp",
            id="a mapping that takes for ever",
        ),
        pytest.param(
            "ragmon.daemon.ingest.engine:Engine:save_snapshot",
            (*QUIET, "--snapshot_every", "200ms"),
            "writer",
            id="a disk that hangs",
        ),
    ],
)
def test_it_ends_whatever_hangs_and_says_what(tmp_path, method, flags, hung):
    with Hanging(tmp_path, method, *flags) as site:
        assert site.post("/v1/queries", {"query_id": "kept"}).json["accepted"] == 1
        site.hang()
        site.wait_until_it_hangs()
        assert site.terminate(LIMIT_S) == HUNG
        assert hung in site.forced()["hung"]
    assert stored(tmp_path / "data", "kept")


def test_a_second_signal_ends_it_at_once(tmp_path):
    method = "ragmon.sources.otlp.receiver.worker:MappingWorker:step"
    with Hanging(tmp_path, method, *QUIET) as site:
        site.post("/v1/queries", {"query_id": "kept"})
        site.hang()
        site.wait_until_it_hangs()
        site.process.send_signal(signal.SIGTERM)
        eventually(lambda: "ending" in {each["event"] for each in site.events()}, "it ends")
        site.process.send_signal(signal.SIGTERM)
        assert site.process.wait(2) == 128 + signal.SIGTERM
    assert stored(tmp_path / "data", "kept")


def test_a_sink_that_hangs_is_left(tmp_path):
    config = tmp_path / "ragmon.yaml"
    config.write_text("sinks: [{kind: stdout, name: terminal}]", encoding="utf-8")
    method = "ragmon.daemon.notify.sink_worker:SinkWorker:step"
    with Hanging(tmp_path, method, "--config", str(config), *QUIET) as site:
        site.hang()
        site.wait_until_it_hangs()
        assert site.terminate(LIMIT_S) == HUNG
        assert site.forced()["hung"] == ["sink-terminal"]


def test_a_client_that_does_not_read_is_cut_off(tmp_path):
    with Process(tmp_path / "data", *QUIET) as site:
        for part in range(10):
            batch = [{"query_id": f"{part}-{at}", "query": "x" * 15_000} for at in range(100)]
            assert site.post("/v1/queries", batch).json["accepted"] == 100
        with contextlib.ExitStack() as wires:
            slow = [wires.enter_context(_silent(site)) for _ in range(3)]
            for wire in slow:
                wire.sendall(b"GET /v1/queries?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert wire.recv(12) == b"HTTP/1.1 200"
            assert site.terminate(LIMIT_S) == 0
            for wire in slow:
                assert _received(wire) < 15_000_000  # the kernel held so much at the end


def _silent(site: Process) -> socket.socket:
    """A connection whose client takes a little at a time."""
    parts = urlsplit(site.url)
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    wire.settimeout(10.0)
    wire.connect((parts.hostname, parts.port))
    return wire


def _received(wire: socket.socket) -> int:
    size = 0
    with contextlib.suppress(ConnectionError):
        while part := wire.recv(65_536):
            size += len(part)
    return size


def test_a_judge_that_is_stopped_does_not_hold_it_up(tmp_path):
    with Process(tmp_path / "data") as site:
        answer = {"answer": "alpha beta.", "chunks": [{"id": "c", "text": "alpha beta gamma"}]}
        site.post("/v1/queries", {"query_id": "a", **answer})
        eventually(lambda: site.total("ragmon_judged_total"), "the judge runs", 30)
        children = Path(f"/proc/{site.process.pid}/task").glob("*/children")
        (judge,) = {int(pid) for each in children for pid in each.read_text().split()}
        os.kill(judge, signal.SIGSTOP)
        site.post("/v1/queries", {"query_id": "b", **answer})
        eventually(lambda: site.total("ragmon_judge_queue_length"), "an answer waits")
        assert site.terminate(LIMIT_S) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(judge, 0)


def test_a_read_of_the_store_that_hangs_is_left(tmp_path):
    with Hanging(tmp_path, "ragmon.stores.sqlite.reader:SqliteReader:outlines", *QUIET) as site:
        assert site.post("/v1/queries", {"query_id": "kept"}).json["accepted"] == 1
        site.hang()
        with site.wire() as wire:
            wire.sendall(b"GET /v1/queries HTTP/1.1\r\nhost: localhost\r\n\r\n")
            site.wait_until_it_hangs()
            assert site.terminate(LIMIT_S) == HUNG
        assert site.forced()["hung"] == ["reads"]
    assert stored(tmp_path / "data", "kept")
