"""SIGTERM: what was logged is delivered, and the process ends as it would have."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from ragmon.client.fake import FakeReply, FakeServer

PREAMBLE = """
import os, signal, sys, threading, time
from ragmon.client import Monitor, Options
url = sys.argv[1]
def options(**others):
    return Options(flush_interval_s=1000.0, **others)
def end():
    os.kill(os.getpid(), signal.SIGTERM)
"""


def run(story, url):
    """Run a program to its end; it must say nothing on its standard error."""
    command = [sys.executable, "-W", "error", "-c", PREAMBLE + story, url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr == ""
    return ended


def queries(server):
    return [record["query"] for record in server.records["queries"]]


def test_by_default_it_ends_the_process_after_delivery():
    story = "monitor = Monitor(url, options=options())\nmonitor.log_query('a')\nend()\nprint('on')"
    with FakeServer() as server:
        ended = run(story, server.url)
        assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "")
        assert queries(server) == ["a"]


def test_an_option_leaves_it_alone():
    story = """
monitor = Monitor(url, options=options(close_at_sigterm=False))
monitor.log_query('a')
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
end()
"""
    with FakeServer() as server:
        ended = run(story, server.url)
        assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "True\n")
        assert queries(server) == []


def test_a_monitor_that_is_turned_off_sets_no_handler():
    story = "Monitor(None)\nprint(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    with FakeServer() as server:
        assert run(story, server.url).stdout == "True\n"


def test_where_it_is_ignored_it_stays_ignored():
    story = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
monitor = Monitor(url)
end()
print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)
"""
    with FakeServer() as server:
        assert run(story, server.url).stdout == "True\n"


def test_a_handler_of_the_application_is_called_and_delivery_begins():
    story = """
calls = []
signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
monitor = Monitor(url, options=options())
monitor.log_query('a')
end()
while monitor.stats().sent < 1:
    time.sleep(0.01)
monitor.log_query('b')
while monitor.stats().sent < 2:
    time.sleep(0.01)
print(calls == [signal.SIGTERM])
"""
    with FakeServer() as server:
        ended = run(story, server.url)
        assert (ended.returncode, ended.stdout) == (0, "True\n")


def test_a_handler_that_a_fork_has_reset_is_set_again():
    story = """
monitor = Monitor(url, options=options())
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monitor.log_query('child')
    end()
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""
    with FakeServer() as server:
        assert run(story, server.url).stdout == f"{-signal.SIGTERM}\n"
        assert queries(server) == ["child"]


def test_a_monitor_made_in_another_thread_logs_as_ever():
    story = """
def work():
    monitor = Monitor(url)
    monitor.log_query('a')
    print(monitor.close())
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
    with FakeServer() as server:
        assert run(story, server.url).stdout == "True\nTrue\n"


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("sys.stdin.read()", id="while it waits"),
        pytest.param("monitor.close()", id="while it closes"),
    ],
)
def test_the_signal_waits_for_a_delivery_under_way(ending):
    release = threading.Event()
    story = f"""
monitor = Monitor(url, options=options(exit_timeout_s=60.0))
monitor.log_query('a')
monitor.hasten()
print('waits', flush=True)
{ending}
"""
    reply = FakeReply(after=release, keeps=True, body=b'{"accepted":1}')
    with FakeServer(reply) as server, started(story, server.url) as process:
        process.stdout.readline()
        assert server.arrived.acquire(timeout=30.0)
        os.kill(process.pid, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        release.set()
        assert process.wait(30.0) == -signal.SIGTERM
        assert queries(server) == ["a"]


def test_a_second_signal_ends_the_process_at_once():
    story = """
class Loud(Monitor):
    def close(self, timeout_s=None):
        print('closes', flush=True)
        return super().close(timeout_s)
monitor = Loud(url, options=options(exit_timeout_s=1000.0, read_timeout_s=1000.0))
monitor.log_query('a')
monitor.hasten()
sys.stdin.read()
"""
    release = threading.Event()
    with FakeServer(FakeReply(after=release)) as server, started(story, server.url) as process:
        assert server.arrived.acquire(timeout=30.0)
        os.kill(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == b"closes\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30.0) == -signal.SIGTERM
        release.set()


@contextmanager
def started(story, url):
    """A program that is killed at the end, if it has not ended."""
    command = [sys.executable, "-c", PREAMBLE + story, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
