"""What one call costs the thread that makes it.

Run it by itself: ``python tests/benchmarks/bench_client.py``. The figures to trust are the CPU time
of the calling thread and its ratio to the floor of the same run: a new id and an append.
"""

import gc
import os
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager
from statistics import median
from subprocess import DEVNULL, PIPE
from types import SimpleNamespace

import pytest

from ragmon.client import Monitor

LIMIT_US = 20.0
BURST = 500
BURSTS = 40
PASSAGE = "The council pays for the upkeep of the road and of its verges. " * 6
ANSWER = "The council pays, as the by-law of 1998 says. " * 8
DICTS = [{"id": f"doc-{n}", "score": 0.9, "text": PASSAGE, "source": "by-law"} for n in range(5)]
OBJECTS = [
    SimpleNamespace(id=f"doc-{n}", page_content=PASSAGE, metadata={"source": "by-law"})
    for n in range(5)
]


SERVER = """
from ragmon.client.fake import FakeServer
with FakeServer() as server:
    print(server.url, flush=True)
    input()
"""


@contextmanager
def server():
    """A server in a process of its own, so that it does not share our interpreter lock."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.write("\n")


def floor():
    """The least a client can do: make an id, keep a reference."""
    kept = deque(maxlen=BURST)
    return lambda: kept.append(os.urandom(16).hex())


def logged(monitor, documents):
    def call():
        monitor.log_query(
            query="Who pays for the road?",
            answer=ANSWER,
            retrieved_docs=documents,
            latency_ms={"total": 812.0, "retrieval": 41.0, "generation": 771.0},
            citations=["doc-1"],
            user_feedback="positive",
            pipeline="support",
            version="2026.1",
            tags={"tenant": "acme"},
        )

    return call


def timed(monitor):
    def call():
        with monitor.query("Who pays for the road?", pipeline="support") as q:
            with q.retrieval():
                pass
            q.retrieved(DICTS)
            with q.generation():
                pass
            q.answered(ANSWER, citations=["doc-1"])

    return call


def cpu_us(call, monitor=None):
    """Median over bursts of the calling thread's CPU time per call, in microseconds."""
    figures = []
    for _ in range(BURSTS):
        began = time.thread_time_ns()
        for _ in range(BURST):
            call()
        figures.append((time.thread_time_ns() - began) / BURST / 1000.0)
        if monitor is not None:
            monitor.flush(10.0)
    return median(figures)


def wall_us(call, monitor, gap_us=1000.0):
    """Wall time of single calls at a steady 1000 a second, the worker running: p50, p99, worst."""
    figures = []
    for _ in range(3000):
        began = time.perf_counter_ns()
        call()
        ended = time.perf_counter_ns()
        figures.append((ended - began) / 1000.0)
        while time.perf_counter_ns() < began + gap_us * 1000.0:
            pass
    monitor.flush(10.0)
    figures.sort()
    return figures[1500], figures[2970], figures[-1]


def measure():
    """Rows of (what, CPU microseconds, ratio to the floor)."""
    gc.collect()
    least = cpu_us(floor())
    rows = [("floor: os.urandom id + deque.append", least, 1.0)]
    with server() as url, Monitor(url) as monitor:
        cases = {
            "log_query, 5 dictionaries": logged(monitor, DICTS),
            "log_query, 5 document objects": logged(monitor, OBJECTS),
            "log_query, 50 dictionaries": logged(monitor, DICTS * 10),
            "with monitor.query(), 2 stages": timed(monitor),
            "log_feedback": lambda: monitor.log_feedback("q", "positive"),
        }
        for name, call in cases.items():
            figure = cpu_us(call, monitor)
            rows.append((name, figure, figure / least))
        paced = [wall_us(call, monitor) for call in (floor(), logged(monitor, DICTS))]
        assert sum(monitor.stats().dropped.values()) == 0
    return rows, paced


@pytest.mark.benchmark
def test_a_call_costs_at_most_20_us():
    rows, paced = measure()
    for name, figure, ratio in rows:
        print(f"{name:38} {figure:7.2f} us  {ratio:6.1f} x floor")
    for name, figures in zip(("floor", "log_query"), paced, strict=True):
        print(
            "{:9} wall at 1000/s: p50 {:.1f} us, p99 {:.1f} us, worst {:.1f} us".format(
                name, *figures
            )
        )
    assert rows[1][1] <= LIMIT_US
    assert rows[2][1] <= LIMIT_US


if __name__ == "__main__":
    test_a_call_costs_at_most_20_us()
    sys.exit()
