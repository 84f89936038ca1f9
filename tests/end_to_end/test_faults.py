"""Disks that are full, files that are damaged, locked or not ours, and too many pipelines."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from ragmon.errors import StoreError
from tests.support.daemons import Process, serve_once
from tests.support.http import PROBLEM
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

QUICK = ("--snapshot_every", "200ms", "--judge.grounding.enabled", "false")


def refused(data_dir: Path, *flags: str) -> str:
    """What ``ragmon serve`` says as it refuses to start."""
    done = serve_once(data_dir, *flags)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def once_filled(tmp_path_factory):
    """A data directory with something in it."""
    data_dir = tmp_path_factory.mktemp("filled") / "data"
    with Process(data_dir, *QUICK) as site:
        site.post("/v1/queries", [{"query_id": f"f-{at}", "query": "x" * 500} for at in range(300)])
        assert site.terminate() == 0
    return data_dir


@pytest.fixture
def filled(once_filled, tmp_path):
    """A copy of it, to be damaged; its store's file."""
    return shutil.copytree(once_filled, tmp_path / "data") / "ragmon.sqlite"


# ------------------------------------------------------------------------- not the only one


def test_a_second_daemon_on_the_same_data_is_refused(tmp_path):
    with Process(tmp_path / "data") as site:
        said = refused(tmp_path / "data")
        assert f"process {site.process.pid}" in said
        assert "another data_dir" in said
        assert site.post("/v1/queries", {"query_id": "still"}).status == 200
        site.kill()
    with Process(tmp_path / "data") as site:  # a killed daemon leaves no lock behind
        assert site.get("/v1/queries/still").status == 200


def test_a_store_that_another_program_locks_is_refused_then_taken(tmp_path):
    with Process(tmp_path / "data", *QUICK, "--snapshot_every", "1h") as site:
        other = sqlite3.connect(tmp_path / "data" / "ragmon.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = site.post("/v1/queries", {"query_id": "locked"})
        assert (answer.status, answer.headers["content-type"]) == (503, PROBLEM)
        assert "locked" in answer.json["detail"]
        assert answer.headers["retry-after"]
        assert site.get("/readyz").status == 503
        assert site.get("/livez").status == 200
        assert site.total("ragmon_rejected_total", source="http", reason="store_busy") == 1
        other.execute("ROLLBACK")
        other.close()
        assert site.post("/v1/queries", {"query_id": "locked"}).json["accepted"] == 1
        assert site.get("/readyz").status == 200


# -------------------------------------------------------------------------------- damage


def overwritten(path: Path, at: int, with_: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(with_)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"no database at all" * 300), id="another file"),
        pytest.param(lambda path: overwritten(path, 0, b"\0" * 4_096), id="a lost first page"),
        pytest.param(lambda path: os.truncate(path, 4_096), id="cut off after a page"),
        pytest.param(
            lambda path: overwritten(path, 4_096, b"\xa5" * (path.stat().st_size - 4_096)),
            id="noise after the first page",
        ),
    ],
)
def test_a_damaged_store_is_not_started_over(filled, damage):
    damage(filled)
    left = filled.read_bytes()
    said = refused(filled.parent)
    assert "damaged" in said
    assert "backup" in said
    assert filled.read_bytes() == left  # nobody may lose what can be rescued


def test_windows_that_cannot_be_read_end_the_start(filled):
    with sqlite3.connect(filled) as database:
        body = zstandard.compress(b"not a bucket")  # without a checksum, as format 2 wrote them
        assert database.execute("UPDATE windows SET body = ?", (body,)).rowcount > 0
    database.close()
    done = serve_once(filled.parent, *QUICK, "--log.format", "json")
    assert done.returncode == 70  # neither StoreError nor settings: only a traceback helps
    assert '"start_failed"' in done.stderr


def test_a_daemon_starts_on_a_store_with_a_damaged_row_and_says_so(filled):
    with sqlite3.connect(filled) as database:
        assert database.execute("UPDATE windows SET body = x'00' WHERE tier = 3").rowcount > 0
    database.close()
    with Process(filled.parent, *QUICK) as site:
        rows = [each for each in site.events() if each["event"] == "store_row_damaged"]
        assert {row["what"] for row in rows} == {"windows"}
        assert site.total("ragmon_store_undecodable_total", what="windows") == len(rows)


def test_a_store_of_another_format_is_left_alone(filled):
    with sqlite3.connect(filled) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert "format 99" in refused(filled.parent)


# ----------------------------------------------------------------------------- permissions


@contextmanager
def as_nobody():
    """Root may write everything: for the length of the block this process is somebody else."""
    root = os.geteuid() == 0
    if root:
        os.setegid(65_534)
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)


@pytest.mark.parametrize(
    "read_only",
    [
        pytest.param(lambda data: (data / "ragmon.sqlite").chmod(0o444), id="the file"),
        pytest.param(lambda data: data.chmod(0o555), id="the directory"),
    ],
)
def test_a_store_that_may_not_be_written_is_refused(once_filled, read_only):
    data = Path("/tmp") / f"ragmon-{os.getpid()}"  # pytest's own directories are for its user alone
    shutil.copytree(once_filled, data)
    try:
        for each in (data, *data.iterdir()):
            if os.geteuid() == 0:
                os.chown(each, 65_534, 65_534)
        read_only(data)
        settings = load(None, {"data_dir": str(data), "port": 0}, {}).settings
        with as_nobody(), pytest.raises(StoreError, match="cannot write") as caught:
            Daemon(settings, SystemClock())
        assert "writable" in str(caught.value)
    finally:
        data.chmod(0o755)
        shutil.rmtree(data)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    said = refused(tmp_path / "data", "--data-dir", str(tmp_path / "file" / "data"))
    assert "cannot write" in said
    assert "set data_dir" in said


