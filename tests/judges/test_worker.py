"""The judge's process, as the daemon starts it."""

import signal
import subprocess
import sys

import msgspec
import pytest

from ragmon.judges.worker import AnswerToRead, WorkerReply, WorkerStart, read, write

COMMAND = [sys.executable, "-m", "ragmon.judges.worker", "1.0"]
CASE = AnswerToRead("When?", "The office opens at nine.", ["The office opens at nine on weekdays."])


@pytest.fixture
def worker():
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        start = msgspec.msgpack.decode(read(process.stdout), type=WorkerStart)
        assert start.version
        assert not start.error
        yield process
        process.kill()


def judge(worker):
    write(worker.stdin, [CASE])
    reply = msgspec.msgpack.decode(read(worker.stdout), type=WorkerReply)
    (result,) = reply.results
    assert reply.cpu_s >= 0.0
    return result.score


def test_ctrl_c_in_the_terminal_is_for_the_daemon(worker):
    before = judge(worker)
    worker.send_signal(signal.SIGINT)
    assert judge(worker) == before  # it is the daemon that decides what is still judged
    worker.stdin.close()
    assert worker.wait(10) == 0
    assert worker.stderr.read() == b""


def test_it_ends_when_its_input_does(worker):
    assert judge(worker) > 0.5
    worker.stdin.close()
    assert worker.wait(10) == 0
