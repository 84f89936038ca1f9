"""The disk: outages, restarts, crashes in the middle of a write, several processes at once."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.client.address import address
from ragmon.client.batch import RecordKind
from ragmon.client.engine import EnginePlan, build
from ragmon.client.fake import FakeReply, FakeServer
from ragmon.client.options import Options
from ragmon.client.spool import Spool
from ragmon.clock import ManualClock

DOWN = FakeReply(status=503)


class Process:
    """One process that logs, without its thread: the test makes the turns."""

    def __init__(self, url, spool_dir, clock, **options):
        self.clock = clock
        self.engine = build(
            EnginePlan(
                address=address(url, {}),
                token=None,
                spool_dir=spool_dir,
                options=Options(**options),
                clock=clock,
            )
        )

    def log(self, *names, kind=RecordKind.QUERY):
        for name in names:
            self.engine.inbox.put(kind, {"query_id": name, "rating": 1}, 100)

    def deliver(self, rounds=1):
        for _ in range(rounds):
            self.engine.worker.turn()
            self.clock.sleep(60.0)
            while self.engine.worker.turn() == 0.0:
                pass

    @property
    def stats(self):
        return self.engine.stats()

    def end(self):
        self.engine.close(0.0)


@pytest.fixture
def start(tmp_path):
    clock, running = ManualClock(1e9), []

    def make(url, **options):
        running.append(Process(url, tmp_path / "spool", clock, **options))
        return running[-1]

    yield make
    for process in running:
        process.end()


def ids(server):
    return [record["query_id"] for record in server.records["queries"]]


def files(tmp_path):
    return sorted((tmp_path / "spool").glob("*"))


def contents(spool):
    """Everything that a spool holds or can take over, taken out of it."""
    read = []
    while (segment := spool.oldest(adopt=True)) is not None:
        read += segment.lines()
        spool.discard(segment)
    return read


def test_an_outage_goes_to_disk_and_comes_back_in_order(start, tmp_path):
    with FakeServer(DOWN, DOWN) as server:
        client = start(server.url)
        client.log("a", "b")
        client.engine.worker.turn()
        client.clock.sleep(1.0)
        client.engine.worker.turn()
        client.engine.worker.turn()
        assert client.stats.queued == client.stats.queued_bytes == 0
        assert client.stats.spooled == 2
        assert len(files(tmp_path)) == 1
        client.log("c")
        client.deliver(3)
        client.log("d")
        client.deliver()
        assert ids(server) == ["a", "b", "c", "d"]
    assert files(tmp_path) == []
    stats = client.stats
    assert (stats.sent, stats.spooled, stats.spooled_bytes, stats.dropped) == (4, 0, 0, {})


def test_the_spool_survives_a_restart(start, tmp_path):
    first = start("http://127.0.0.1:1")
    first.log("a", "b")
    first.log("a", kind=RecordKind.FEEDBACK)
    first.deliver()
    first.log("c")
    first.end()
    assert first.stats.dropped == {}
    assert first.stats.spooled == 4
    with FakeServer() as server:
        second = start(server.url)
        second.log("d")
        second.deliver()
        assert ids(server) == ["a", "b", "c", "d"]
        assert [record["query_id"] for record in server.records["feedback"]] == ["a"]
    assert (second.stats.recovered, second.stats.sent) == (4, 5)
    assert files(tmp_path) == []


def test_nobody_touches_the_file_of_a_process_that_lives(start, tmp_path):
    living = start("http://127.0.0.1:1")
    living.log("a")
    living.deliver()
    with FakeServer() as server:
        other = start(server.url)
        other.log("b")
        other.deliver(3)
        assert ids(server) == ["b"]
        living.end()
        other.deliver(3)
        assert ids(server) == ["b", "a"]
    assert other.stats.recovered == 1


def test_of_two_processes_one_takes_over(start, tmp_path):
    ended = start("http://127.0.0.1:1")
    ended.log(*"abc")
    ended.deliver()
    ended.end()
    with FakeServer(DOWN) as server:
        first, second = start(server.url), start(server.url)
        first.log("x")
        first.deliver()
        second.log("y")
        second.deliver()
        first.deliver()
        assert sorted(ids(server)) == ["a", "b", "c", "x", "y"]
    assert {first.stats.recovered, second.stats.recovered} == {0, 3}


def test_the_spool_is_bounded_and_the_rest_stays_in_memory(start, tmp_path):
    client = start("http://127.0.0.1:1", spool_max_bytes=60, max_buffer_records=4)
    client.log(*"abcd")
    client.deliver()
    client.log(*"efgh")
    client.deliver(2)
    stats = client.stats
    assert 0 < stats.spooled < 8
    assert stats.spooled_bytes <= 60
    assert sum(path.stat().st_size for path in files(tmp_path)) == stats.spooled_bytes
    assert stats.spooled + stats.queued + stats.dropped["buffer_full"] == 8


def test_the_bound_is_of_the_directory_not_of_the_process(start):
    first = start("http://127.0.0.1:1", spool_max_bytes=70)
    first.log("a")
    first.deliver()
    second = start("http://127.0.0.1:1", spool_max_bytes=70)
    second.log("b", "c")
    second.deliver()
    assert (second.stats.spooled, second.stats.queued) == (1, 1)


def test_while_the_disk_is_delivered_a_crowd_in_memory_goes_behind_it(start):
    with FakeServer(DOWN) as server:
        client = start(server.url, max_batch_records=1, max_buffer_records=4)
        client.log("a", "b")
        client.engine.worker.turn()
        client.engine.worker.turn()
        client.clock.sleep(60.0)
        client.engine.worker.turn()
        assert ids(server) == ["a"]
        client.log("c", "d", "e")
        client.engine.worker.turn()
        assert client.stats.queued == 0
        client.log("f", "g", "h", "i")
        client.deliver()
        assert ids(server) == list("abcdefghi")
        assert {len(request.records) for request in server.requests} == {1}
    assert client.stats.dropped == {}


def test_a_batch_from_disk_that_is_too_large_is_halved_in_order(start, tmp_path):
    with FakeServer(DOWN, limit=100) as server:
        client = start(server.url)
        client.log(*"abcdefg")
        server.limit = None
        client.engine.worker.turn()
        client.clock.sleep(1.0)
        client.engine.worker.turn()
        server.limit = 100
        client.deliver()
        assert ids(server) == list("abcdefg")
        assert len(server.requests) > 3
    assert files(tmp_path) == []


def test_a_disk_that_refuses_is_said_once_and_loses_nothing(start, tmp_path, caplog):
    (tmp_path / "spool").write_text("not a directory")
    with FakeServer(DOWN, DOWN) as server:
        client = start(server.url)
        client.log("a")
        client.deliver()
        client.log("b")
        client.deliver(3)
        assert ids(server) == ["a", "b"]
    said = [record.message for record in caplog.records if "spool" in record.message]
    assert len(said) == 1
    (tmp_path / "spool").unlink()


def test_a_damaged_line_is_counted_and_the_others_are_delivered(start, tmp_path):
    spool = Spool(tmp_path / "spool", 1000)
    spool.append([b'q{"query_id":"a"}', b"\0\0\0", b'?{"query_id":"b"}', b'q{"query_id":"c"}'], 0.0)
    spool.release()
    with FakeServer() as server:
        client = start(server.url)
        client.log("d")
        client.deliver()
        assert ids(server) == ["a", "c", "d"]
    assert client.stats.dropped == {"spool_corrupt": 2}
    assert (client.stats.recovered, client.stats.spooled) == (4, 0)
    assert files(tmp_path) == []


CRASH = """
import os, signal, sys
from pathlib import Path
from ragmon.client.spool import Spool

