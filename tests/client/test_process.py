"""The life of processes: import, exit, fork, kill. Each story is a program of its own."""

import signal
import subprocess
import sys
import threading

import pytest

from ragmon.client import Monitor
from ragmon.client.fake import FakeReply, FakeServer

PREAMBLE = """
import atexit, os, signal, sys, threading
from ragmon.client import Monitor, Options
url, spool = sys.argv[1:3]
"""


def run(story, url="http://127.0.0.1:1", spool="", flags=()):
    """Run a program to its end; it must say nothing on its standard error."""
    command = [sys.executable, "-W", "error", *flags, "-c", PREAMBLE + story, url, str(spool)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.stderr == ""
    return ended


def queries(server):
    return [record["query"] for record in server.records["queries"]]


def test_importing_the_client_imports_nothing_heavy():
    story = """
heavy = {"numpy", "pydantic", "pydantic_settings", "requests", "starlette", "uvicorn", "yaml",
         "structlog", "rich", "prometheus_client", "apscheduler", "asyncio", "multiprocessing"}
print(*sorted(heavy & set(sys.modules)), "msgspec" in sys.modules)
Monitor(url).close()
print(*sorted(heavy & set(sys.modules)), "msgspec" in sys.modules)
outside = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(name for name in outside if not name.startswith("_")))
"""
    lines = run(story).stdout.splitlines()
    assert lines[:2] == ["False", "True"]
    assert {"msgspec", "ragmon"} <= set(lines[2].split())


def test_the_end_of_the_process_waits_for_delivery():
    with FakeServer() as server:
        run("Monitor(url).log_query('a')", server.url)
        assert queries(server) == ["a"]


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("sys.exit(3)", id="exit code"),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
            "os.kill(os.getpid(), signal.SIGTERM)\n"
            "threading.Event().wait(5)",
            id="SIGTERM with a handler",
        ),
    ],
)
def test_every_orderly_end_delivers_and_keeps_the_exit_code(ending):
    with FakeServer() as server:
        ended = run(f"Monitor(url).log_query('a')\n{ending}", server.url)
        assert queries(server) == ["a"]
        assert ended.returncode == 3


def test_the_wait_at_the_end_is_bounded():
    with FakeServer(FakeReply(after=threading.Event())) as server:
        story = """
monitor = Monitor(url, options=Options(exit_timeout_s=0.1))
atexit.register(lambda: print(monitor.stats().dropped))
monitor.log_query('a')
"""
        ended = run(story, server.url)
        assert ended.returncode == 0


def test_a_query_logged_while_the_interpreter_ends_is_delivered_by_close():
    story = """
monitor = Monitor(url)
@atexit.register
def last_words():
    monitor.log_query('late')
    print(monitor.close())
"""
    with FakeServer() as server:
        assert run(story, server.url).stdout == "True\n"
        assert queries(server) == ["late"]


def test_a_forked_child_sends_its_own_and_not_its_parents():
    story = """
monitor = Monitor(url, pipeline="p", options=Options(flush_interval_s=1000.0))
monitor.log_query("parent, first")
monitor.flush(10.0)
monitor.log_query("parent, before")
child = os.fork()
if child == 0:
    assert monitor.stats().logged == 0
    fds = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    assert not [fd for fd in fds if os.path.islink(fd) and "socket" in os.readlink(fd)]
    monitor.log_query("child")
    sys.exit(monitor.stats().logged)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
monitor.log_query("parent, after")
"""
    with FakeServer() as server:
        ended = run(story, server.url, flags=["-W", "ignore:This process:DeprecationWarning"])
        assert ended.stdout == "1\n"
        assert sorted(queries(server)) == sorted(
            ["child", "parent, first", "parent, before", "parent, after"]
        )
        assert sum(len(request.records) for request in server.requests) == 4


def test_a_server_that_forks_its_workers_may_create_the_monitor_first():
    story = """
monitor = Monitor(url)
workers = []
for worker in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(20):
            monitor.log_query(f"{worker}-{number}")
        sys.exit(0)
    workers.append(pid)
print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers))
print(threading.active_count())
"""
    with FakeServer() as server:
        assert run(story, server.url).stdout == "0 0 0\n1\n"
        assert sorted(queries(server)) == sorted(f"{w}-{n}" for w in range(3) for n in range(20))


def test_a_fork_in_the_middle_of_a_request_and_a_spool_write_leaves_the_child_working(tmp_path):
    story = """
monitor = Monitor(url, spool_dir=spool, options=Options(max_batch_records=1))
monitor.log_query("spooled")
while monitor.stats().spooled < 1:
    monitor.flush(0.01)
monitor.log_query("under way")
sys.stdin.readline()
child = os.fork()
if child == 0:
    monitor.log_query("child")
    print(monitor.flush(10.0), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(monitor.close(10.0))
"""
    with FakeServer(FakeReply(status=503), FakeReply(status=503)) as server:
        event = threading.Event()
        server.replies.append(FakeReply(after=event, keeps=True, body=b'{"accepted":1}'))
        command = [sys.executable, "-c", PREAMBLE + story, server.url, str(tmp_path)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as p:
            for _ in range(3):
                assert server.arrived.acquire(timeout=10.0)
            p.stdin.write("go\n")
            p.stdin.flush()
            assert p.stdout.readline() == "True\n"
            event.set()
            assert p.communicate(timeout=10.0)[0] == "True\n"
        assert sorted(queries(server)) == ["child", "spooled", "under way"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_deliver_at_their_end(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import multiprocessing, sys
from ragmon.client import Monitor

monitor = Monitor(sys.argv[1])

def work(name):
    monitor.log_query(name)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    children = [context.Process(target=work, args=(name,)) for name in "ab"]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children])
"""
    )
    with FakeServer() as server:
        ended = subprocess.run(
            [sys.executable, program, server.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.stdout, ended.stderr) == ("[0, 0]\n", "")
        assert sorted(queries(server)) == ["a", "b"]


def test_what_is_on_disk_survives_kill_9(tmp_path):
    story = """
monitor = Monitor(url, spool_dir=spool)
for number in range(50):
    monitor.log_query(str(number))
print(monitor.flush(10.0), monitor.stats().spooled, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with FakeServer(FakeReply(status=503)) as server:
        ended = subprocess.run(
            [sys.executable, "-c", PREAMBLE + story, server.url, str(tmp_path)],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert (ended.stdout, ended.returncode) == ("True 50\n", -signal.SIGKILL)
        with Monitor(server.url, spool_dir=tmp_path) as monitor:
            monitor.log_query("after")
            assert monitor.flush()
            assert monitor.stats().recovered == 50
        assert queries(server) == [*(str(number) for number in range(50)), "after"]


def test_a_child_that_outlives_its_parent_does_not_hold_on_to_the_spool(tmp_path):
    story = """
monitor = Monitor(url, spool_dir=spool)
monitor.log_query("parents")
monitor.flush(10.0)
if os.fork() == 0:
    os.close(1)
    sys.stdin.read()
os._exit(0)
"""
    with FakeServer(FakeReply(status=503)) as server:
        command = [sys.executable, "-c", PREAMBLE + story, server.url, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
            assert parent.wait(timeout=10.0) == 0
            with Monitor(server.url, spool_dir=tmp_path) as monitor:
                monitor.log_query("another process")
                assert monitor.flush()
            assert queries(server) == ["parents", "another process"]