# ---------------------------------------------------------------------------- a full disk


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 3 MB in a namespace of its own; skipped where that is not allowed."""
    mounting = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=3m tmpfs {disk} && "
    if subprocess.run([*mounting, mount + "true"], capture_output=True, check=False).returncode:
        reason = "this machine does not let a user mount a disk (unshare --user --mount)"
        pytest.skip(reason)
    return disk, [*mounting, mount + 'mkdir "$0"/data && exec "$@"', str(disk)]


def test_a_full_disk_refuses_and_recovers(tiny_disk):
    disk, prefix = tiny_disk
    with Process(disk / "data", *QUICK, prefix=prefix) as site:
        inside = Path(f"/proc/{site.process.pid}/root{disk}")
        ballast = inside / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        accepted = 0
        while accepted < 20_000:
            batch = [
                {"query_id": f"d-{accepted + at}", "answer": os.urandom(300).hex()}
                for at in range(50)
            ]
            answer = site.post("/v1/queries", batch)
            if answer.status != 200:
                break
            accepted += 50
        assert (answer.status, answer.headers["content-type"]) == (503, PROBLEM)
        assert "no space left" in answer.json["detail"]
        assert 1 <= int(answer.headers["retry-after"]) <= 5
        assert accepted > 100
        assert site.get("/readyz").status == 503
        assert "no space left" in site.get("/readyz").text
        assert site.get("/livez").status == 200
        assert site.total("ragmon_queries_total") == accepted
        assert site.get(f"/v1/queries/d-{accepted - 1}").status == 200
        assert site.total("ragmon_rejected_total", reason="store_full") >= 1
        ballast.unlink()
        eventually(lambda: site.get("/readyz").status == 200, "it is ready again")
        assert site.post("/v1/queries", batch).json["accepted"] == 50
        assert site.total("ragmon_queries_total") == accepted + 50
        assert site.terminate() == 0


# ------------------------------------------------------------------------ too many series


def test_ten_thousand_pipelines_are_bounded(tmp_path):
    def batch(first: int) -> list[dict]:
        return [
            {
                "pipeline": f"pipeline-{at}",
                "version": f"v{at}",
                "chunks": [],
                "latency_ms": at % 900,
                "trace_id": f"{at:032x}",
            }
            for at in range(first, first + 1_000)
        ]

    with Process(tmp_path / "data", "--max_series", "100") as site:
        for first in range(0, 3_000, 1_000):
            site.post("/v1/queries", batch(first))
        eventually(
            lambda: site.total("ragmon_detection_streams_dropped_total") > 0,
            "as many streams are watched as there may be",
        )
        page = site.page()
        settled, size = site.rss_bytes(), len(page)
        for first in range(3_000, 10_000, 1_000):
            assert site.post("/v1/queries", batch(first)).json["accepted"] == 1_000
        page = site.page()
        assert site.rss_bytes() - settled < 30 << 20
        assert len(page) < 1.2 * size
        pipelines = set(re.findall(r'ragmon_queries_total\{pipeline="([^"]*)"', page))
        assert "other" in pipelines
        assert len(pipelines) <= 100
        assert site.total("ragmon_queries_total") == 10_000
        assert site.total("ragmon_queries_total", pipeline="other") >= 9_000
        assert site.total("ragmon_series_dropped_total") >= 9_000
        assert site.total("ragmon_zero_result_queries_total") == 10_000


def test_memory_is_bounded_while_bodies_pour_in(tmp_path):
    # 40 connections that each announce 30 MB would be more than a gigabyte.
    limits = ("--limits.memory", "120MB", "--judge.grounding.enabled", "false")
    with Process(tmp_path / "data", *limits) as site:
        before = site.rss_bytes()
        wires = [site.wire() for _ in range(40)]
        part = b" " * 1_000_000
        for wire in wires:
            wire.settimeout(0.2)
            wire.sendall(
                b"POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-length: 30000000\r\n\r\n"
            )
        answers = 0
        for _ in range(3):
            for wire in wires:
                try:
                    wire.sendall(part)
                except OSError:
                    answers += 1
        assert site.rss_bytes() - before < 80 << 20
        assert site.post("/v1/queries", b"{}").status in (200, 503)
        for wire in wires:
            wire.close()
        eventually(lambda: site.post("/v1/queries", b"{}").status == 200, "it takes batches again")
        assert site.total("ragmon_rejected_total", reason="memory") >= 15


def test_what_is_written_is_for_its_owner_alone(tmp_path):
    data, copy = tmp_path / "data", tmp_path / "copy.sqlite"
    with Process(data, *QUICK):
        pass
    command = [sys.executable, "-m", "ragmon", "backup", str(copy), "--data-dir", str(data)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (data, *data.iterdir(), copy)}
    assert modes.keys() >= {"data", "ragmon.sqlite", "copy.sqlite"}
    assert modes.pop("data") == 0o700
    written = {name: mode for name, mode in modes.items() if "sqlite" in name or name == "lock"}
    assert set(written.values()) == {0o600}
