"""Applications under uvicorn and gunicorn: at each of their ends no record is lost."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from ragmon.client.fake import FakeServer
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

APPLICATION = """
import os
from ragmon.client import Monitor, Options

# Nothing is delivered before the end.
options = Options(flush_interval_s=1000.0, max_batch_records=10**5, max_batch_bytes=10**8)
monitor = Monitor(os.environ["RAGMON_URL"], options=options)

async def app(scope, receive, send):
    assert scope["type"] == "http"
    for number in range(100):
        monitor.log_query("q", "a", query_id=f"{scope['path']}-{number}")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})
"""
REQUESTS = 20


def commands(port):
    gunicorn = ["gunicorn", "-k", "uvicorn_worker.UvicornWorker", "-b", f"127.0.0.1:{port}"]
    uvicorn = ["uvicorn", "--port", str(port)]
    return {
        "uvicorn, SIGTERM": uvicorn,
        "uvicorn, SIGINT": uvicorn,
        "uvicorn, two workers, SIGTERM": [*uvicorn, "--workers", "2"],
        "uvicorn, limit of requests": [*uvicorn, "--limit-max-requests", str(REQUESTS)],
        "gunicorn, SIGTERM": gunicorn,
        "gunicorn, loaded before it forks, SIGTERM": [*gunicorn, "--preload"],
        "gunicorn, limit of requests": [*gunicorn, "--max-requests", "7"],
    }


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url):
    """True when a server answers there: a worker that has just ended may not."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read() == b"ok"
    except OSError:
        return False


@pytest.mark.parametrize("how", commands(0))
def test_what_was_logged_arrives_whatever_ends_the_server(tmp_path, how):
    port = free_port()
    program, *arguments = commands(port)[how]
    for module in (program, "uvicorn_worker" if program == "gunicorn" else program):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    (tmp_path / "application.py").write_text(APPLICATION)
    command = [sys.executable, "-m", program, *arguments, "application:app"]
    with FakeServer() as server, (tmp_path / "log").open("wb") as log:
        environment = {**os.environ, "RAGMON_URL": server.url}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            for number in range(REQUESTS):
                url = f"http://127.0.0.1:{port}/{number}"
                eventually(lambda url=url: answers(url), "the server answers", 60)
            if not how.startswith("uvicorn, limit"):
                process.send_signal(signal.SIGINT if how.endswith("SIGINT") else signal.SIGTERM)
            process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        # A request that was sent again because its worker had ended has the same ids.
        eventually(
            lambda: len(server.records["queries"]) == REQUESTS * 100,
            f"all records arrive\n{(tmp_path / 'log').read_text()}",
            10,
        )