written = os.write
def torn(fd, data):
    data = bytes(data)
    if b"last" in data:
        written(fd, data[: data.index(b"last") + 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return written(fd, data)
os.write = torn
spool = Spool(Path(sys.argv[1]), 10_000)
spool.append([b'q{"query_id":"a"}', b'q{"query_id":"b"}'], 1.0)
spool.append([b'q{"query_id":"c"}', b'q{"query_id":"last"}'], 2.0)
"""


def test_kill_9_in_the_middle_of_a_write_costs_the_unfinished_line(start, tmp_path):
    ended = subprocess.run([sys.executable, "-c", CRASH, tmp_path / "spool"], check=False)
    assert ended.returncode == -9
    assert files(tmp_path)[0].read_bytes().endswith(b'{"query_id":"la')
    with FakeServer() as server:
        client = start(server.url)
        client.log("d")
        client.deliver()
        assert ids(server) == ["a", "b", "c", "d"]
    assert client.stats.recovered == 3
    assert files(tmp_path) == []


WRITER = """
import sys
from pathlib import Path
from ragmon.client.spool import Spool

name = sys.argv[2]
spool = Spool(Path(sys.argv[1]), 10_000_000, segment_bytes=300)
for number in range(200):
    spool.append([b'q{"query_id":"%s-%d"}' % (name.encode(), number)], float(number))
    segment = spool.oldest(adopt=True) if number % 7 == 0 else None
    while segment is not None:
        for line in segment.lines():
            print(line.decode())
        spool.discard(segment)
        segment = spool.oldest(adopt=True)
spool.release()
"""


def test_processes_that_share_a_directory_read_each_record_once(tmp_path):
    command = [sys.executable, "-c", WRITER, tmp_path / "spool"]
    writers = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abc"
    ]
    lines = [line for writer in writers for line in writer.communicate(timeout=60)[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    lines += [line.decode() for line in contents(Spool(tmp_path / "spool", 10_000))]
    assert sorted(lines) == sorted(f'q{{"query_id":"{w}-{n}"}}' for w in "abc" for n in range(200))


@pytest.mark.parametrize(
    ("shortened", "left"),
    [
        pytest.param(True, b"q{1}\n", id="it is cut off"),
        pytest.param(False, b"q{1}\nq{", id="it cannot be cut off"),
    ],
)
def test_a_write_that_fails_leaves_what_was_written(tmp_path, monkeypatch, shortened, left):
    spool = Spool(tmp_path / "spool", 1000)
    assert spool.append([b"q{1}"], 0.0) == 1
    write = os.write

    def full(fd, data):
        write(fd, bytes(data)[:2])
        raise OSError(errno.ENOSPC, "no space left")

    def stuck(fd, size):
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        if not shortened:
            patched.setattr(os, "ftruncate", stuck)
        with pytest.raises(OSError, match="no space"):
            spool.append([b"q{2}"], 0.0)
    assert spool.append([b"q{3}"], 1.0) == 1
    assert files(tmp_path)[0].read_bytes() == left
    spool.release()
    assert contents(Spool(tmp_path / "spool", 1000)) == [b"q{1}", b"q{3}"]


def test_a_file_that_another_process_just_delivered_is_not_read(tmp_path, monkeypatch):
    ended = Spool(tmp_path / "spool", 1000)
    ended.append([b"q{1}"], 0.0)
    ended.release()
    slow, fast = Spool(tmp_path / "spool", 1000), Spool(tmp_path / "spool", 1000)
    flock, read = fcntl.flock, []

    def overtaken(fd, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        read.extend(contents(fast))
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    assert contents(slow) == []
    assert read == [b"q{1}"]


@given(
    writes=st.lists(st.lists(st.integers(1, 60), max_size=5), max_size=8),
    limit=st.integers(50, 400),
)
def test_a_spool_is_a_bounded_queue(tmp_path_factory, writes, limit):
    spool = Spool(tmp_path_factory.mktemp("spool"), limit, segment_bytes=64)
    kept = []
    for number, sizes in enumerate(writes):
        lines = [b"%03d" % number + b"x" * size for size in sizes]
        count = spool.append(lines, float(number))
        kept += lines[:count]
        used = sum(len(line) + 1 for line in kept)
        assert used <= limit
        assert count == len(lines) or used + len(lines[count]) + 1 > limit
    assert contents(spool) == kept


def test_files_are_readable_by_their_owner_alone(tmp_path):
    spool = Spool(Path(tmp_path / "spool"), 1000)
    spool.append([b"q{1}"], 0.0)
    (path,) = files(tmp_path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    spool.release()
